"""What GitHub Actions reads: annotations, outputs of a step, its summary page. No text can break out of its place."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

SUMMARY_BYTES = 900_000  # GitHub refuses more than 1 MiB a step
CUT = "\n\n*The page was cut: it is longer than GitHub shows.*\n"


def active() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotate(name: str, message: str, file: str | None = None, line: int | None = None, level: str = "error") -> None:
    """On stderr, which the runner reads as well, so that stdout stays one JSON document."""
    place = f"file={escape_property(file)}," if file else ""
    place += f"line={line}," if file and line else ""
    text = escape(message.replace("::", ": :"))  # which end the head of a command, for some readers wherever they stand
    _say(f"::{level} {place}title=artifactctl {escape_property(name)}::{text}")


@contextlib.contextmanager
def commands_off() -> Iterator[None]:
    """The runner obeys `::name::` at the start of any line of the log and `##[name]` anywhere in it; not in here."""
    mark = f"artifactctl-{secrets.token_hex(16)}"
    _say(f"::stop-commands::{mark}")
    try:
        yield
    finally:
        _say(f"::{mark}::")


def _say(line: str) -> None:
    if active():
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    return escape(text).replace(":", "%3A").replace(",", "%2C")


def output(values: Mapping[str, str]) -> None:
    """For the steps and jobs after this one. The delimiter is random: no value can end itself and begin another."""
    place = os.environ.get("GITHUB_OUTPUT")
    if not place:
        return
    lines = []
    for name, value in values.items():
        mark = f"artifactctl_{secrets.token_hex(16)}"
        lines.append(f"{name}<<{mark}\n{value}\n{mark}\n")
    with Path(place).open("ab") as file:
        file.write(_bytes("".join(lines)))


def summarize(title: str, text: str) -> None:
    """Append to the summary page; the text stands in a fence that it cannot close."""
    if text:
        longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
        fence = "`" * max(3, 1 + longest)
        append_page(f"### {title}\n\n{fence}\n{_cut(text, SUMMARY_BYTES - 1000)}\n{fence}\n\n")


def append_page(markdown: str) -> None:
    """The limit is of the step, whose commands all append to one file; over it, GitHub shows nothing at all."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place and markdown:
        with Path(place).open("ab") as file:
            file.write(_bytes(_cut(markdown, SUMMARY_BYTES - file.tell())))


def _bytes(text: str) -> bytes:
    """A file's name need not be text."""
    return text.encode(errors="backslashreplace")


def _cut(text: str, most: int) -> str:
    """At the end of a line: half a code span would let out what it holds."""
    if len(_bytes(text)) <= most:
        return text
    kept = _bytes(text)[: max(0, most - len(CUT))].decode(errors="ignore")
    return (kept.rpartition("\n")[0] + CUT) if kept else ""
