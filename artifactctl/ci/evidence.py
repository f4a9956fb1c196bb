"""The files that the cells hand over; what cannot be read, or claims what it does not show, is kept as damaged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl import schema
from artifactctl.providers import PROVIDERS
from artifactctl.versions import is_model_name


@dataclass(frozen=True, slots=True)
class Evidence:
    """A file that came back, and what it says; None where it is no JSON."""

    name: str
    data: Any

    @property
    def damage(self) -> str:
        """Why it is no evidence; empty where it is. Its names are names of files, so they are looked at too."""
        if not isinstance(self.data, dict):
            return "it is no JSON object"
        if found := schema.problems(self.data, "cell"):
            return found[0].message
        if self.data["provider"] not in PROVIDERS:
            return "its provider is not in the table"
        return "" if is_model_name(self.data["model"]) else "its model has no valid name"

    @property
    def cell(self) -> tuple[str, str]:
        return self.data["model"], self.data["provider"]


def read(place: Path) -> list[Evidence]:
    """Every file of the folder, never one less."""
    found = []
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        try:
            data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        except (OSError, ValueError, RecursionError):
            data = None
        found.append(Evidence(path.relative_to(place).as_posix(), data))
    return found


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")
