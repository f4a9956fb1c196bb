"""One command of artifactctl, as people type it, and its JSON document."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from artifactctl import cli
from artifactctl.report import github

_OWN = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")  # the step itself speaks to GitHub, once


@dataclass(frozen=True, slots=True)
class Outcome:
    line: str  # that a person types to see the same
    code: int
    data: dict[str, Any]
    error: dict[str, str] | None


def run(*words: str) -> Outcome:
    """What it says to people goes to stderr, as always; names in it that look like commands stay names."""
    written = io.StringIO()
    with github.commands_off(), _unseen(), contextlib.redirect_stdout(written):
        code = cli.run(["--json", *words])
    document = json.loads(written.getvalue())
    return Outcome(typed(*words), code, document["data"], document["error"])


def typed(*words: str) -> str:
    return shlex.join(["artifactctl", *words])


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    hidden = {name: os.environ.pop(name) for name in _OWN if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
