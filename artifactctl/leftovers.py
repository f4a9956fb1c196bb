"""What a killed build or release leaves behind: found, named, and removed when asked."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from artifactctl import folder
from artifactctl.errors import ArtifactctlError
from artifactctl.git.repository import Repository, open_repository
from artifactctl.versions import folder_name, package_name, tag_name

STALE_S = 10.0  # a lock that a living git holds is younger


@dataclass(frozen=True, slots=True)
class Leftover:
    what: str
    type: str  # what to type about it
    path: Path | None = None  # what `doctor --mend` removes


def find(root: Path) -> list[Leftover]:
    """In the project at `root` and the repository around it."""
    found = [*_parts(root / "dist"), *_scratch(root / "artifacts")]
    try:
        with open_repository(root) as repository:
            found += [*_git_files(repository), *_releases(root, repository)]
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


def _parts(dist: Path) -> Iterator[Leftover]:
    for path in sorted(dist.glob(".*.part")):
        yield Leftover(f"{folder.shown(path)} was never finished", "artifactctl doctor --mend", path)


def _scratch(artifacts: Path) -> Iterator[Leftover]:
    from filelock import FileLock, Timeout

    for path in sorted((artifacts / folder.WORK).glob("*@build-*")):
        try:
            with FileLock(path.parent / f"{path.name.partition('@')[0]}.lock", timeout=0):
                yield Leftover(f"{folder.shown(path)} is of a build that was killed", "artifactctl doctor --mend", path)
        except Timeout:  # its build is alive
            continue


def _git_files(repository: Repository) -> Iterator[Leftover]:
    locks = [*repository.git_dir.glob("*.lock"), *(repository.git_dir / "refs").rglob("*.lock")]
    for path in sorted([*locks, *repository.git_dir.glob("artifactctl-*.index*")]):
        if time.time() - path.stat().st_mtime > STALE_S:
            name = path.relative_to(repository.git_dir).as_posix()
            yield Leftover(f"a git that was killed left .git/{name}", "artifactctl doctor --mend", path)


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
