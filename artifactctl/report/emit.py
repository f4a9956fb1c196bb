"""A result as one JSON document on stdout, or as text for people."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from artifactctl.cli.options import Result, Settings
from artifactctl.report import github


def finish(settings: Settings, result: Result) -> int:
    """Say it, and return the exit code, which does not depend on whether anyone still listens."""
    with _deaf_reader():
        if result.text and not settings.quiet:
            stream = sys.stderr if settings.json else sys.stdout
            stream.write(result.text + "\n")
            stream.flush()
        github.summarize(f"artifactctl {settings.command}", result.text)
        if result.error is None and settings.json:
            _document(settings, True, 0, None, result.data)
    if result.error is None:
        return 0
    error = {"name": result.error.name, "message": str(result.error), "hint": result.error.hint}
    return failure(settings, result.error.exit_code, error, result.data)


def failure(settings: Settings, code: int, error: dict[str, str], data: dict[str, Any]) -> int:
    label = paint(settings, f"{error['name']}:", "red", sys.stderr)
    with _deaf_reader():
        sys.stderr.write(f"{label} {error['message']}\nNext: {error['hint']}\n")
        github.annotate(error["name"], error["message"])
        if settings.json:
            _document(settings, False, code, error, data)
    return code


@contextlib.contextmanager
def _deaf_reader() -> Iterator[None]:
    """`artifactctl … | head` closes the pipe; that is no error."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _document(settings: Settings, ok: bool, code: int, error: dict[str, str] | None, data: dict[str, Any]) -> None:
    document = {"ok": ok, "exit_code": code, "command": settings.command, "error": error, "data": data}
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def paint(settings: Settings, text: str, color: str, stream: Any) -> str:
    import click

    plain = not settings.color or "NO_COLOR" in os.environ or not stream.isatty()
    return text if plain else click.style(text, fg=color, bold=True)
