"""How long a candidate takes to load beside its source: rounds of their own, until slower or not slower is proved."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

from artifactctl import gate
from artifactctl.crew import Crew

LIMIT = 0.03  # of what is called not slower: below it the machine decides
MOST_ROUNDS = 20


def weigh(
    task: dict[str, Any], seed: int, confidence: float, budget_s: float, crew: Crew, most_rounds: int = MOST_ROUNDS
) -> dict[str, float]:
    """Candidate by baseline, with its interval. The fewest rounds are had whatever they take: nothing else decides."""
    started, rounds, task = time.monotonic(), list[list[list[int]]](), {**task, "place": str(crew.scratch)}
    while len(rounds) < gate.MIN_ROUNDS or (len(rounds) < most_rounds and time.monotonic() - started < budget_s):
        rounds.append(crew.ask("timer", "load_round", task=task, seed=seed + len(rounds)))
        if len(rounds) in gate.LOOKS:
            found = _ratio(rounds, confidence)
            if found["ratio_low"] > 1 or found["ratio_high"] <= 1 + LIMIT:
                break
    return _ratio(rounds, confidence)


def _ratio(rounds: Sequence[Sequence[Sequence[int]]], confidence: float) -> dict[str, float]:
    triples = [[cast("gate.Triple", tuple(map(float, times))) for times in entry] for entry in rounds]
    found = gate.judge(triples, LIMIT, confidence)
    return {"ratio": found.ratio, "ratio_low": found.ratio_low, "ratio_high": found.ratio_high}
