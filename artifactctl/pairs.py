"""Statistics of paired times: numbers in, numbers out."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

Pair = tuple[int, int]  # candidate, baseline

MIN_PAIRS = 30
RESAMPLES = 1000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Ratio:
    """Candidate time divided by baseline time, with the interval that holds it at CONFIDENCE."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


def ratio_of(rounds: Sequence[Sequence[Pair]]) -> Ratio:
    """Median ratio over all pairs; the bootstrap draws whole rounds first, since a session's memory moves them all."""
    logs = [[math.log(candidate / baseline) for candidate, baseline in pairs] for pairs in rounds if pairs]
    if not logs:
        raise ValueError("no pairs: zero measurements prove nothing")
    dice = random.Random(0)
    medians = []
    for _ in range(RESAMPLES):
        drawn: list[float] = []
        for _ in logs:
            pairs = dice.choice(logs)
            drawn += dice.choices(pairs, k=len(pairs))
        medians.append(median(drawn))
    medians.sort()
    tail = (1 - CONFIDENCE) / 2
    low, high = medians[int(tail * RESAMPLES)], medians[min(RESAMPLES - 1, math.ceil((1 - tail) * RESAMPLES) - 1)]
    return Ratio(math.exp(median([value for pairs in logs for value in pairs])), math.exp(low), math.exp(high))


def median_ms(times_ns: Sequence[int]) -> float | None:
    return round(median(times_ns) / 1e6, 6) if times_ns else None
