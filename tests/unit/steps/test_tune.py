"""Which settings of the session are adopted, where times and proofs are given."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl.clock import Clock
from artifactctl.records import Choice, LatencyReport, ReferenceModel, Session, Tried
from artifactctl.steps.contest import Contest
from artifactctl.steps.tune import as_tuned, settings, tune
from tests.unit.steps.test_choose import SOURCE, proof, speed, tried, with_numbers
from tests.unit.steps.test_reuse import reference

THREADS = 4


class Prover:
    """Answers as the crew does: every setting is proved, but for those that change what is computed."""

    def __init__(self, **unproved: Any) -> None:
        self.unproved, self.asked = unproved, list[dict[str, Any]]()

    def ask(self, name: str, operation: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments["settings"])
        wrong = any(arguments["settings"][key] == value for key, value in self.unproved.items())
        return asdict(proof(reason="far off" if wrong else None))


@dataclass(slots=True)
class Timed(Contest):
    """`faster`: the settings that are proved so, by name and value; `loads` of what is adopted in the end."""

    faster: dict[str, Any] = field(default_factory=dict)
    loads: tuple[float, float] = (0.9, 1.0)

    def duel(self, item: Tried, best: Tried) -> LatencyReport | None:
        session = (item.own or self.reference).session
        before = (best.own or self.reference).session
        changed = {key: value for key, value in asdict(session).items() if value != getattr(before, key)}
        assert len(changed) == 1, "one setting after the other"
        return speed(0.5, 0.8) if changed.items() <= self.faster.items() else speed(0.9, 1.1)

    def against_the_source(self, item: Tried, budget_s: float, lost_above: float | None = None) -> Tried:
        return with_numbers(item, load=self.loads)


def model(place: Path) -> ReferenceModel:
    session = Session("cpu", "CPUExecutionProvider", THREADS)
    plan = {"inputs": [], "entries": {}, "batched": False, "states": [], "batch_axes": {}, "branches": []}
    return reference(place, session=session, plan=plan)


def contest(place: Path, crew: Prover, left_s: float = math.inf, **faster: Any) -> Timed:
    return Timed(model(place), Clock(left_s), crew, lambda line: None, faster)  # type: ignore[arg-type]


CHOSEN = tried("fp32", 0.9, 1.0)
CHOICE = Choice(CHOSEN, (CHOSEN, SOURCE))


def adopted(choice: Choice) -> dict[str, Any]:
    return {entry["setting"]: entry["value"] for entry in choice.tuning if entry["adopted"]}


def test_every_setting_is_tried_and_none_adopted_that_is_not_proved_faster(tmp_path: Path) -> None:
    found = tune(contest(tmp_path, Prover()), CHOICE)
    assert (found.chosen, adopted(found)) == (CHOSEN, {})
    named = [(entry["setting"], entry["value"]) for entry in found.tuning]
    assert named == [
        *(("graph_level", "extended"), ("graph_level", "basic"), ("flush_denormals", True), ("memory_pattern", False)),
        *(("arena", False), ("allow_spinning", False), ("intra_op_threads", 2), ("intra_op_threads", 1)),
    ]


@pytest.mark.parametrize(
    "faster", [{"intra_op_threads": 2}, {"flush_denormals": True}, {"arena": False, "allow_spinning": False}]
)
def test_what_is_proved_faster_is_adopted(faster: dict[str, Any], tmp_path: Path) -> None:
    found = tune(contest(tmp_path, Prover(), **faster), CHOICE)
    assert adopted(found) == faster
    assert found.chosen.own is not None
    assert found.chosen.own.session == replace(model(tmp_path).session, **faster)
    assert found.chosen in found.tried
    assert CHOSEN not in found.tried


def test_what_is_not_proved_is_not_timed(tmp_path: Path) -> None:
    found = tune(contest(tmp_path, Prover(flush_denormals=True), flush_denormals=True), CHOICE)
    assert adopted(found) == {}
    entry = next(item for item in found.tuning if item["setting"] == "flush_denormals")
    assert entry == {"setting": "flush_denormals", "value": True, "ratio": None, "adopted": False}


def test_what_then_loads_slower_than_the_source_is_taken_back(tmp_path: Path) -> None:
    asked = contest(tmp_path, Prover(), arena=False)
    asked.loads = (1.2, 1.4)
    found = tune(asked, CHOICE)
    assert (found.chosen, adopted(found)) == (CHOSEN, {})
    assert any(entry["setting"] == "arena" and entry["ratio"] for entry in found.tuning)


def test_no_time_no_tuning(tmp_path: Path) -> None:
    found = tune(contest(tmp_path, Prover(), 0.0, arena=False), CHOICE)
    assert (found.chosen, found.tuning) == (CHOSEN, ())


def test_another_provider_has_graph_levels_only() -> None:
    there = Session("openvino", "OpenVINOExecutionProvider", THREADS)
    assert {name for name, _ in settings(there)} == {"graph_level"}


def test_a_rebuild_takes_what_was_recorded_where_it_is_proved(tmp_path: Path) -> None:
    base, prover = model(tmp_path), Prover(graph_level="basic")
    recorded = asdict(base.session) | {"arena": False, "intra_op_threads": 1}
    found = as_tuned(base, CHOICE, recorded, prover)  # type: ignore[arg-type]
    assert found.chosen.own is not None
    assert found.chosen.own.session == replace(base.session, arena=False), "threads are the machine's"
    assert [each["arena"] for each in prover.asked] == [False]
    assert as_tuned(base, CHOICE, asdict(base.session), prover) is CHOICE  # type: ignore[arg-type]
    assert as_tuned(base, CHOICE, recorded | {"graph_level": "basic"}, prover) is CHOICE  # type: ignore[arg-type]
