"""Which line of artifactctl.yaml set the bound that failed."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from artifactctl import yamlfile
from artifactctl.config import CONFIG_NAME
from artifactctl.errors import ConfigError

_KEYS = {
    "NotEquivalent": ("equivalence", "max_abs"),
    "OptimizeError": ("optimize", "recipes"),
    "LatencyRegression": ("latency", "max_regression"),
    "NotProven": ("latency", "budget_s"),
    "SourceError": ("source",),
}
_PLACE = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):\d+: ")


@dataclass(frozen=True, slots=True)
class Line:
    file: str
    number: int


def line_of(error: str, message: str, model: str | None = None, provider: str | None = None) -> Line | None:
    """Where the message names a line itself, that one; None where there is no configuration."""
    path = Path.cwd() / CONFIG_NAME
    if said := _PLACE.match(message):
        return Line(said["file"], int(said["line"]))
    try:
        document = yamlfile.read(path)
    except ConfigError:
        return None
    place: tuple[str | int, ...] = ("models", model) if model else ("models",)
    own = (*place, "providers", provider) if provider else place
    if provider and own in document.places:
        place = (*own, "max_abs")
    elif provider and error != "NotEquivalent":
        place = (*place, "providers")
    else:
        place = (*place, *_KEYS.get(error, ()))
    _, number, _ = document.where(place).rsplit(":", 2)
    top = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    return Line(os.path.relpath(path, top).replace(os.sep, "/"), int(number))
