"""The only user of GitPython."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from artifactctl.versions import parse_folder_name


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


def tagged_versions(home: Path, model: str) -> list[int]:
    """The versions of a model that have a tag in the repository around `home`, oldest first."""
    try:
        import git
    except ImportError:
        return []
    try:
        with git.Repo(home, search_parent_directories=True) as repository:
            names = [tag.name.rpartition("/") for tag in repository.tags]
    except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.GitCommandError, ValueError):
        return []
    return sorted(version for owner, _, name in names if owner == model and (version := parse_folder_name(name)))


def fetch_tagged(home: Path, model: str, version: int, target: Path) -> Path | None:
    """An artifact's folder as its tag holds it, written below `target`; None where there is no such tag."""
    try:
        import git
    except ImportError:
        return None
    try:
        with git.Repo(home, search_parent_directories=True) as repository:
            tag = next((tag for tag in repository.tags if tag.name == f"{model}/artifact_v{version}"), None)
            if tag is None:
                return None
            place = f"/{model}/artifact_v{version}/"
            found = None
            for blob in tag.commit.tree.traverse():
                if not isinstance(blob, git.Blob):
                    continue
                at = f"/{blob.path}".find(place)
                if at >= 0:
                    inner = f"/{blob.path}"[at + len(place) :]
                    found = target / f"artifact_v{version}"
                    (found / inner).parent.mkdir(parents=True, exist_ok=True)
                    with (found / inner).open("wb") as file:
                        blob.stream_data(file)
            return found
    except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.GitCommandError, ValueError):
        return None
