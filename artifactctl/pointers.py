"""The small text that git-lfs leaves in place of a file: recognised, so that it is never taken for the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

LONGEST = 1024  # by git-lfs's own specification a pointer is shorter
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize ([0-9]+)\n\Z"
)


@dataclass(frozen=True, slots=True)
class Pointer:
    sha256: str
    size_bytes: int
    length: int  # of the pointer itself

    def __str__(self) -> str:
        return f"a {self.length}-byte pointer file of git-lfs"


def parse(content: bytes) -> Pointer | None:
    found = _POINTER.match(content) if len(content) < LONGEST else None
    return Pointer(found[1].decode(), int(found[2]), len(content)) if found else None


def pointer_in(path: Path) -> Pointer | None:
    """What a file points to; None for a file with contents of its own, and for one that cannot be read."""
    try:
        if path.stat().st_size >= LONGEST:
            return None
        return parse(path.read_bytes())
    except OSError:
        return None
