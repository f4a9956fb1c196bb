"""Where a model runs: no recipe of ours ties it to hardware, and none breaks what optimize.min_runtime promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from artifactctl import recipes, releases
from artifactctl.crew import Crew
from artifactctl.errors import SourceError
from artifactctl.portability import TIED, on_this_cpu
from artifactctl.records import Candidate, ReferenceModel


def demand_promise(reference: ReferenceModel, crew: Crew) -> None:
    """The source itself must run on the oldest ONNX Runtime that is promised, or nothing made of it will."""
    promised = reference.source.config.min_runtime
    if broken := promised and releases.broken_promise(_look(reference.path, crew), promised):
        lower = " Or export it to an older one with source.opset." if reference.source.config.source.opset else ""
        raise SourceError(f"the source {broken}", hint=f"Raise optimize.min_runtime, or remove it.{lower}")


def hold(reference: ReferenceModel, candidate: Candidate, crew: Crew) -> Candidate:
    """The candidate, or without its model and with the reason where it would not run everywhere that it must."""
    if candidate.path is None:
        return candidate
    found = _look(candidate.path, crew)
    reason = releases.broken_promise(found, reference.source.config.min_runtime)
    if reason is None and not candidate.recipe.startswith(recipes.OLIVE_PREFIX) and is_tied(found["portability"]):
        same = found["portability"] == _look(reference.path, crew)["portability"]
        reason = None if same else f"tied to this hardware: its graph is {found['portability']}"
    return replace(candidate, path=None, failure=reason) if reason else candidate


def is_tied(portability: str) -> bool:
    return portability == "this-device" or portability.startswith(TIED)


def look_at_proved(path: Path, crew: Crew) -> dict[str, Any]:
    """The same of a model that was proved on this machine, which tells what its file may not."""
    found, machine = look(path, crew), crew.ask("runner", "describe_machine")["machine"]
    return {**found, "portability": on_this_cpu(found["portability"], machine)}


def look(path: Path, crew: Crew) -> dict[str, Any]:
    """What `inspect` and an artifact say about a model."""
    found = _look(path, crew)
    layers = crew.ask("runner", "saturating_layers", path=str(path)) if found["precision"] == "int8" else []
    return {**found, "min_runtime": releases.need_of(found).version, "saturation": layers}


def _look(path: Path, crew: Crew) -> Mapping[str, Any]:
    found: Mapping[str, Any] = crew.ask("runner", "inspect", path=str(path))
    return found
