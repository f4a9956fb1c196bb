"""Two descriptions of models in, what differs out: graph, operators, weights. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from artifactctl.interface import ValueChange, compare_values

BYTES, MODEL, GRAPH, NOTHING = "bytes", "model", "graph", "nothing"  # how much is equal, from all to none
MOST_ELEMENTS = 1 << 28  # of weights that are compared number by number

Description = Mapping[str, Any]  # of backends/compare.py


@dataclass(frozen=True, slots=True)
class OperatorChange:
    domain: str
    operator: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class WeightChange:
    """A weight of one name, with other bytes, type or shape; the numbers are of float weights of equal shape."""

    name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    elements_changed: int | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    compared: bool = False

    @property
    def elements(self) -> int:
        return count_elements(self.before["shape"])

    @property
    def comparable(self) -> bool:
        return bool(self.before["float"] and self.after["float"] and self.before["shape"] == self.after["shape"])


@dataclass(frozen=True, slots=True)
class WeightDifferences:
    before: int
    after: int
    same: int
    moved: tuple[str, ...]  # the same bytes under the same name: a Constant that was an initializer, or back
    renamed: tuple[tuple[str, str], ...]
    added: tuple[Mapping[str, Any], ...]
    removed: tuple[Mapping[str, Any], ...]
    changed: tuple[WeightChange, ...]

    @property
    def equal(self) -> int:
        return self.same + len(self.moved) + len(self.renamed)

    @property
    def not_compared(self) -> int:
        return sum(change.comparable and not change.compared for change in self.changed)


@dataclass(frozen=True, slots=True)
class ModelDifferences:
    equal: str  # BYTES, MODEL, GRAPH, NOTHING
    in_place: bool  # the same weights at the same places of the same graph
    in_common: bool
    values: tuple[ValueChange, ...]
    operators: tuple[OperatorChange, ...]
    weights: WeightDifferences

    @property
    def same(self) -> bool:
        return self.equal in (BYTES, MODEL)

    @property
    def breaking(self) -> tuple[ValueChange, ...]:
        return tuple(change for change in self.values if change.breaking)


def compare(before: Description, after: Description, *, equal_bytes: bool) -> ModelDifferences:
    values = compare_values(before, after)
    weights = compare_weights(before["weights"], after["weights"])
    in_place = before["content"] == after["content"]
    if equal_bytes:
        equal = BYTES
    elif in_place and not values and before["opsets"] == after["opsets"]:
        equal = MODEL
    else:
        equal = GRAPH if before["structure"] == after["structure"] else NOTHING
    names = [{value["name"] for side in ("inputs", "outputs") for value in each[side]} for each in (before, after)]
    common = bool(equal != NOTHING or names[0] & names[1] or weights.equal or weights.changed)
    return ModelDifferences(equal, in_place, common, values, compare_operators(before, after), weights)


def compare_operators(before: Description, after: Description) -> tuple[OperatorChange, ...]:
    counts = [
        {(entry["domain"], entry["operator"]): int(entry["count"]) for entry in side["operators"]}
        for side in (before, after)
    ]
    found = [
        OperatorChange(*kind, counts[0].get(kind, 0), counts[1].get(kind, 0)) for kind in {**counts[0], **counts[1]}
    ]
    changed = [change for change in found if change.before != change.after]
    return tuple(sorted(changed, key=lambda item: (-abs(item.after - item.before), item.domain, item.operator)))


def compare_weights(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> WeightDifferences:
    old, new = ({weight["name"]: weight for weight in side} for side in (before, after))
    both = [name for name in old if name in new]
    equal = [name for name in both if _identity(old[name]) == _identity(new[name])]
    moved = [name for name in equal if old[name]["stored"] != new[name]["stored"]]
    changed = [WeightChange(name, old[name], new[name]) for name in sorted({*both} - {*equal})]
    added: dict[tuple[Any, ...], list[str]] = {}
    for name in sorted(new.keys() - old.keys()):
        added.setdefault(_identity(new[name]), []).append(name)
    renamed, removed = [], []
    for name in sorted(old.keys() - new.keys()):
        others = added.get(_identity(old[name]))
        if others:
            renamed.append((name, others.pop(0)))
        else:
            removed.append(old[name])
    left = sorted(name for names in added.values() for name in names)
    return WeightDifferences(
        len(old), len(new), len(equal) - len(moved), tuple(sorted(moved)), tuple(renamed),
        tuple(new[name] for name in left), tuple(removed), tuple(changed),
    )  # fmt: skip


def _identity(weight: Mapping[str, Any]) -> tuple[Any, ...]:
    return weight["dtype"], tuple(weight["shape"]), weight["sha256"]


def count_elements(shape: Iterable[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def affordable(changed: Iterable[WeightChange], most: int = MOST_ELEMENTS) -> list[str]:
    """Weights to compare number by number: the small ones first, as long as the work is bounded."""
    found = []
    for change in sorted(changed, key=lambda item: (item.elements, item.name)):
        if change.comparable and change.elements <= most:
            most -= change.elements
            found.append(change.name)
    return found


def with_numbers(found: ModelDifferences, numbers: Mapping[str, Mapping[str, Any]]) -> ModelDifferences:
    """The largest change first; what has no number goes before, for it changed in kind."""
    changed = [
        replace(change, compared=True, **numbers[change.name]) if change.name in numbers else change
        for change in found.weights.changed
    ]
    changed.sort(key=lambda item: (item.max_rel is not None, -(item.max_rel or 0.0), item.name))
    return replace(found, weights=replace(found.weights, changed=tuple(changed)))
