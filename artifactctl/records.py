"""The frozen records that travel down the flow. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from artifactctl.folder import FileDigest
from artifactctl.project import Equivalence, ModelConfig

DEFAULT_LEVEL = "all"  # of ONNX Runtime
SOURCE_RECIPE = "source"  # the candidate that is the source itself, in reference form


@dataclass(frozen=True, slots=True)
class SourceModel:
    """The source and the digests of its files. An ONNX file is read once, into the scratch folder; other files are
    read where they lie, and looked at again before the artifact is written."""

    config: ModelConfig
    root: Path
    path: Path
    files: tuple[FileDigest, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """How a model is run: part of what is proved."""

    provider: str
    execution_provider: str
    intra_op_threads: int
    inter_op_threads: int = 1
    graph_level: str = DEFAULT_LEVEL
    allow_spinning: bool = True  # while a run lasts, and no longer: it would disturb whatever is measured beside it
    memory_pattern: bool = True
    arena: bool = True
    flush_denormals: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    placement: Mapping[str, int] | None = None  # nodes by provider when it was proved

    @classmethod
    def recorded(cls, data: Mapping[str, Any]) -> Session:
        """As metadata.yaml has it, without what stands beside it there."""
        return cls(**{key: value for key, value in data.items() if key != "fallback"})


@dataclass(frozen=True, slots=True)
class OutputReport:
    name: str
    dtype: str | None
    max_abs: float | None
    max_error: float | None
    mean_abs: float | None
    rel_l2: float | None
    cosine: float | None
    top1: float | None
    bound: float | None
    vacuous: bool
    passed: bool
    reason: str | None
    decisions: Mapping[str, Any] | None = None  # rows, flips, top5, and the share that no error of this size can change


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    passed: bool
    reason: str | None = None
    source: float | None = None
    candidate: float | None = None
    drop: float | None = None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class EquivalenceReport:
    """The number, the bound and the samples of a comparison; `sets` has one entry for each set of samples."""

    provider: str
    samples: int
    outputs: tuple[OutputReport, ...]
    sets: tuple[Mapping[str, Any], ...] = ()
    accuracy: AccuracyReport | None = None
    failure: str | None = None  # it could not even be run
    untaken: tuple[str, ...] = ()  # conditions of branches of which one side never ran
    rows: Mapping[str, Any] | None = None  # rows that were asked alone, against themselves in a batch
    placement: Mapping[str, int] | None = None  # nodes by provider
    worst: str | None = None  # the set where the error is largest
    search: Mapping[str, Any] | None = None  # what the search for a worse input found

    @property
    def passed(self) -> bool:
        if self.failure or not self.outputs or (self.accuracy and not self.accuracy.passed):
            return False
        return all(output.passed for output in self.outputs)

    @property
    def reason(self) -> str | None:
        if self.failure:
            return self.failure
        if not self.outputs:
            return "no output was compared"
        failed = [output for output in self.outputs if not output.passed]
        if failed:
            worst = max(failed, key=lambda output: float("inf") if output.max_error is None else output.max_error)
            return f"output {worst.name!r}: {worst.reason}"
        if self.accuracy and not self.accuracy.passed:
            return self.accuracy.reason
        return None

    @property
    def proves_something(self) -> bool:
        return self.passed and not self.vacuous and not self.untaken

    @property
    def vacuous(self) -> bool:
        """No output told two samples apart, so the comparison proves nothing about a changed model."""
        return bool(self.outputs) and all(output.vacuous for output in self.outputs)

    def largest(self, key: str) -> float | None:
        values = [value for output in self.outputs if (value := getattr(output, key)) is not None]
        return max(values) if values else None

    def summary(self) -> dict[str, Any]:
        keys = ("max_abs", "max_error", "mean_abs", "rel_l2")
        return {key: self.largest(key) for key in keys} | {"samples": self.samples}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EquivalenceReport:
        accuracy = data.get("accuracy")
        return cls(
            provider=data["provider"],
            samples=data["samples"],
            outputs=tuple(OutputReport(**output) for output in data["outputs"]),
            sets=tuple(data.get("sets", ())),
            accuracy=AccuracyReport(**accuracy) if accuracy else None,
            failure=data.get("failure"),
            rows=data.get("rows"),
            placement=data.get("placement"),
            worst=data.get("worst"),
            search=data.get("search"),
        )


@dataclass(frozen=True, slots=True)
class ReferenceModel:
    """The source as ONNX, and the source's own answers to every sample."""

    source: SourceModel
    path: Path
    sha256: str
    opset: int
    precision: str
    size_bytes: int
    framework: str
    plan: Mapping[str, Any]
    samples: Path
    session: Session
    noise: Mapping[str, Any]
    itself: EquivalenceReport | None = None  # the unchanged file at the session's settings
    exported: EquivalenceReport | None = None

    @property
    def equivalence(self) -> Equivalence:
        """What a candidate is held to on the build's provider."""
        return self.source.config.equivalence_on(self.session.provider)

    @property
    def seed(self) -> int:
        return int(self.sha256[:12], 16)


@dataclass(frozen=True, slots=True)
class PassResult:
    name: str
    status: str  # changed, unchanged, failed, left-out
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    recipe: str
    path: Path | None
    precision: str
    size_bytes: int | None = None
    passes: tuple[PassResult, ...] = ()
    failure: str | None = None  # why there is no model
    broken: bool = False  # the recipe failed, rather than not applying or changing nothing
    stages: tuple[tuple[str, Path], ...] = ()  # what each pass that changed something wrote
    olive_file: Path | None = None  # of a recipe that is the user's own
    died: bool = False  # the process that ran it crashed or took too long: another time it may not
    identity: str | None = None  # equal for two candidates that are the same model
    fixed: Mapping[str, tuple[int, ...]] | None = None  # by input: the only shape that it takes
    curve: Mapping[str, Any] | None = None  # how its int8 layers were chosen: evidence/quantization.json

    @property
    def changes(self) -> list[str]:
        return [result.name for result in self.passes if result.status == "changed"]


@dataclass(frozen=True, slots=True)
class Timing:
    """One model by itself; absolute numbers are history, never the judge. None where it was not measured."""

    size_bytes: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    load_ms: float | None = None
    first_run_ms: float | None = None
    throughput_per_s: float | None = None  # rows of the sample, at the threads of the gate
    peak_rss_mb: float | None = None
    cpu_cores: float | None = None
    intervals: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)
    throughput: tuple[Mapping[str, Any], ...] = ()  # by threads and batch, each with its interval


@dataclass(frozen=True, slots=True)
class LatencyReport:
    """Candidate against a baseline in pairs; `ratio` is candidate time divided by baseline time."""

    provider: str
    verdict: str  # not-slower, regression, not-proven, not-comparable
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    detection_limit: float | None  # the smallest slow-down that it could have seen
    limit: float
    confidence: float
    pairs: int
    rounds: int
    seconds: float
    candidate: Timing
    baseline: Timing
    against: str = "source"
    reason: str = ""  # why nothing is proved
    load: Mapping[str, float] | None = None  # ratio of the times to load, with its interval
    sample: Mapping[str, Any] = field(default_factory=dict)  # what was timed: kind and sizes
    raw: tuple[Mapping[str, Any], ...] = ()

    def summary(self) -> dict[str, Any]:
        keys = ("ratio", "ratio_low", "ratio_high")
        return {key: getattr(self, key) for key in keys} | {"p50_ms": self.candidate.p50_ms}

    def numbers(self) -> dict[str, Any]:
        """Everything but the times of each run."""
        found = asdict(replace(self, raw=()))
        del found["raw"]
        return found


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate and everything that was found out about it."""

    candidate: Candidate
    equivalence: EquivalenceReport | None = None
    latency: LatencyReport | None = None
    status: str = "eligible"  # chosen, eligible, rejected
    reason: str = ""
    culprit: Mapping[str, Any] | None = None  # pass, operator, node, output and error of what broke it
    kept: Path | None = None  # the worst sample, for `verify --replay`
    search: Mapping[str, Any] | None = None  # what the search for a worse input found
    own: ReferenceModel | None = None  # the source on another provider, or at the only sizes that this candidate takes

    @property
    def provider(self) -> str | None:
        """Where it was proved, if it was."""
        return self.equivalence.provider if self.equivalence else self.own.session.provider if self.own else None

    def as_json(self) -> dict[str, Any]:
        return {
            "recipe": self.candidate.recipe,
            "provider": self.provider,
            "status": self.status,
            "reason": self.reason,
            "size_bytes": self.candidate.size_bytes,
            "passes": [asdict(result) for result in self.candidate.passes],
            "equivalence": self.equivalence.summary() if self.equivalence else None,
            "culprit": dict(self.culprit) if self.culprit else None,
            "died": self.candidate.died,
            "latency": self.latency.summary() if self.latency else None,
        }


@dataclass(frozen=True, slots=True)
class Choice:
    chosen: Tried
    tried: tuple[Tried, ...]
    tuning: tuple[Mapping[str, Any], ...] = ()  # settings of the session that were tried for the chosen one
    at_home: Tried | None = None  # the best where the chosen provider is missing: on the build's own, else on the CPU
    defaults: LatencyReport | None = None  # against the source at ONNX Runtime's defaults, where it leaves the bound
