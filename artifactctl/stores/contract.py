"""What every store does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that would make a release fail, and what to type about it."""

    message: str
    hint: str


class Store(Protocol):
    """Each function may be run again after it was killed, and gives the same."""

    def preflight(self, root: Path, artifact: Path, *, push: bool = False) -> list[Problem]:
        """What stands in the way; writes nothing."""

    def belongings(self, artifact: Path) -> list[Path]:
        """What `track` will return, without doing it: a release may find these changed or untracked."""

    def track(self, root: Path, artifact: Path) -> list[Path]:
        """What to `git add`, made ready. The artifact's own files are not touched."""

    def push(self, root: Path, artifact: Path, remote: str) -> None:
        """The bytes that `git push` does not carry, brought to where others find them: before the tag is pushed."""
