"""release.store: lfs. Models and arrays go through git-lfs; what people read stays in git."""

from __future__ import annotations

import contextlib
from pathlib import Path

from artifactctl import folder, git, pointers, process
from artifactctl.errors import ReleaseError, SourceError
from artifactctl.stores import attributes, git_store
from artifactctl.stores.contract import Problem

INSTALL = "Install git-lfs with your system's packages (apt install git-lfs, brew install git-lfs)"
LINES = [
    attributes.AS_IT_IS,
    *(f"/{{version}}/**/{name} filter=lfs diff=lfs merge=lfs -text" for name in ("*.onnx", "*.onnx.data", "*.npz")),
]


def version(root: Path) -> str | None:
    """None where git-lfs is not installed."""
    done = process.run(["git", "lfs", "version"], root)  # git-lfs/3.5.1 (GitHub; linux amd64; go 1.22.2)
    return done.out.split()[0].rpartition("/")[2] if done.code == 0 and done.out.strip() else None


def preflight(root: Path, artifact: Path, *, push: bool = False) -> list[Problem]:
    files = [artifact / name for name in folder.listing(artifact)]
    found = git_store.ignored_problems(root, [*belongings(artifact), *files])
    if version(root) is None:
        found.append(Problem("release.store is lfs, and git-lfs is not installed", f"{INSTALL}."))
    elif not git.setting(root, "filter.lfs.clean"):
        # without it `git add` would commit the contents themselves, and say nothing
        found.append(Problem("git-lfs is not set up in this repository", "git lfs install --local"))
    for name in folder.listing(artifact):
        if pointer := pointers.pointer_in(artifact / name):
            message = f"{artifact.name}/{name} is {pointer}, not its contents"
            found.append(Problem(message, "git lfs pull"))
    return found


def belongings(artifact: Path) -> list[Path]:
    return git_store.belongings(artifact)


def track(root: Path, artifact: Path) -> list[Path]:
    attributes.add(artifact, LINES)
    return belongings(artifact)


def push(root: Path, artifact: Path, remote: str) -> None:
    """By name, without waiting for the pre-push hook: it is not there in every clone."""
    files = git.filtered(root, [artifact / name for name in folder.listing(artifact)], "lfs")
    oids = [folder.digest(file) for file in files if file.stat().st_size]
    if not oids:
        return
    done = process.run(["git", "lfs", "push", "--object-id", remote, *oids], root)
    if done.code != 0:
        hint = f"Look at 'git lfs env', then run the same command again. {INSTALL} if it is missing."
        raise ReleaseError(f"git-lfs could not push {artifact.name} to {remote}: {done.why}", hint=hint)


def smudge(root: Path, pointer: pointers.Pointer, content: bytes, target: Path, told: str) -> None:
    """The contents behind a pointer: from git-lfs's own folder, else from the remote; `told`: of which commit."""
    done = process.run(["git", "lfs", "smudge"], root, given=content, output=target)
    if done.code == 0 and folder.digest(target) == pointer.sha256:
        return
    with contextlib.suppress(OSError):
        target.unlink()
    why = done.why if done.code else "what it gave is something else"
    missing = "is not a git command" in done.err
    raise SourceError(
        f"{target.name} of {told} is {pointer}: a pointer file is not the model, and git-lfs cannot fetch it"
        f" ({'git-lfs is not installed' if missing else why})",
        hint=f"{f'{INSTALL}, then: ' if missing else ''}git lfs fetch origin {told}",
    )
