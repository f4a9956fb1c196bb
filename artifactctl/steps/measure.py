"""Two models -> LatencyReport: rounds in fresh processes until the answer is proved, or the budget ends."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from artifactctl import gate
from artifactctl.crew import Crew
from artifactctl.errors import SourceError
from artifactctl.percentiles import median_interval, milliseconds, percentile_of
from artifactctl.records import LatencyReport, ReferenceModel, Session, Timing, Tried

ROUND_S, ROUND_TRIPLES = 0.2, 40  # of timed runs in one process, whichever ends first
PATIENCE = 5  # budgets that the fewest rounds may take
CHOICE_LIMIT, CHOICE_ROUNDS = 0.03, 14  # between a candidate and its source, where a tie is an answer too


@dataclass(frozen=True, slots=True)
class Duel:
    """What is timed against what, and how."""

    candidate: Path
    baseline: Path
    inputs: Path | None
    session: Session
    seed: int
    limit: float
    confidence: float
    budget_s: float
    against: str = "source"
    most_rounds: int = gate.LOOKS[-1]

    def task(self) -> dict[str, Any]:
        return {
            "models": {"candidate": str(self.candidate), "baseline": str(self.baseline)},
            "inputs": str(self.inputs) if self.inputs else None,
            "settings": asdict(replace(self.session, placement=None)),
            "triples": ROUND_TRIPLES,
            "limit_s": ROUND_S,
        }


def measure(reference: ReferenceModel, tried: Tried, budget_s: float, crew: Crew) -> Tried:
    """A candidate of a build against its source."""
    candidate = tried.candidate
    assert candidate.path is not None
    sample = sample_of(reference)
    duel = Duel(
        candidate.path, reference.path, sample, reference.session, reference.seed, CHOICE_LIMIT,
        reference.source.config.latency.confidence, budget_s, most_rounds=CHOICE_ROUNDS,
    )  # fmt: skip
    try:
        rounds, seconds = fight(duel, crew)
    except SourceError as error:
        return replace(tried, candidate=replace(candidate, failure=f"it could not be measured: {error}"))
    entry = reference.plan["entries"][sample.stem]
    about = {key: value for key, value in entry.items() if key != "set"}
    sizes = (candidate.size_bytes or 0, reference.size_bytes)
    return replace(tried, latency=replace(report_of(duel, rounds, seconds, sizes), sample=about))


def fight(duel: Duel, crew: Crew) -> tuple[list[dict[str, Any]], float]:
    """Rounds until a verdict is proved. The budget ends what goes beyond the fewest rounds that prove anything."""
    started, rounds = time.monotonic(), list[dict[str, Any]]()
    for look in gate.LOOKS:
        while len(rounds) < min(look, duel.most_rounds):
            patience = PATIENCE if len(rounds) < gate.MIN_ROUNDS else 1
            if rounds and time.monotonic() - started > duel.budget_s * patience:
                return rounds, time.monotonic() - started
            rounds.append(crew.ask("timer", "time_round", task=duel.task(), seed=duel.seed + len(rounds)))
        if gate.judge(triples_of(rounds), duel.limit, duel.confidence).verdict != gate.NOT_PROVEN:
            break
    return rounds, time.monotonic() - started


def sample_of(reference: ReferenceModel) -> Path:
    """The first sample that was made up (the same on every machine, of the base size), else the first of the data."""
    entries = reference.plan["entries"]
    seeded = [number for number, entry in entries.items() if entry["origin"] == "seeded"]
    return reference.samples / f"{(seeded or list(entries))[0]}.npz"


def triples_of(rounds: list[dict[str, Any]]) -> list[list[gate.Triple]]:
    return [[(float(c), float(a), float(b)) for c, a, b in entry["times_ns"]] for entry in rounds]


def report_of(duel: Duel, rounds: list[dict[str, Any]], seconds: float, sizes: tuple[int, int]) -> LatencyReport:
    judged = gate.judge(triples_of(rounds), duel.limit, duel.confidence) if len(rounds) > 1 else None
    return LatencyReport(
        provider=duel.session.provider,
        verdict=judged.verdict if judged else gate.NOT_PROVEN,
        ratio=judged.ratio if judged else None,
        ratio_low=judged.ratio_low if judged else None,
        ratio_high=judged.ratio_high if judged else None,
        detection_limit=judged.detection_limit if judged else None,
        limit=duel.limit,
        confidence=duel.confidence,
        pairs=sum(len(entry["times_ns"]) for entry in rounds),
        rounds=len(rounds),
        seconds=round(seconds, 3),
        candidate=_timing(rounds, 0, "candidate", sizes[0]),
        baseline=_timing(rounds, 1, "baseline", sizes[1]),
        against=duel.against,
        raw=tuple(rounds),
    )


def _timing(rounds: list[dict[str, Any]], column: int, side: str, size_bytes: int) -> Timing:
    """What the rounds themselves say about one side."""
    steady = [entry["times_ns"][position][column] for entry in rounds for position in range(len(entry["times_ns"]))]
    found = {
        "p50_ms": steady,
        "load_ms": [entry["load_ns"][side] for entry in rounds],
        "first_run_ms": [entry["first_ns"][side] for entry in rounds],
    }
    p50, load, first = (milliseconds(percentile_of(values, 0.5)) for values in found.values())
    intervals = {key: _interval_ms(values) for key, values in found.items()}
    return Timing(size_bytes, p50_ms=p50, load_ms=load, first_run_ms=first, intervals=intervals)


def _interval_ms(values: list[int]) -> tuple[float, float] | None:
    found = median_interval(values)
    return None if found is None else (round(found[0] / 1e6, 6), round(found[1] / 1e6, 6))
