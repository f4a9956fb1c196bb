"""What two models are and what two artifacts recorded, side by side: the rows that differ. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from artifactctl.versions import folder_name

Metadata = Mapping[str, Any]
Rows = dict[tuple[str, str], Any]

SECTIONS = ("model", "recipe", "session", "proof", "accuracy", "source", "runtime")
PAIRED = ("verdict", "ratio", "ratio_low", "ratio_high", "limit", "pairs", "provider", "against", "reason")


@dataclass(frozen=True, slots=True)
class Change:
    section: str  # model, recipe, session, proof, accuracy, runtime, source
    what: str
    before: Any
    after: Any


def changes(
    models: tuple[Mapping[str, Any] | None, Mapping[str, Any]], recorded: tuple[Metadata | None, Metadata | None]
) -> list[Change]:
    """Rows in a fixed order. What only artifacts record is compared where both are artifacts, or against nothing."""
    rows = [_model_rows(models[0]), _model_rows(models[1])]
    if recorded[1] is not None and (recorded[0] is not None or models[0] is None):
        rows[0] |= _recorded_rows(recorded[0])
        rows[1] |= _recorded_rows(recorded[1])
    found = []
    for section, what in {**rows[1], **rows[0]}:
        one, other = rows[0].get((section, what)), rows[1].get((section, what))
        if one != other:
            found.append(Change(section, what, one, other))
    return sorted(found, key=lambda change: SECTIONS.index(change.section))


def _model_rows(model: Mapping[str, Any] | None) -> Rows:
    if model is None:
        return {}
    found = {"size_bytes": model["size_bytes"], "parameters": model["parameters"], "precision": model["precision"]}
    found |= {f"opset {domain}": version for domain, version in model["opsets"].items()}
    found |= {"ir_version": model["ir_version"], "portability": model["portability"]}
    return {("model", what): value for what, value in found.items()}


def _recorded_rows(recorded: Metadata | None) -> Rows:
    return {} if recorded is None else {(section, what): value for section, what, value in _recorded(recorded)}


def _recorded(meta: Metadata) -> Iterator[tuple[str, str, Any]]:
    yield "model", "model_name", meta["model_name"]
    yield "recipe", "recipe", meta["recipe"]["name"]
    yield "recipe", "optimization", meta["optimization"]
    yield "recipe", "passes", ", ".join(f"{item['name']} ({item['status']})" for item in meta["recipe"]["passes"])
    session = meta["session"]
    for key in ("provider", "graph_level", "intra_op_threads", "inter_op_threads", "allow_spinning"):
        yield "session", key, session[key]
    for key, value in sorted(session["options"].items()):
        yield "session", f"option {key}", value
    for key in ("statement", "max_abs", "max_error", "samples"):
        yield "proof", key, meta["equivalence"][key]
    yield "proof", "reference", meta["reference"]["framework"]
    yield "accuracy", "accuracy_drop", meta["accuracy_drop"]
    source = meta["source"]
    yield "source", "kind", source["kind"]
    yield "source", "license", source.get("license")
    yield "source", "configuration", source["config_sha256"]
    for entry in source["files"]:
        yield "source", f"file {entry['path']}", entry["sha256"]
    yield "runtime", "runtime", meta["runtime"]
    for key in ("artifactctl", "python", "system", "machine"):
        yield "runtime", key, meta["environment"][key]
    for name, version in sorted(meta["environment"]["packages"].items()):
        yield "runtime", f"package {name}", version


def speed(before: Metadata | None, after: Metadata | None, digest: str | None) -> dict[str, Any]:
    """Pairs, where B was measured against just this A (`digest` is of all its files); else two numbers of two runs."""
    times = {
        "before_p50_ms": before["latency_ms"] if before else None,
        "after_p50_ms": after["latency_ms"] if after else None,
    }
    paired = _paired(before, after, digest) if before and after else None
    return times | {"paired": paired}


def _paired(before: Metadata, after: Metadata, digest: str | None) -> dict[str, Any] | None:
    """A version's number alone could be another model's: the digest that B recorded must be A's."""
    report = (after["latency"] or {}).get("previous")
    past = after["previous"]
    if not report or not past or digest is None:
        return None
    if after["model_name"] != before["model_name"] or report["against"] != folder_name(before["version"]):
        return None
    if (past["version"], past["sha256"]) != (before["version"], digest):
        return None
    bounds = {report[key] is None for key in ("ratio", "ratio_low", "ratio_high")}
    complete = len(bounds) == 1 and all(key in report for key in PAIRED)
    return {key: report[key] for key in PAIRED} if complete else None
