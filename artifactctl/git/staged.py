"""What a commit that is made now would leave out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from artifactctl.errors import NotAvailable
from artifactctl.folder import DVC_SUFFIX as DVC
from artifactctl.folder import SUMS, listing, shown

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
    name, top = shown(artifact), _top(artifact)
    if top is None:
        return ""
    if any(artifact.parent.glob(f"*{DVC}")):
        return f"dvc add {name} && git add {name}{DVC}"
    inside = (_real(artifact) / SUMS).relative_to(top).as_posix()
    ignored = _run(top, "check-ignore", "--quiet", "--", inside, expected=(0, 1))[0] == 0
    return "" if ignored else f"git add {name}"


def _states(artifact: Path, paths: Sequence[Path]) -> dict[Path, str]:
    """The two letters of `git status` for whatever is not clean; the second one is the disk against the index."""
    if (top := _top(artifact)) is None:
        return {}
    inside = [path.relative_to(top).as_posix() for path in map(_real, paths) if path.is_relative_to(top)]
    options = ("--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignored=traditional")
    _, text = _run(top, "--no-optional-locks", "--literal-pathspecs", "status", *options, "--", *inside)
    return {top / entry[3:]: entry[:2] for entry in text.split("\0") if entry}


def _top(path: Path) -> Path | None:
    """The top of the working tree around a path."""
    return next((place for place in _real(path).parents if (place / ".git").exists()), None)


def _real(path: Path) -> Path:
    """As git names it: through links to folders, but not through the last link."""
    return path.absolute().parent.resolve() / path.name


def _run(top: Path, *arguments: str, expected: tuple[int, ...] = (0,)) -> tuple[int, str]:
    """At the top, where git's own hooks run: what they say of the index in GIT_INDEX_FILE is relative to it."""
    try:
        import git
    except ImportError as error:
        raise NotAvailable(f"git cannot be run: {str(error).splitlines()[0]}") from None
    code, out, err = git.Git(top).execute(["git", *arguments], with_extended_output=True, with_exceptions=False)
    if code not in expected:
        raise NotAvailable(f"git cannot be asked: {str(err).strip()}", hint="Mend what git says, and run it again.")
    return int(code), str(out)
