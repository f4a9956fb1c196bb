"""The judge of loads, fed with numbers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from artifactctl.gate import MIN_ROUNDS
from artifactctl.steps.loads import MOST_ROUNDS, weigh


class Timer:
    """Loads of a candidate that takes `ratio` times as long, with noise; counts the rounds that it was asked for."""

    def __init__(self, ratio: float, noise: float) -> None:
        self.ratio, self.noise, self.rounds, self.scratch = ratio, noise, 0, "scratch"
        self._dice = random.Random(5)

    def ask(self, worker: str, operation: str, **asked: Any) -> list[list[int]]:
        assert (worker, operation) == ("timer", "load_round")
        self.rounds += 1
        return [[self._one(self.ratio), self._one(1.0), self._one(1.0)] for _ in range(8)]

    def _one(self, ratio: float) -> int:
        return int(1e6 * ratio * self._dice.lognormvariate(0, self.noise))


def weighed(timer: Timer, budget_s: float = 60.0, **more: Any) -> dict[str, float]:
    return weigh({}, 1, 0.99, budget_s, timer, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.2, 2.0])
def test_what_is_clear_takes_the_fewest_rounds(ratio: float) -> None:
    timer = Timer(ratio, 0.01)
    found = weighed(timer)
    assert found["ratio_low"] <= ratio <= found["ratio_high"]
    assert (found["ratio_low"] > 1) is (ratio > 1)
    assert timer.rounds == MIN_ROUNDS


def test_what_is_not_clear_takes_more_and_ends() -> None:
    timer = Timer(1.0, 0.3)
    found = weighed(timer)
    assert found["ratio_low"] <= 1 < found["ratio_high"]
    assert timer.rounds == MOST_ROUNDS
    more = Timer(1.0, 0.3)
    weighed(more, most_rounds=40)
    assert more.rounds == 40


@pytest.mark.parametrize(("budget_s", "most_rounds"), [(0.0, 1), (0.0, MOST_ROUNDS), (60.0, 1), (60.0, MIN_ROUNDS)])
def test_the_fewest_rounds_are_always_had(budget_s: float, most_rounds: int) -> None:
    timer = Timer(1.0, 0.3)
    assert weighed(timer, budget_s, most_rounds=most_rounds)["ratio"] > 0
    assert timer.rounds == MIN_ROUNDS
