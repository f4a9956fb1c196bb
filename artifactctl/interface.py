"""Inputs and outputs of two models: what a caller would notice. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Description = Mapping[str, Any]  # of backends/compare.py
Shape = Sequence[int | str | None] | None


@dataclass(frozen=True, slots=True)
class ValueChange:
    """An input or an output that is not what it was; `before` and `after` hold dtype and shape."""

    kind: str  # input, output
    name: str
    change: str  # added, removed, changed, moved
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    breaking: bool


def compare_values(before: Description, after: Description) -> tuple[ValueChange, ...]:
    """Everything that a caller can see is breaking, but for other names of sizes, and inputs that take more."""
    renamed = _renamed_sizes(before, after)
    found = []
    for kind in ("input", "output"):
        old = {value["name"]: value for value in before[f"{kind}s"]}
        new = {value["name"]: value for value in after[f"{kind}s"]}
        kept = [[name for name in side if name in old and name in new] for side in (old, new)]
        for name in {**old, **new}:
            one, other = _type(old.get(name)), _type(new.get(name))
            if one is None or other is None:
                found.append(ValueChange(kind, name, "added" if one is None else "removed", one, other, True))
            elif one != other:
                harmless = one["dtype"] == other["dtype"] and _harmless(kind, one["shape"], other["shape"], renamed)
                found.append(ValueChange(kind, name, "changed", one, other, not harmless))
            elif kept[0].index(name) != kept[1].index(name):
                found.append(ValueChange(kind, name, "moved", one, other, True))
    return tuple(sorted(found, key=lambda change: not change.breaking))


def _type(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else {"dtype": value["dtype"], "shape": value["shape"]}


def _renamed_sizes(before: Description, after: Description) -> set[tuple[str, str]]:
    """Pairs of names of sizes that stand for each other wherever they stand, and for no other."""
    pairs: set[tuple[str, str]] = set()
    for kind in ("inputs", "outputs"):
        new = {value["name"]: value["shape"] for value in after[kind]}
        for value in before[kind]:
            pairs |= {
                (one, other)
                for one, other in zip(value["shape"] or (), new.get(value["name"]) or (), strict=False)
                if isinstance(one, str) and isinstance(other, str)
            }
    return {
        (one, other)
        for one, other in pairs
        if sum(pair[0] == one for pair in pairs) == 1 and sum(pair[1] == other for pair in pairs) == 1
    }


def _harmless(kind: str, before: Shape, after: Shape, renamed: set[tuple[str, str]]) -> bool:
    if before is None or after is None or len(before) != len(after):
        return kind == "input" and after is None
    return all(
        one == other
        or (one, other) in renamed
        or (not isinstance(one, int) and not isinstance(other, int) and None in (one, other))
        or (kind == "input" and isinstance(one, int) and not isinstance(other, int))
        for one, other in zip(before, after, strict=True)
    )
