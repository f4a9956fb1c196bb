"""What changed between two models, for machines and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from artifactctl.report import diff_words as words
from artifactctl.report.names import visible
from artifactctl.report.text import table

if TYPE_CHECKING:
    from artifactctl.interface import ValueChange
    from artifactctl.steps.diff import Diff
    from artifactctl.steps.sides import Side


def diff_data(found: Diff) -> dict[str, Any]:
    assert found.model is not None
    assert found.before is not None
    weights = found.model.weights
    return {
        "a": _side_data(found.before, found.described[0] or {}),
        "b": _side_data(found.after, found.described[1]),
        "same": found.model.same,
        "equal": found.model.equal,
        "breaking": bool(found.model.breaking),
        "in_common": found.model.in_common,
        "summary": words.summary(found),
        "inputs": [_value_data(change) for change in found.model.values if change.kind == "input"],
        "outputs": [_value_data(change) for change in found.model.values if change.kind == "output"],
        "operators": [asdict(change) for change in found.model.operators],
        "weights": {
            "before": weights.before,
            "after": weights.after,
            "same": weights.same,
            "moved": list(weights.moved),
            "renamed": [{"before": one, "after": other} for one, other in weights.renamed],
            "added": [_weight_data(weight) | {"name": weight["name"]} for weight in weights.added],
            "removed": [_weight_data(weight) | {"name": weight["name"]} for weight in weights.removed],
            "changed": [
                {"name": change.name, "before": _weight_data(change.before), "after": _weight_data(change.after)}
                | {key: getattr(change, key) for key in ("elements_changed", "max_abs", "max_rel", "compared")}
                for change in weights.changed
            ],
            "not_compared": weights.not_compared,
        },
        "changes": [asdict(change) for change in found.changes],
        "latency": dict(found.speed),
        "remarks": words.remarks(found),
    }


def _side_data(side: Side, described: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "path": side.label,
        "model": side.name,
        "version": side.version,
        "sha256": side.sha256,
        "size_bytes": described["size_bytes"],
        "parameters": described["parameters"],
        "operators": words.operator_count(described),
        "weights": len(described["weights"]),
    }


def _value_data(change: ValueChange) -> dict[str, Any]:
    found = asdict(change)
    del found["kind"]
    return found


def _weight_data(weight: Mapping[str, Any]) -> dict[str, Any]:
    return {key: weight[key] for key in ("stored", "dtype", "shape", "sha256")}


def diff_text(found: Diff) -> str:
    assert found.model is not None
    assert found.before is not None
    model = found.model
    lines = [
        f"{'BREAKING' if change.breaking else 'changed':<9} {words.value_text(change)}"
        for change in _first(model.values)
    ]
    lines += _rest(model.values, "inputs and outputs")
    lines.append(f"result    {words.summary(found)}")
    lines.append(f"from      {_label(found.before)}")
    lines.append(f"to        {_label(found.after)}")
    rows = [tuple(visible(part, 60) for part in words.change_row(change)) for change in found.changes]
    lines += ["", table(("what", "before", "after"), rows)] if rows else []
    if model.operators:
        kinds = [
            (visible(change.operator), visible(change.domain), str(change.before), str(change.after))
            for change in _first(model.operators)
        ]
        lines += ["", table(("operator", "domain", "before", "after"), kinds), *_rest(model.operators, "kinds")]
    rows = list(words.weight_rows(model.weights))
    if rows:
        shown = [tuple(visible(part, 60) for part in row) for row in _first(rows)]
        lines += ["", table(words.WEIGHT_HEAD, shown), *_rest(rows, "weights")]
    lines += ["", f"weights   {words.weight_counts(model.weights)}"]
    lines += [f"speed     {visible(text, 300)}" for text in [words.speed_text(found)] if text]
    lines += [f"remark    {text}" for text in words.remarks(found)]
    return "\n".join(lines)


def _label(side: Side) -> str:
    label, title = visible(side.label, 200), visible(words.title_of(side))
    return label if side.version is None else f"{label} ({title})"


def _first(entries: Sequence[Any]) -> Sequence[Any]:
    return entries[: words.MOST]


def _rest(entries: Sequence[Any], what: str) -> list[str]:
    return [f"… and {len(entries) - words.MOST} more {what}"] if len(entries) > words.MOST else []
