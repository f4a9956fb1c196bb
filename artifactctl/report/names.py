"""Names and values that others chose, made harmless for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

LONGEST = 100
_MARKS = {"`": "\\u0060", "\\": "\\u005c", "<": "\\u003c"}  # what could end a code span, a table's cell or open HTML


def visible(text: Any, longest: int = LONGEST) -> str:
    """On one line, without anything that a terminal obeys; the ends of long names tell them apart."""
    found = "".join(letter if letter.isprintable() else _escaped(letter) for letter in str(text))
    return found if len(found) <= longest else f"{found[: longest // 3]}…{found[-(longest - longest // 3 - 1) :]}"


def _escaped(letter: str) -> str:
    point = ord(letter)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def code(text: Any, longest: int = LONGEST) -> str:
    """As a code span that may stand in a table's cell: there nothing is a link, a mention, HTML or another cell."""
    shown = visible(text, longest)
    if not shown.strip():
        return "(empty)" if not shown else f"({len(shown)} blanks)"
    return f"`{''.join(_MARKS.get(letter, letter) for letter in shown)}`"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A bar in a cell is escaped here, last; no backslash that came from outside is left before one."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |" for line in lines)
