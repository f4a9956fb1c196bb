"""When rounds end, fed with numbers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from artifactctl.gate import MIN_ROUNDS
from artifactctl.records import Session
from artifactctl.steps.measure import CHOICE_ROUNDS, Duel, Terms, fight


class Timer:
    """Rounds of a candidate that takes `ratio` times as long; every round is a few per cent off."""

    def __init__(self, ratio: float) -> None:
        self._dice, self._ratio = random.Random(3), ratio

    def ask(self, worker: str, operation: str, **asked: Any) -> dict[str, Any]:
        assert (worker, operation) == ("timer", "time_round")
        off = [1e6 * self._dice.lognormvariate(0, 0.05) for _ in range(3)]
        return {"times_ns": [[int(off[0] * self._ratio), int(off[1]), int(off[2])]]}


@pytest.mark.parametrize(("lost_above", "rounds"), [(None, CHOICE_ROUNDS), (2.0, CHOICE_ROUNDS), (0.5, MIN_ROUNDS)])
def test_who_is_proved_behind_the_leader_is_not_timed_further(lost_above: float | None, rounds: int) -> None:
    model, session = Path("m.onnx"), Session("cpu", "CPUExecutionProvider", 1)
    terms = Terms(0.001, 0.99, 60.0)
    duel = Duel(model, model, None, session, 1, terms, most_rounds=CHOICE_ROUNDS, lost_above=lost_above)
    found, _ = fight(duel, Timer(1.0))  # type: ignore[arg-type]
    assert len(found) == rounds
