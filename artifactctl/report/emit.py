"""A result as one JSON document on stdout, or as text for people."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from artifactctl.cli.options import Result, Settings
from artifactctl.report import github


def finish(settings: Settings, result: Result) -> int:
    if result.text and not settings.quiet:
        print_text(settings, result.text)
    github.summarize(f"artifactctl {settings.command}", result.text)
    if result.error is None:
        if settings.json:
            _document(settings, True, 0, None, result.data)
        return 0
    error = {"name": result.error.name, "message": str(result.error), "hint": result.error.hint}
    return failure(settings, result.error.exit_code, error, result.data)


def failure(settings: Settings, code: int, error: dict[str, str], data: dict[str, Any]) -> int:
    label = paint(settings, f"{error['name']}:", "red", sys.stderr)
    sys.stderr.write(f"{label} {error['message']}\nNext: {error['hint']}\n")
    github.annotate(error["name"], error["message"])
    if settings.json:
        _document(settings, False, code, error, data)
    return code


def print_text(settings: Settings, text: str) -> None:
    stream = sys.stderr if settings.json else sys.stdout
    stream.write(text + "\n")
    stream.flush()


def _document(settings: Settings, ok: bool, code: int, error: dict[str, str] | None, data: dict[str, Any]) -> None:
    document = {"ok": ok, "exit_code": code, "command": settings.command, "error": error, "data": data}
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def paint(settings: Settings, text: str, color: str, stream: Any) -> str:
    import click

    plain = not settings.color or "NO_COLOR" in os.environ or not stream.isatty()
    return text if plain else click.style(text, fg=color, bold=True)
