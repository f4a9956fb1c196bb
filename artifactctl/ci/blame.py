"""Which line of artifactctl.yaml set the bound that failed."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl import yamlfile
from artifactctl.config import CONFIG_NAME
from artifactctl.errors import ConfigError
from artifactctl.yamlfile import Place

_KEYS = {
    "OptimizeError": ("optimize", "recipes"),
    "LatencyRegression": ("latency", "max_regression"),
    "NotProven": ("latency", "budget_s"),
    "SourceError": ("source",),
}
_MEASURES = ("max_abs", "min_cosine", "min_top1", "max_accuracy_drop")
_PLACE = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):\d+: ")


@dataclass(frozen=True, slots=True)
class Line:
    file: str
    number: int


def line_of(
    error: str, message: str, model: str | None = None, provider: str | None = None, outputs: Collection[str] = ()
) -> Line | None:
    """Where the message names a line itself, that one; None where there is no configuration.

    `outputs` are those that failed, where that is known.
    """
    path = Path.cwd() / CONFIG_NAME
    if (said := _PLACE.match(message)) and (Path.cwd() / said["file"]).is_file():
        return Line(_from_the_top(Path.cwd() / said["file"]), int(said["line"]))
    try:
        document = yamlfile.read(path)
    except ConfigError:
        return None
    top: Place = ("models", model) if model else ("models",)
    if error == "NotEquivalent":
        place = _bound(document, top, provider, message, outputs)
    elif provider:
        place = _provider(document, top, provider)
    else:
        place = (*top, *_KEYS.get(error, ()))
    _, number, _ = document.where(place).rsplit(":", 2)
    return Line(_from_the_top(path), int(number))


def _bound(
    document: yamlfile.Document, top: Place, provider: str | None, message: str, outputs: Collection[str]
) -> Place:
    """A provider's own bound stands for all outputs; else an output's own, else the model's."""
    shared: Place = (*top, "equivalence")
    named = [place for place in document.places if place[:-1] == (*shared, "outputs")]
    failed = [place for place in named if place[-1] in outputs or f"output {place[-1]!r}" in message]
    own: list[Place] = [(*top, "providers", provider)] if provider else []
    for owner in (*own, *failed, shared):
        for measure in _MEASURES:
            if _value(document.data, (*owner, measure)) is not None:
                return (*owner, measure)
    return shared


def _provider(document: yamlfile.Document, top: Place, provider: str) -> Place:
    """Its key, or its item of the list."""
    asked = _value(document.data, (*top, "providers"))
    item = asked.index(provider) if isinstance(asked, list) and provider in asked else provider
    return (*top, "providers", item)


def _value(data: Any, place: Place) -> Any:
    for part in place:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _from_the_top(path: Path) -> str:
    top = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    return os.path.relpath(path.resolve(), top).replace(os.sep, "/")
