"""Two models -> what changed between them, read from graphs, weights and records: nothing is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from artifactctl import changes, differences, folder
from artifactctl.crew import Crew
from artifactctl.differences import ModelDifferences
from artifactctl.report import notes
from artifactctl.steps.sides import Side


@dataclass(frozen=True, slots=True)
class Diff:
    """`before` is the older model; of a first version there is none, and nothing to differ from."""

    before: Side | None
    after: Side
    described: tuple[Mapping[str, Any] | None, Mapping[str, Any]]
    model: ModelDifferences | None
    changes: tuple[changes.Change, ...]
    speed: Mapping[str, Any]


def diff(before: Side | None, after: Side, crew: Crew) -> Diff:
    described = [_described(side, crew) if side else None for side in (before, after)]
    one, other = described
    assert other is not None
    found = None
    if before is not None and one is not None:
        found = differences.compare(one, other, equal_bytes=_equal_bytes(before, after, one["external_data"]))
        names = differences.affordable(found.weights.changed)
        if names:
            paths = {"before": str(before.model), "after": str(after.model)}
            numbers = crew.ask("runner", "weight_changes", **paths, names=names)
            found = differences.with_numbers(found, numbers)
    recorded = (before.metadata if before else None, after.metadata)
    speed = changes.speed(*recorded, before.sha256 if before else None)
    return Diff(before, after, (one, other), found, tuple(changes.changes((one, other), recorded)), speed)


def release_notes(previous: Side | None, current: Side, crew: Crew) -> str:
    """Markdown: the same for the same two models wherever they lie. Without a previous one: of a first version."""
    return notes.markdown(diff(previous, current, crew))


def _described(side: Side, crew: Crew) -> dict[str, Any]:
    found: dict[str, Any] = crew.ask("runner", "describe_for_diff", path=str(side.model))
    return found


def _equal_bytes(one: Side, other: Side, external: list[str]) -> bool:
    """Equal model files name the same external data."""
    if folder.digest(one.model) != folder.digest(other.model):
        return False
    homes = one.model.parent, other.model.parent
    return all(folder.digest(homes[0] / name) == folder.digest(homes[1] / name) for name in external)
