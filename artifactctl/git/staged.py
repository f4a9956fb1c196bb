"""What a commit that is made now would leave out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from artifactctl import git
from artifactctl.errors import NotAvailable, ReleaseError
from artifactctl.folder import DVC_SUFFIX as DVC
from artifactctl.folder import SUMS, listing, shown
from artifactctl.git.repository import Repository, open_repository

UNTRACKED, IGNORED, CLEAN = "??", "!!", "  "


def staged_problems(artifact: Path, inputs: Sequence[Path]) -> dict[str, str]:
    """What a commit made now would leave out of an artifact and of what it was built from; each with the line to type.

    A folder that is ignored as a whole is stored elsewhere; then its .dvc file counts, where there is one. Inputs that
    git does not know are the user's business.
    """
    pointer = artifact.with_name(artifact.name + DVC)
    files = [artifact / name for name in listing(artifact)]
    states = _states(artifact, (artifact, pointer, *inputs))
    ignored = [path for path in files if states.get(_real(path)) == IGNORED]
    if states and len(ignored) == len(files):
        files, ignored = [pointer] if pointer.is_file() else [], []
    problems = {}
    if ignored:
        what = f"{shown(ignored[0])} is ignored by git, but other files of {artifact.name} are not"
        problems[what] = f"git add --force {shown(artifact)}"
    elif left := [path for path in files if states.get(_real(path), CLEAN)[1] != " "]:
        more = f" (nor are {len(left) - 1} more of its files)" if len(left) > 1 else ""
        problems[f"{shown(left[0])} is not staged as it is on the disk{more}"] = add_command(artifact)
    for path in inputs:
        if (state := states.get(_real(path), CLEAN)) not in (UNTRACKED, IGNORED) and state[1] != " ":
            what = f"{shown(path)} is not staged as {artifact.name} was built from it"
            problems[what] = f"git add {shown(path)}"
    return problems


def add_command(artifact: Path) -> str:
    """The line that brings an artifact, built or not yet, into the next commit; empty where git does not want it."""
    name = shown(artifact)
    if not git.around(artifact):
        return ""
    if any(artifact.parent.glob(f"*{DVC}")):
        return f"dvc add {name} && git add {name}{DVC}"
    with _asked(artifact) as repository:
        inside = (_real(artifact) / SUMS).relative_to(repository.root.resolve()).as_posix()
        return "" if repository.ignored(inside) else f"git add {name}"


def _states(artifact: Path, paths: Sequence[Path]) -> dict[Path, str]:
    """The two letters of `git status` for whatever is not clean; the second one is the disk against the index."""
    if not git.around(artifact):
        return {}
    options = ("--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignored=traditional")
    with _asked(artifact) as repository:
        top = repository.root.resolve()
        inside = [path.relative_to(top).as_posix() for path in map(_real, paths) if path.is_relative_to(top)]
        text = repository.run("status", *options, "--", *inside)
    return {top / entry[3:]: entry[:2] for entry in text.split("\0") if entry}


def _real(path: Path) -> Path:
    """As git names it: through links to folders, but not through the last link."""
    return path.absolute().parent.resolve() / path.name


@contextlib.contextmanager
def _asked(artifact: Path) -> Iterator[Repository]:
    """Nothing is released here: what git refuses is not there to be asked."""
    try:
        with open_repository(_real(artifact)) as repository:
            yield repository
    except ReleaseError as error:
        raise NotAvailable(f"git cannot be asked: {error}", hint=error.hint) from None
