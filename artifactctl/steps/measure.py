"""ReferenceModel, Tried -> Tried with a LatencyReport: pairs until the answer is clear or the budget ends."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from artifactctl import pairs
from artifactctl.crew import Crew
from artifactctl.errors import SourceError
from artifactctl.records import Candidate, LatencyReport, ReferenceModel, Timing, Tried

ROUND_PAIRS = 20
MIN_ROUNDS, MAX_ROUNDS = 4, 12
PATIENCE = 5  # budgets that the fewest pairs may take
CLEAR_WIDTH = 0.02  # an interval this narrow is clear


def measure(reference: ReferenceModel, tried: Tried, budget_s: float, crew: Crew) -> Tried:
    """Against the source, in pairs. Sessions are created anew each round: memory placement matters.

    The budget ends what goes beyond the fewest pairs that prove anything; those may take a few budgets.
    """
    candidate, sample = tried.candidate, _sample(reference)
    started = time.monotonic()
    rounds: list[dict[str, Any]] = []
    while len(rounds) < MAX_ROUNDS:
        enough = sum(len(entry["pairs_ns"]) for entry in rounds) >= pairs.MIN_PAIRS
        left_s = started + budget_s * (1 if enough else PATIENCE) - time.monotonic()
        if rounds and left_s <= 0:
            break
        try:
            found = crew.ask(
                "runner", "measure_round", candidate=str(candidate.path), baseline=str(reference.path),
                sample=str(sample), settings=asdict(reference.session), seed=reference.seed + len(rounds),
                pairs=ROUND_PAIRS, limit_s=max(0.1, left_s),
            )  # fmt: skip
        except SourceError as error:
            return replace(tried, candidate=replace(candidate, failure=f"it could not be measured: {error}"))
        rounds.append(found)
        if len(rounds) >= MIN_ROUNDS and pairs.ratio_of(_pairs(rounds)).width <= CLEAR_WIDTH:
            break
    return replace(tried, latency=report_of(rounds, reference, candidate))


def _sample(reference: ReferenceModel) -> Path:
    """The first sample that was made up (the same on every machine, of the base size), else the first of the data."""
    entries = reference.plan["entries"]
    seeded = [number for number, entry in entries.items() if entry["origin"] == "seeded"]
    return reference.samples / f"{(seeded or list(entries))[0]}.npz"


def _pairs(rounds: list[dict[str, Any]]) -> list[list[pairs.Pair]]:
    return [[(pair[0], pair[1]) for pair in entry["pairs_ns"]] for entry in rounds]


def report_of(rounds: list[dict[str, Any]], reference: ReferenceModel, candidate: Candidate) -> LatencyReport:
    measured = _pairs(rounds)
    count = sum(len(entry) for entry in measured)
    ratio = pairs.ratio_of(measured) if count >= pairs.MIN_PAIRS else None
    both = [pair for entry in measured for pair in entry]

    def timing(side: int, size_bytes: int) -> Timing:
        times = [pair[side] for pair in both]
        return Timing(pairs.median_ms(times), pairs.median_ms([entry["load_ns"][side] for entry in rounds]), size_bytes)

    return LatencyReport(
        provider=reference.session.provider,
        ratio=ratio.value if ratio else None,
        ratio_low=ratio.low if ratio else None,
        ratio_high=ratio.high if ratio else None,
        pairs=count,
        rounds=len(rounds),
        candidate=timing(0, candidate.size_bytes or 0),
        baseline=timing(1, reference.size_bytes),
        sample={
            key: value for key, value in reference.plan["entries"][_sample(reference).stem].items() if key != "set"
        },
        raw=tuple(rounds),
    )
