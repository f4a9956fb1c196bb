"""The only user of GitPython."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactctl.errors import NotAvailable, ReleaseError
from artifactctl.versions import folder_name, parse_folder_name

if TYPE_CHECKING:
    import git


@dataclass(frozen=True, slots=True)
class Blob:
    """A file of a commit."""

    oid: str
    size_bytes: int


def describe(directory: Path) -> dict[str, Any]:
    """git's version and the repository around a folder, as far as there is one."""
    try:
        import git
    except ImportError as error:  # GitPython refuses to load where there is no git
        return {"version": None, "repository": False, "detail": str(error).splitlines()[0]}
    found: dict[str, Any] = {"version": ".".join(str(part) for part in git.Git().version_info), "repository": False}
    try:
        with git.Repo(directory, search_parent_directories=True) as repository:
            found |= {"repository": True, "dirty": repository.is_dirty(untracked_files=True)}
    except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.GitCommandError):
        pass
    return found


@contextlib.contextmanager
def _opened(place: Path) -> Iterator[git.Repo]:
    try:
        import git
    except ImportError as error:  # GitPython refuses to load where there is no git
        raise NotAvailable(f"git cannot be used: {str(error).splitlines()[0]}", hint="Install git.") from None
    try:
        repository = git.Repo(place, search_parent_directories=True)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        raise ReleaseError(f"{place.name or place} is not in a git repository", hint="git init") from None
    with repository:
        try:
            yield repository
        except git.GitCommandError as error:
            said = str(error.stderr).strip().removeprefix("stderr:").strip(" '\n")
            raise ReleaseError(f"git failed: {said or error.status}") from None


def toplevel(place: Path) -> Path:
    """The working tree around a folder."""
    with _opened(place) as repository:
        if repository.working_tree_dir is None:
            raise ReleaseError("the repository is bare: it has no files", hint="Run it in a clone.")
        return Path(repository.working_tree_dir).resolve()


def tagged_versions(home: Path, model: str) -> list[int]:
    """The versions of a model that have a tag in the repository around `home`, oldest first."""
    try:
        with _opened(home) as repository:
            names = [tag.name.rpartition("/") for tag in repository.tags]
    except (NotAvailable, ReleaseError, ValueError):
        return []
    return sorted(version for owner, _, name in names if owner == model and (version := parse_folder_name(name)))


def tagged_commit(home: Path, model: str, version: int) -> str | None:
    """The commit that a version's tag names; None where there is no such tag."""
    try:
        with _opened(home) as repository:
            name = f"{model}/{folder_name(version)}"
            tag = next((tag for tag in repository.tags if tag.name == name), None)
            return tag.commit.hexsha if tag else None
    except (NotAvailable, ReleaseError, ValueError):
        return None


def files_at(place: Path, commit: str) -> dict[str, Blob]:
    """Every file of a commit, by its path from the top of the repository."""
    with _opened(place) as repository:
        listed = repository.git.ls_tree("-r", "-z", "--long", "--full-tree", commit, strip_newline_in_stdout=False)
    found = {}
    for row in listed.split("\0"):
        entry, _, path = row.partition("\t")
        _, kind, oid, size = entry.split() if path else ("", "", "", "")
        if kind == "blob":
            found[path] = Blob(oid, int(size))
    return found


def read_blob(place: Path, blob: Blob) -> bytes:
    with _opened(place) as repository:
        content = repository.git.cat_file("blob", blob.oid, stdout_as_string=False, strip_newline_in_stdout=False)
    assert isinstance(content, bytes)
    return content


def write_blob(place: Path, blob: Blob, target: Path) -> None:
    with _opened(place) as repository, target.open("wb") as file:
        repository.git.cat_file("blob", blob.oid, output_stream=file)


def blob_ids(place: Path, files: Sequence[Path]) -> list[str]:
    """What git would call these bytes, with no filter in between."""
    with _opened(place) as repository:
        return str(repository.git.hash_object("--no-filters", "--", *map(str, files))).split()


def ignored(place: Path, paths: Sequence[Path]) -> list[Path]:
    """Those that a .gitignore keeps out; what is in the index already is not kept out."""
    with _opened(place) as repository:
        found = set(repository.ignored(*map(str, paths)))
    return [path for path in paths if str(path) in found]


def filtered(place: Path, paths: Sequence[Path], by: str) -> list[Path]:
    """Those that the attributes send through a filter."""
    with _opened(place) as repository:
        words = str(repository.git.check_attr("-z", "filter", "--", *map(str, paths))).split("\0")
    found = {path for path, _, value in zip(words[::3], words[1::3], words[2::3], strict=False) if value == by}
    return [path for path in paths if str(path) in found]


def setting(place: Path, key: str) -> str | None:
    """A value of git's configuration, from whatever level."""
    with _opened(place) as repository:
        return str(repository.git.config("--get", key, with_exceptions=False)) or None
