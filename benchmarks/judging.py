"""One judge for everyone: proved against the source's own answers, then timed against the source in pairs.

The source runs at ONNX Runtime's defaults on the CPU provider, with all cores, as everyone does whose threads were not
tuned; all threads spin while a run lasts, as is the default, but not after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from artifactctl.crew import Crew
from artifactctl.errors import ArtifactctlError
from artifactctl.folder import digest
from artifactctl.project import Bound, Equivalence, ModelConfig, Source
from artifactctl.providers import CPU
from artifactctl.records import Candidate, LatencyReport, ReferenceModel, Session
from artifactctl.steps.export import make_reference
from artifactctl.steps.loads import weigh
from artifactctl.steps.measure import Duel, Terms, fight, report_of, sample_of
from artifactctl.steps.source import read_source
from artifactctl.steps.verify import prove

LIMIT, CONFIDENCE = 0.03, 0.99
LOADS_S, LOAD_ROUNDS = 40.0, 56  # for the loads of one model
KEYS = ("ratio", "ratio_low", "ratio_high")
BROKEN, OUTSIDE, SLOWER, HOLDS = "does not load", "outside the bound", "proved slower", "holds"


@dataclass(frozen=True)
class Interval:
    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Verdict:
    """`time`, `load` and `first` (the first run) are of the candidate divided by those of the source."""

    status: str
    time: Interval | None = None
    load: Interval | None = None
    first: float | None = None
    error: float | None = None
    note: str = ""

    @property
    def speed(self) -> float:
        """A model that cannot be used is left alone: the source runs in its place."""
        return 1 / self.time.ratio if self.time and self.status in (HOLDS, SLOWER) else 1.0


@dataclass(frozen=True)
class Judge:
    """Of one model at one bound. `timed` is shared by the judges of all bounds: a model is timed once."""

    reference: ReferenceModel
    crew: Crew
    rounds: int
    budget_s: float
    timed: dict[tuple[str, str], LatencyReport]

    def at(self, bound: float) -> Judge:
        source = self.reference.source
        config = replace(source.config, equivalence=Equivalence(Bound(max_abs=bound)))
        return replace(self, reference=replace(self.reference, source=replace(source, config=config)))

    @property
    def defaults(self) -> Session:
        return Session("cpu", CPU, self.reference.session.intra_op_threads)

    def judge(self, path: Path, session: Session | None = None, *, loads: bool = False) -> Verdict:
        """With `loads`, the times to load too."""
        session = session or self.defaults
        candidate = Candidate("judged", path, "", path.stat().st_size)
        try:
            report = prove(replace(self.reference, session=session), candidate, self.crew)
            if report.failure and not report.outputs:
                return Verdict(BROKEN, note=report.failure[:160])
            error = report.largest("max_error")
            if not report.passed:
                return Verdict(OUTSIDE, error=error, note=(report.reason or "")[:160])
            key = (digest(path), repr(session))
            if key not in self.timed:
                self.timed[key] = self._times(path, session)
            if loads and not self.timed[key].load and not self._is_source(path, session):
                duel = self._duel(path, session)
                weighed = weigh(duel.task(), duel.seed, CONFIDENCE, LOADS_S, self.crew, LOAD_ROUNDS)
                self.timed[key] = replace(self.timed[key], load=weighed)
            latency = self.timed[key]
        except ArtifactctlError as failure:
            return Verdict(BROKEN, note=str(failure)[:160])
        time = Interval(*(getattr(latency, key) for key in KEYS))
        load = Interval(*(latency.load[key] for key in KEYS)) if latency.load else None
        first = (latency.candidate.first_run_ms or 0.0) / (latency.baseline.first_run_ms or 1.0)
        return Verdict(SLOWER if time.low > 1 else HOLDS, time, load, first, error)

    def _is_source(self, path: Path, session: Session) -> bool:
        """Then it loads as itself, and to time that would only show the machine."""
        return replace(session, placement=None) == self.defaults and digest(path) == digest(self.reference.path)

    def _duel(self, path: Path, session: Session) -> Duel:
        reference, terms = self.reference, Terms(LIMIT, CONFIDENCE, self.budget_s)
        return Duel(
            path, reference.path, sample_of(reference), session, reference.seed, terms,
            baseline_session=self.defaults, most_rounds=self.rounds, patience=5,
        )  # fmt: skip

    def _times(self, path: Path, session: Session) -> LatencyReport:
        duel = self._duel(path, session)
        rounds, seconds = fight(duel, self.crew)
        report = report_of(duel.terms, session.provider, rounds, seconds, (1, 1))
        if report.ratio is None:
            raise SystemExit(f"{path.name}: {report.reason}")
        return report


def reference_of(path: Path, bound: float, scratch: Path, crew: Crew) -> ReferenceModel:
    config = ModelConfig(path.stem, Source("onnx", path.name), equivalence=Equivalence(Bound(max_abs=bound)))
    return make_reference(read_source(config, path.parent, scratch, crew), "cpu", scratch, crew)


def session_of(recorded: dict[str, Any]) -> Session:
    """The section `session` of metadata.yaml."""
    known = {entry.name for entry in fields(Session)}
    return replace(Session(**{key: value for key, value in recorded.items() if key in known}), placement=None)


def middle(speeds: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, speeds)) / len(speeds)) if speeds else 1.0
