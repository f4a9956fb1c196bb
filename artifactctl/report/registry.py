"""The registry, for machines and for people."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from artifactctl.report.text import table

if TYPE_CHECKING:
    from artifactctl.registry import Model, Released
    from artifactctl.tags import Event


def models_data(models: Mapping[str, Model]) -> dict[str, Any]:
    return {"models": [model_data(model) for model in models.values()]}


def model_data(model: Model, only: Released | None = None) -> dict[str, Any]:
    chosen = [only] if only else list(model.versions)
    return {
        "model": model.name,
        "latest": model.latest.version,
        "versions": [version_data(item) for item in chosen],
    }


def version_data(item: Released) -> dict[str, Any]:
    tag = item.event.tag
    return {
        "version": item.version,
        "tag": tag.name,
        "commit": tag.commit,
        "time": _time(tag.time_s),
        "stages": list(item.stages),
        "yanked": item.yanked,
        "trailers": dict(item.event.trailers),
    }


def history_data(model: Model) -> dict[str, Any]:
    return {
        "model": model.name,
        "events": [
            {
                "kind": event.kind,
                "version": event.version,
                "stage": event.stage,
                "tag": event.tag.name,
                "commit": event.tag.commit,
                "time": _time(event.tag.time_s),
                "text": event.tag.subject,
                "trailers": dict(event.trailers),
            }
            for event in model.events
        ],
    }


def models_text(models: Mapping[str, Model]) -> str:
    if not models:
        return "nothing is released yet: artifactctl release MODEL"
    rows = [
        (
            model.name,
            f"v{model.latest.version}",
            str(len(model.versions)),
            _stages(model),
            _fact(model.latest, "Latency"),
        )
        for model in models.values()
    ]
    return table(("model", "latest", "versions", "stages", "speed"), rows)


def model_text(model: Model) -> str:
    rows = [
        (
            f"v{item.version}",
            _time(item.event.tag.time_s)[:10],
            ", ".join(item.stages) or "–",
            f"withdrawn: {item.yanked}" if item.yanked is not None else "",
            _fact(item, "Equivalence"),
            _fact(item, "Latency"),
        )
        for item in model.versions
    ]
    return table((model.name, "released", "stages", "remark", "proof", "speed"), rows)


def version_text(item: Released) -> str:
    return item.event.tag.message.rstrip()


def history_text(model: Model) -> str:
    rows = [(_time(event.tag.time_s), f"v{event.version}", _what(event), event.tag.name) for event in model.events]
    return table(("when", "version", "what", "tag"), rows)


def _what(event: Event) -> str:
    if event.kind == "assign":
        return f"assigned to {event.stage}"
    if event.kind == "yank":
        return f"withdrawn: {event.trailers.get('Artifact-Reason', '')}"
    return f"released: {event.trailers.get('Artifact-Equivalence', '')}"


def _stages(model: Model) -> str:
    return ", ".join(f"{stage} v{item.version}" for item in model.versions for stage in item.stages) or "–"


def _fact(item: Released, name: str) -> str:
    return item.event.trailers.get(f"Artifact-{name}", "–")


def _time(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
