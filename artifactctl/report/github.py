"""What GitHub Actions shows: an annotation for an error, and the result on the step's summary page."""

from __future__ import annotations

import os
import sys
from pathlib import Path

SUMMARY_BYTES = 900_000  # GitHub refuses more than 1 MiB a step


def active() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotate(name: str, message: str) -> None:
    """On stderr, which the runner reads as well, so that stdout stays one JSON document."""
    if active():
        sys.stderr.write(f"::error title=artifactctl {escape_property(name)}::{escape(message)}\n")


def escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    return escape(text).replace(":", "%3A").replace(",", "%2C")


def summarize(title: str, text: str) -> None:
    """Append to the summary page; the text stands in a fence that it cannot close."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place or not text:
        return
    fence = "`" * max(3, 1 + max((len(run) for run in _runs_of_backticks(text)), default=0))
    page = f"### {title}\n\n{fence}\n{text}\n{fence}\n\n".encode()[:SUMMARY_BYTES]
    with Path(place).open("ab") as file:
        file.write(page)


def _runs_of_backticks(text: str) -> list[str]:
    import re

    return re.findall(r"`+", text)
