"""What is asked of the repository around a place, in one call each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl.errors import NotAvailable, ReleaseError
from artifactctl.git.repository import git_version, open_repository
from artifactctl.versions import parse_folder_name, tag_name


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a commit."""

    oid: str
    size_bytes: int


def describe(directory: Path) -> dict[str, Any]:
    """git's version and the repository around a folder, as far as there is one."""
    try:
        version = git_version()
    except NotAvailable as error:
        return {"version": None, "repository": False, "detail": str(error)}
    try:
        with open_repository(directory) as repository:
            return {"version": version, "repository": True, "dirty": bool(repository.changed())}
    except ReleaseError:
        return {"version": version, "repository": False}


def toplevel(place: Path) -> Path:
    """The working tree around a folder."""
    with open_repository(place) as repository:
        return repository.root.resolve()


def head_of(top: Path) -> str | None:
    """The commit that is checked out, where `top` is the top of a repository."""
    if not (top / ".git").exists():
        return None
    try:
        with open_repository(top) as repository:
            return repository.head
    except (NotAvailable, ReleaseError):
        return None


def around(place: Path) -> bool:
    """Whether there is a working tree around a place; asks no git."""
    return any((parent / ".git").exists() for parent in place.absolute().resolve().parents)


def tagged_versions(home: Path, model: str) -> list[int]:
    """The versions of a model that have a tag in the repository around `home`, oldest first."""
    if not around(home):
        return []
    try:
        with open_repository(home) as repository:
            names = [name.rpartition("/") for name in repository.tag_names()]
    except (NotAvailable, ReleaseError):
        return []
    return sorted(version for owner, _, name in names if owner == model and (version := parse_folder_name(name)))


def tagged_commit(home: Path, model: str, version: int) -> str | None:
    """The commit that a version's tag names; None where there is no such tag."""
    try:
        with open_repository(home) as repository:
            return repository.commit_at(f"refs/tags/{tag_name(model, version)}")
    except (NotAvailable, ReleaseError):
        return None


def files_at(place: Path, commit: str) -> dict[str, Blob]:
    """Every file of a commit, by its path from the top of the repository."""
    with open_repository(place) as repository:
        listed = repository.run("ls-tree", "-r", "-z", "--long", "--full-tree", commit)
    found = {}
    for row in listed.split("\0"):
        entry, _, path = row.partition("\t")
        _, kind, oid, size = entry.split() if path else ("", "", "", "")
        if kind == "blob":
            found[path] = Blob(oid, int(size))
    return found


def read_blob(place: Path, blob: Blob) -> bytes:
    with open_repository(place) as repository:
        return repository.read_bytes("cat-file", "blob", blob.oid)


def write_blob(place: Path, blob: Blob, target: Path) -> None:
    with open_repository(place) as repository, target.open("wb") as file:
        repository.write_to(file, "cat-file", "blob", blob.oid)


def blob_ids(place: Path, files: Sequence[Path]) -> list[str]:
    """What git would call these bytes, with no filter in between."""
    with open_repository(place) as repository:
        return repository.run("hash-object", "--no-filters", "--", *map(str, files)).split()


def ignored(place: Path, paths: Sequence[Path]) -> list[Path]:
    """Those that a .gitignore keeps out; what is in the index already is not kept out."""
    with open_repository(place) as repository:
        found = set(repository.ignored(*map(str, paths)))
    return [path for path in paths if str(path) in found]


def filtered(place: Path, paths: Sequence[Path], by: str) -> list[Path]:
    """Those that the attributes send through a filter."""
    with open_repository(place) as repository:
        words = repository.run("check-attr", "-z", "filter", "--", *map(str, paths)).split("\0")
    found = {path for path, _, value in zip(words[::3], words[1::3], words[2::3], strict=False) if value == by}
    return [path for path in paths if str(path) in found]


def setting(place: Path, key: str) -> str | None:
    """A value of git's configuration, from whatever level."""
    with open_repository(place) as repository:
        return repository.setting(key)
