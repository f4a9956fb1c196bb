"""Two models -> LatencyReport: rounds in fresh processes until the answer is proved, or the budget ends."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from artifactctl import gate, verdicts
from artifactctl.crew import Crew
from artifactctl.errors import SourceError
from artifactctl.percentiles import interval_ms, milliseconds, percentile_of
from artifactctl.records import Candidate, LatencyReport, ReferenceModel, Session, Timing, Tried
from artifactctl.steps.loads import weigh

ROUND_S, ROUND_TRIPLES = 0.2, 40  # of timed runs in one process, whichever ends first
HELD_BYTES = 2_000_000_000  # of the three sessions of a round: where they need more, there is one at a time
CHOICE_LIMIT, CHOICE_ROUNDS = 0.03, 14  # between a candidate and its source, where a tie is an answer too
PEAKS, PEAK_S = 3, 0.6  # processes of which the memory is taken, and seconds for all; a slow model gets fewer
CHOICE_PATIENCE = 5  # budgets that the fewest rounds may take there: nothing else can decide


@dataclass(frozen=True, slots=True)
class Terms:
    """What is to be proved, and within how many seconds."""

    limit: float
    confidence: float
    budget_s: float
    against: str = "source"


@dataclass(frozen=True, slots=True)
class Duel:
    """What is timed against what, and how, with the same threads."""

    candidate: Path
    baseline: Path
    inputs: Path | None
    session: Session
    seed: int
    terms: Terms
    baseline_session: Session | None = None  # where its provider, graph level or options are other ones
    most_rounds: int = gate.LOOKS[-1]
    patience: int = 1
    which: bool = False  # it ends when it is proved which of the two is faster
    lost_above: float | None = None  # it ends when the ratio is proved to be above: then another one has won

    def task(self) -> dict[str, Any]:
        sessions = {"candidate": self.session, "baseline": self.baseline_session or self.session}
        return {
            "models": {"candidate": str(self.candidate), "baseline": str(self.baseline)},
            "inputs": str(self.inputs) if self.inputs else None,
            "settings": {side: asdict(replace(session, placement=None)) for side, session in sessions.items()},
            "triples": ROUND_TRIPLES,
            "round_s": ROUND_S,
            "held_bytes": HELD_BYTES,
            "budget_s": self.terms.budget_s * self.patience,
        }


def measure(
    reference: ReferenceModel,
    tried: Tried,
    source: Session,
    budget_s: float,
    crew: Crew,
    *,
    lost_above: float | None = None,
    loads: bool = True,
) -> Tried:
    """A candidate of a build, where `reference` says, against its source in the session `source`; and its load, unless
    it has lost already."""
    candidate = tried.candidate
    assert candidate.path is not None
    sample = sample_of(reference)
    terms = Terms(CHOICE_LIMIT, reference.source.config.latency.confidence, budget_s)
    duel = Duel(
        candidate.path, reference.path, sample, reference.session, reference.seed, terms, source,
        most_rounds=CHOICE_ROUNDS, patience=CHOICE_PATIENCE, lost_above=lost_above,
    )  # fmt: skip
    sizes = (candidate.size_bytes or 0, reference.size_bytes)
    try:
        rounds, seconds = fight(duel, crew)
        report = report_of(terms, reference.session.provider, rounds, seconds, sizes)
        lost = report.ratio_low is None or report.ratio_low > (math.inf if lost_above is None else lost_above)
        loads = loads and (candidate.path, reference.session) != (reference.path, source)
        if loads and not lost and report.rounds >= gate.MIN_ROUNDS and report.verdict != verdicts.REGRESSION:
            report = replace(report, load=weigh(duel.task(), duel.seed, terms.confidence, budget_s, crew))
    except SourceError as error:
        return replace(tried, candidate=replace(candidate, failure=f"it could not be measured: {error}"))
    return replace(tried, latency=replace(report, sample=about_sample(reference)))


def peak_memory(reference: ReferenceModel, candidate: Candidate, crew: Crew) -> list[float]:
    """In MB above an empty session, of fresh processes; nothing where it does not run."""
    sample = str(sample_of(reference))
    row = {
        "threads": reference.session.intra_op_threads,
        "inputs": sample,
        "batch": 1,
        "children": PEAKS,
        "seconds": PEAK_S,
    }
    settings = {"candidate": asdict(replace(reference.session, placement=None))}
    task = {"models": {"candidate": str(candidate.path)}, "settings": settings, "surveys": [row]}
    try:
        found = crew.ask("timer", "surveys", task=task, side="candidate")
    except SourceError:
        return []
    return [child["peak_rss_bytes"] / 1e6 for child in found[0]["children"]]


def with_peaks(timing: Timing, peaks: list[float]) -> Timing:
    """The middle one, and how far they lie apart."""
    if not peaks:
        return timing
    intervals = {**timing.intervals, "peak_rss_mb": (min(peaks), max(peaks))}
    return replace(timing, peak_rss_mb=percentile_of(peaks, 0.5), intervals=intervals)


def fight(duel: Duel, crew: Crew) -> tuple[list[dict[str, Any]], float]:
    """Rounds until a verdict is proved. The budget ends them, and so does a pair that is longer than it."""
    started, rounds, terms = time.monotonic(), list[dict[str, Any]](), duel.terms
    for look in gate.LOOKS:
        while len(rounds) < min(look, duel.most_rounds):
            patience = duel.patience if len(rounds) < gate.MIN_ROUNDS else 1
            if rounds and time.monotonic() - started > terms.budget_s * patience:
                return rounds, time.monotonic() - started
            rounds.append(crew.ask("timer", "time_round", task=duel.task(), seed=duel.seed + len(rounds)))
            if not rounds[-1]["times_ns"]:
                return rounds, time.monotonic() - started
        judged = gate.judge(triples_of(rounds), terms.limit, terms.confidence)
        if judged.verdict != verdicts.NOT_PROVEN or (duel.which and not judged.ratio_low <= 1 <= judged.ratio_high):
            break
        if duel.lost_above is not None and judged.ratio_low > duel.lost_above:
            break
    return rounds, time.monotonic() - started


def about_sample(reference: ReferenceModel) -> dict[str, Any]:
    entry = reference.plan["entries"][sample_of(reference).stem]
    return {key: value for key, value in entry.items() if key != "set"}


def sample_of(reference: ReferenceModel) -> Path:
    """The first sample that was made up (the same on every machine, of the base size), else the first of the data."""
    entries = reference.plan["entries"]
    seeded = [number for number, entry in entries.items() if entry["origin"] == "seeded"]
    return reference.samples / f"{(seeded or list(entries))[0]}.npz"


def triples_of(rounds: list[dict[str, Any]]) -> list[list[gate.Triple]]:
    return [[(float(c), float(a), float(b)) for c, a, b in entry["times_ns"]] for entry in rounds]


def report_of(
    terms: Terms, provider: str, rounds: list[dict[str, Any]], seconds: float, sizes: tuple[int, int]
) -> LatencyReport:
    whole = [entry for entry in rounds if entry["times_ns"]]
    judged = gate.judge(triples_of(whole), terms.limit, terms.confidence) if len(whole) > 1 else None
    verdict = judged.verdict if judged else verdicts.NOT_PROVEN
    detection = judged.detection_limit if judged else None
    return LatencyReport(
        provider=provider,
        verdict=verdict,
        ratio=judged.ratio if judged else None,
        ratio_low=judged.ratio_low if judged else None,
        ratio_high=judged.ratio_high if judged else None,
        detection_limit=detection,
        limit=terms.limit,
        confidence=terms.confidence,
        pairs=sum(len(entry["times_ns"]) for entry in whole),
        rounds=len(whole),
        seconds=round(seconds, 3),
        candidate=_timing(rounds, 0, "candidate", sizes[0]),
        baseline=_timing(rounds, 1, "baseline", sizes[1]),
        against=terms.against,
        reason=_why_not_proven(terms, rounds, detection) if verdict == verdicts.NOT_PROVEN else "",
        raw=tuple(rounds),
    )


def _why_not_proven(terms: Terms, rounds: list[dict[str, Any]], detection: float | None) -> str:
    if rounds and not rounds[-1]["times_ns"]:
        return f"one pair of runs takes {rounds[-1]['pair_ns'] / 1e9:.3g} s, and the budget is {terms.budget_s:g} s"
    if len(rounds) < gate.MIN_ROUNDS or detection is None:
        return f"{len(rounds)} rounds of at least {gate.MIN_ROUNDS} fitted into the budget of {terms.budget_s:g} s"
    return f"the smallest slow-down it could have seen is {detection:.1%}, the limit {terms.limit:.1%}"


def _timing(rounds: list[dict[str, Any]], column: int, side: str, size_bytes: int) -> Timing:
    """What the rounds themselves say about one side."""
    found = {
        "p50_ms": [times[column] for entry in rounds for times in entry["times_ns"]],
        "load_ms": [entry["load_ns"][side] for entry in rounds],
        "first_run_ms": [entry["first_ns"][side] for entry in rounds],
    }
    p50, load, first = (milliseconds(percentile_of(values, 0.5)) for values in found.values())
    intervals = {key: interval_ms(values) for key, values in found.items()}
    return Timing(size_bytes, p50_ms=p50, load_ms=load, first_run_ms=first, intervals=intervals)
