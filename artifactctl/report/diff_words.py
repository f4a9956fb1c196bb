"""What changed between two models, in words and rows: for the terminal, for Markdown, for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from artifactctl import differences, verdicts
from artifactctl.report.bench import plural
from artifactctl.report.names import visible
from artifactctl.report.text import number
from artifactctl.versions import folder_name

if TYPE_CHECKING:
    from artifactctl.changes import Change
    from artifactctl.differences import ModelDifferences, WeightDifferences
    from artifactctl.interface import ValueChange
    from artifactctl.steps.diff import Diff
    from artifactctl.steps.sides import Side

MOST = 20
HISTORY = "numbers of different runs are history, not a verdict"
WEIGHT_HEAD = ("weight", "change", "before", "after", "elements", "max |Δ|", "÷ largest")
_SHA256 = 64


def operator_count(described: Mapping[str, Any]) -> int:
    """Constants are weights."""
    return sum(entry["count"] for entry in described["operators"])


def title_of(side: Side) -> str:
    return f"{side.name} {folder_name(side.version)}" if side.version else side.model.name


def summary(found: Diff) -> str:
    """How much is equal, in one sentence."""
    model, (before, after) = found.model, found.described
    operators, weights = plural(operator_count(after), "operator"), plural(len(after["weights"]), "weight")
    if model is None or before is None:
        return f"the first version: {operators}, {weights}"
    if model.equal == differences.BYTES:
        return f"the same model: {operators}, {weights}, equal bytes"
    if model.equal == differences.MODEL:
        return f"the same model: {operators}, {weights}, equal graph and weights; the bytes differ{_why_bytes(model)}"
    if not model.in_common:
        return "nothing in common: no input, output or weight of one is in the other"
    kept = f"{model.weights.equal} of {plural(len(before['weights']), 'weight')} kept"
    if model.equal == differences.GRAPH:
        return f"the same graph of {operators}; {_weights_of_one_graph(model, kept)}{_declared(found)}"
    return f"another graph: {operator_count(before)} → {operators}; {kept}"


def _why_bytes(model: ModelDifferences) -> str:
    parts = [
        f"{plural(count, 'weight')} {what}"
        for count, what in ((len(model.weights.renamed), "renamed"), (len(model.weights.moved), "stored otherwise"))
        if count
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _weights_of_one_graph(model: ModelDifferences, kept: str) -> str:
    if model.in_place:
        return "the same weights"
    moved = model.weights.equal == model.weights.before == model.weights.after
    return "the same weights, at other places" if moved else f"the weights differ: {kept}"


def _declared(found: Diff) -> str:
    assert found.model is not None
    other = ["inputs or outputs"] if found.model.values else []
    other += ["opset"] if any(change.what.startswith("opset ") for change in found.changes) else []
    return f"; other {' and '.join(other)}" if other else ""


def remarks(found: Diff) -> list[str]:
    said = []
    files = [side for side in (found.before, found.after) if side is not None and side.metadata is None]
    if files:
        names = " and ".join(dict.fromkeys(visible(title_of(side)) for side in files))
        said.append(f"no artifact, so without a recorded recipe, proof and speed: {names}")
    if found.model and (count := found.model.weights.not_compared):
        limit = differences.MOST_ELEMENTS
        said.append(f"{plural(count, 'changed weight')} not compared in numbers: {limit:,} elements are, at most")
    return said


def value_text(change: ValueChange) -> str:
    one, other = (type_text(side) for side in (change.before, change.after))
    what = {"added": f"added, {other}", "removed": f"removed, was {one}", "moved": "at another place"}
    return f"{change.kind} {visible(change.name)}: {visible(what.get(change.change, f'{one} → {other}'))}"


def type_text(value: Mapping[str, Any] | None) -> str:
    if value is None:
        return "–"
    shape = value["shape"]
    sizes = "of any rank" if shape is None else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
    return f"{value['dtype']} {sizes}"


def change_row(change: Change) -> tuple[str, str, str]:
    after = _value(change.what, change.after)
    if change.what == "size_bytes" and change.before and change.after is not None:
        after += f" ({(change.after - change.before) / change.before:+.1%})"
    names = {
        "size_bytes": "size",
        "ir_version": "IR",
        "max_error": "largest error",
        "max_abs": "largest |Δ|",
        "statement": "bound",
    }
    section = f"{change.section} " if change.section in ("session", "source") else ""
    return section + names.get(change.what, change.what.replace("_", " ")), _value(change.what, change.before), after


def _value(what: str, value: Any) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:+.4f}" if what == "accuracy_drop" else f"{value:.3g}"
    if what == "size_bytes":
        return f"{value:,} bytes"
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return f"{text[:12]}…" if len(text) == _SHA256 and what.startswith(("file ", "configuration")) else text


def weight_rows(weights: WeightDifferences) -> Iterable[tuple[str, ...]]:
    """What changed most comes first; what only has another name or place comes last."""
    for change in weights.changed:
        count = "–" if change.elements_changed is None else f"{change.elements_changed:,} of {change.elements:,}"
        numbers = (count, number(change.max_abs), number(change.max_rel))
        yield (change.name, "changed", type_text(change.before), type_text(change.after), *numbers)
    for weight in weights.removed:
        yield (weight["name"], "removed", type_text(weight), "–", "–", "–", "–")
    for weight in weights.added:
        yield (weight["name"], "added", "–", type_text(weight), "–", "–", "–")
    for one, other in weights.renamed:
        yield (one, "renamed", "equal bytes", other, "–", "–", "–")
    for name in weights.moved:
        yield (name, "stored otherwise", "equal bytes", "equal bytes", "–", "–", "–")


def weight_counts(weights: WeightDifferences) -> str:
    parts = [
        f"{count} {what}"
        for count, what in (
            (weights.same, "the same"),
            (len(weights.changed), "changed"),
            (len(weights.added), "added"),
            (len(weights.removed), "removed"),
            (len(weights.renamed), "renamed"),
            (len(weights.moved), "stored otherwise"),
        )
        if count
    ]
    return f"{weights.before} before, {weights.after} now: {', '.join(parts) or 'none'}"


def speed_text(found: Diff) -> str:
    if paired := found.speed["paired"]:
        return verdicts.sentence(paired)
    times = [found.speed[key] for key in ("before_p50_ms", "after_p50_ms")]
    if found.before is None or None in times:
        return ""
    return f"p50 {times[0]:.4g} ms → {times[1]:.4g} ms; {HISTORY}"
