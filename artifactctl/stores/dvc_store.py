"""release.store: dvc. The folder goes into DVC's cache and remote; git holds artifact_vN.dvc, its digest."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

from artifactctl import folder, git, process
from artifactctl.errors import ReleaseError, SourceError
from artifactctl.stores.contract import Problem
from artifactctl.stores.git_store import ignored_problems

INSTALL = "pip install 'artifactctl[dvc]', or: pipx install dvc"
LOCK_PATIENCE_S = 60.0  # a DVC that outlived its killed parent needs a moment to finish
_LOCKED = ("Unable to acquire lock", "is being blocked by")


def version(root: Path) -> str | None:
    """None where DVC is not installed, or does not run."""
    done = _dvc("--version", cwd=root)
    return done.out.strip() or None if done.code == 0 else None


def preflight(root: Path, artifact: Path, *, push: bool = False) -> list[Problem]:
    found = ignored_problems(root, belongings(artifact))
    initialised = home_of(artifact, git.toplevel(root)) is not None
    if not initialised:
        found.append(Problem("DVC is not set up in this repository", "dvc init && git commit -m 'Set up DVC'"))
    if shutil.which("dvc") is None:
        found.append(Problem("release.store is dvc, and DVC is not installed", INSTALL))
    elif push and initialised and not _dvc("config", "core.remote", cwd=artifact.parent).out.strip():
        message = "DVC has no default remote, so nobody else could fetch the artifact"
        found.append(Problem(message, "dvc remote add --default NAME URL && git commit -m 'DVC remote' .dvc/config"))
    return found


def belongings(artifact: Path) -> list[Path]:
    return [dvc_file(artifact), artifact.parent / ".gitignore"]


def track(root: Path, artifact: Path) -> list[Path]:
    before = _states(artifact)
    # whatever cache.type says: the artifact's files stay plain files and do not become links into the cache
    done = _dvc("add", "--quiet", "--no-relink", artifact.name, cwd=artifact.parent)
    if done.code != 0:
        hint = INSTALL if done.code == process.NOT_FOUND else None
        raise ReleaseError(f"dvc add {artifact.name} failed: {done.why}", hint=hint)
    if _states(artifact) != before:
        raise ReleaseError(f"DVC changed the files of {artifact.name}", hint=f"dvc unprotect {folder.shown(artifact)}")
    if recorded_digest(dvc_file(artifact).read_bytes()) != digest(artifact):
        message = f"{dvc_file(artifact).name} does not have every file of {artifact.name}"
        raise ReleaseError(message, hint="Look for patterns in .dvcignore that leave files out.")
    return belongings(artifact)


def push(root: Path, artifact: Path, remote: str) -> None:
    """To DVC's default remote; `remote` is git's and holds no data."""
    done = _dvc("push", "--quiet", dvc_file(artifact).name, cwd=artifact.parent)
    if done.code != 0:
        hint = INSTALL if done.code == process.NOT_FOUND else f"dvc push {folder.shown(dvc_file(artifact))}"
        raise ReleaseError(f"DVC could not push {artifact.name}: {done.why}", hint=hint)


def get(top: Path, place: str, commit: str, recorded: bytes, target: Path, told: str) -> None:
    """A folder as a commit's .dvc file describes it: from DVC's cache, else from its remote."""
    home = home_of(top / place, top) or top
    inner = (top / place).relative_to(home).as_posix()
    done = _dvc("get", "--quiet", home, inner, "--rev", commit, "--out", target, cwd=home)
    if done.code == 0 and recorded_digest(recorded) == digest(target):
        return
    missing = done.code == process.NOT_FOUND
    why = "DVC is not installed" if missing else done.why if done.code else "what it gave is something else"
    raise SourceError(
        f"{told} is a {len(recorded)}-byte .dvc file: a pointer file is not the model, and DVC cannot fetch it ({why})",
        hint=INSTALL if missing else f"dvc get {folder.shown(home)} {inner} --rev {told}",
    )


def dvc_file(artifact: Path) -> Path:
    return artifact.with_name(artifact.name + folder.DVC_SUFFIX)


def home_of(place: Path, top: Path) -> Path | None:
    """The folder of the DVC project around a place: the repository, or a part of it (`dvc init --subdir`)."""
    for parent in place.resolve().parents:
        if (parent / ".dvc").is_dir():
            return parent
        if parent == top:
            break
    return None


def recorded_digest(content: bytes) -> str | None:
    """What a .dvc file says of its folder; None for one that says it otherwise than DVC 3."""
    import yaml

    try:
        data: Any = yaml.safe_load(content)
        [entry] = data["outs"]
        return str(entry["md5"]) if entry["hash"] == "md5" else None
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        return None


def digest(artifact: Path) -> str:
    """As DVC calls a folder: the MD5 of the list of its files and their MD5. No DVC is needed to compare."""
    entries = []
    for name in folder.listing(artifact):
        with (artifact / name).open("rb") as file:
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        entries.append({"md5": md5.hexdigest(), "relpath": name})
    text = json.dumps(sorted(entries, key=lambda entry: entry["relpath"]), sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() + ".dir"


def _dvc(*words: str | Path, cwd: Path) -> process.Ended:
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        done = process.run(["dvc", *words], cwd)
        if done.code == 0 or not any(text in done.err for text in _LOCKED) or time.monotonic() > deadline:
            return done
        time.sleep(0.2)


def _states(artifact: Path) -> dict[str, tuple[int, ...]]:
    """What a file that was written to, replaced, linked or protected does not keep."""
    found = {name: (artifact / name).lstat() for name in folder.listing(artifact)}
    return {name: (state.st_mode, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in found.items()}
