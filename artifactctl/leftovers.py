"""What a killed build or release leaves behind: found, named, and removed when asked."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from artifactctl import folder
from artifactctl.alive import ALIVE, is_dead, is_free
from artifactctl.crew import HOME_PREFIX
from artifactctl.errors import ArtifactctlError
from artifactctl.git.repository import Repository, open_repository
from artifactctl.steps import publish
from artifactctl.versions import folder_name, package_name, tag_name

MEND = "artifactctl doctor --mend"
STALE_S = 10.0  # a lock that a living git holds is younger


@dataclass(frozen=True, slots=True)
class Leftover:
    what: str
    type: str  # what to type about it
    path: Path | None = None  # what `doctor --mend` removes


def find(root: Path) -> list[Leftover]:
    """In the project at `root` and the repository around it."""
    found = [*_parts(root), *_scratch(root / "artifacts"), *_temporary(Path(tempfile.gettempdir()))]
    try:
        with open_repository(root) as repository:
            found += [*_git_files(repository), *_releases(root, repository), *_unpushed(repository)]
    except ArtifactctlError:
        pass  # no git, no releases
    return found


def mend(found: list[Leftover]) -> list[Leftover]:
    """What was removed; a begun release is gone on with by `release`, not removed."""
    removed = []
    for item in found:
        if item.path is not None:
            shutil.rmtree(item.path) if item.path.is_dir() else item.path.unlink(missing_ok=True)
            removed.append(item)
    return removed


def _parts(root: Path) -> Iterator[Leftover]:
    for pattern in ("dist/.*.part", "baselines/.*.part", "artifacts/*/.*.part", "artifacts/*/*.cells/.*.part"):
        for path in sorted(root.glob(pattern)):
            if is_dead(path):
                yield Leftover(f"{folder.shown(path)} was never finished", MEND, path)


def _temporary(place: Path) -> Iterator[Leftover]:
    """Folders of commands that are not alive: nobody holds their lock."""
    for path in sorted(place.glob(f"{HOME_PREFIX}*")):
        if (path / ALIVE).exists() and is_free(path / ALIVE):
            yield Leftover(f"{path.name} in the temporary folder is of a command that was killed", MEND, path)


def _scratch(artifacts: Path) -> Iterator[Leftover]:
    for path in sorted((artifacts / folder.WORK).glob("*@build-*")):
        if is_free(path.parent / f"{path.name.partition('@')[0]}.lock"):
            yield Leftover(f"{folder.shown(path)} is of a build or release that was killed", MEND, path)


def _git_files(repository: Repository) -> Iterator[Leftover]:
    """Locks of git, in the repository and in remotes that are folders of this machine."""
    homes = {repository.git_dir: ".git", repository.common_dir: ".git"}
    homes |= {place: f"of {name}" for name, place in repository.local_remotes().items()}
    for home, name in homes.items():
        locks = [*home.glob("*.lock"), *(home / "refs").rglob("*.lock"), *home.glob("artifactctl-*.index*")]
        locks += home.glob("objects/tmp_objdir-*")  # what a push had brought, not yet taken in
        stale = [path for path in locks if _age_s(path) > STALE_S]
        if stale and not _git_is_alive(repository.root, home):
            for path in sorted(stale):
                yield Leftover(f"a git that was killed left {path.relative_to(home).as_posix()} ({name})", MEND, path)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:  # its git has just ended
        return 0.0


def _git_is_alive(*places: Path) -> bool:
    """A git that works there, or waits for an editor, holds its lock for as long as it likes."""
    import psutil

    for process in psutil.process_iter(["name", "cwd"]):
        name, cwd = process.info["name"] or "", process.info["cwd"]
        if name.startswith("git") and cwd and any(Path(cwd).is_relative_to(place.resolve()) for place in places):
            return True
    return False


def _unpushed(repository: Repository) -> Iterator[Leftover]:
    for name, remote in publish.intents(repository).items():
        model, _, version = name.rpartition("-artifact_v")
        again = f"artifactctl release {model}@v{version} --push --remote {remote}"
        yield Leftover(f"the release of {model} artifact_v{version} was not pushed to {remote}", again)


def _releases(root: Path, repository: Repository) -> Iterator[Leftover]:
    """Releases that were begun: packaged or committed without a tag, or tagged without what goes beside it."""
    homes = sorted(home for home in (root / "artifacts").glob("*") if home.is_dir() and home.name != folder.WORK)
    top = repository.root.resolve()
    for home in homes:
        for version in folder.versions(home)[-1:]:
            name, path = package_name(home.name, version), home / folder_name(version)
            tagged = repository.tag(tag_name(home.name, version)) is not None
            packaged = (root / "dist" / f"{name}.zip").exists()
            whole = (root / "dist" / f"{name}.SHA256SUMS").exists()
            place = path.resolve().relative_to(top).as_posix() if path.resolve().is_relative_to(top) else None
            held = place is not None and repository.object_at("HEAD", place) is not None
            state = _state(tagged=tagged, packaged=packaged, whole=whole, held=held)
            if state:
                again = f"artifactctl release {home.name}@v{version} --resume"
                yield Leftover(f"the release of {home.name} {folder_name(version)} is half done: {state}", again)


def _state(*, tagged: bool, packaged: bool, whole: bool, held: bool) -> str | None:
    if tagged:
        return "tagged, and its files in dist/ are not complete" if packaged and not whole else None
    if packaged:
        return f"packaged{' and committed' if held else ''}, not tagged"
    return None
