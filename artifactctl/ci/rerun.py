"""A release that was begun before: a run that is repeated starts from its old commit, and the tag is of a later one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from artifactctl import cells
from artifactctl.ci import stage
from artifactctl.git.repository import Repository, open_repository
from artifactctl.versions import tag_name

OWN = ("artifacts/", "baselines/")  # what a release commits


@contextmanager
def at_release(root: Path, entry: Mapping[str, Any]) -> Iterator[None]:
    """The working tree holds the release of a version, where it has one; else it is left as it is."""
    with open_repository(root) as repository:
        commit = repository.commit_at(f"refs/tags/{tag_name(entry['model'], entry['version'])}")
        before = repository.branch
        if commit and not repository.is_ancestor(commit, "HEAD"):
            made = (root / stage.relative(entry)).resolve()
            repository.run(
                "clean", "-fdq", "--", str(made), str(cells.folder_of(made))
            )  # the tag has the same, or says so
            if before and _only_releases(repository, root, commit):
                repository.run("merge", "--quiet", "--ff-only", commit)
            else:
                own_branch(repository, commit)
        now = repository.branch
    yield
    if before and now != before:
        with open_repository(root) as repository:
            repository.run("switch", "--quiet", before)


def own_branch(repository: Repository, commit: str) -> None:
    """What it lacks stays on this machine; a run that is repeated on the same machine has made it before."""
    repository.run("switch", "--quiet", "-C", f"artifactctl-{os.environ.get('GITHUB_RUN_ID', 'run')}", commit)


def _only_releases(repository: Repository, root: Path, commit: str) -> bool:
    """Nobody but releases came in between, so that the branch may follow and the next model goes on top."""
    if not repository.is_ancestor("HEAD", commit):
        return False
    top = root.resolve().relative_to(repository.root.resolve())
    places = tuple((top / name).as_posix() + "/" for name in OWN)
    changed = repository.run("diff", "--name-only", "-z", "HEAD", commit).split("\0")
    return all(name.startswith(places) for name in changed if name)
