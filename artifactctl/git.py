"""The only user of GitPython."""

from __future__ import annotations

from pathlib import Path
from typing import Any


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
