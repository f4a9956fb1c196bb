"""What the user asks for, as frozen records: a project, its models, their sources and bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Say = Callable[[str], None]  # hears what is being done


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What the user says of an input; None where the file, or the graph, says it."""

    shape: tuple[int | str, ...] | None = None
    dtype: str | None = None
    range: tuple[float, float] | None = None
    values: tuple[float | str | bool, ...] | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model comes from; `target` is a path, or `file.py:function`, or `package.module:function`."""

    kind: str
    target: str
    weights: str | None = None
    inputs: Mapping[str, InputSpec] = field(default_factory=dict)
    opset: int | None = None


@dataclass(frozen=True, slots=True)
class Data:
    samples: str | None = None
    labels: str | None = None
    calibration: str | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    max_abs: float | None = 1e-3
    absolute: bool = False
    min_cosine: float | None = None
    min_top1: float | None = None
    max_accuracy_drop: float | None = None

    def describe(self) -> str:
        scaled = "" if self.absolute else " · max(1, |r|)"
        parts = [f"max_abs ≤ {self.max_abs:g}{scaled}"] if self.max_abs is not None else []
        for key, sign in (("min_cosine", "≥"), ("min_top1", "≥"), ("max_accuracy_drop", "≤")):
            if (value := getattr(self, key)) is not None:
                parts.append(f"{key} {sign} {value:g}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Equivalence:
    default: Bound = Bound()
    outputs: Mapping[str, Bound] = field(default_factory=dict)
    search_s: float = 0.0  # seconds spent on looking for a worse input, for each candidate


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """What one provider is given of its own."""

    bound: Bound | None = None  # for all outputs, in place of the model's bounds
    options: Mapping[str, str] = field(default_factory=dict)  # of the session, beside those of the provider table


@dataclass(frozen=True, slots=True)
class Latency:
    max_regression: float = 0.10
    confidence: float = 0.99
    budget_s: float = 60.0
    max_ms: float | None = None  # absolute budgets hold on the machine of the saved baseline only
    max_drift: float | None = None  # against the oldest version, or `drift_since`
    drift_since: int | None = None
    batches: tuple[int, ...] = ()  # sizes at which throughput is measured, beside that of the sample


@dataclass(frozen=True, slots=True)
class Budgets:
    memory_mb: float | None = None
    size_mb: float | None = None
    load: float | None = 0.0  # by which share of the source's a load may be longer; None: by any


SEARCH_S = 120.0


@dataclass(frozen=True, slots=True)
class ModelConfig:
    name: str
    source: Source
    data: Data = Data()
    recipes: tuple[str, ...] = ("auto",)
    equivalence: Equivalence = Equivalence()
    latency: Latency = Latency()
    budgets: Budgets = Budgets()
    providers: tuple[str, ...] = ("cpu",)
    license: str | None = None  # an SPDX expression, or any text
    own: Mapping[str, OwnTerms] = field(default_factory=dict)  # by provider, only where there is something
    min_runtime: str | None = None  # the oldest ONNX Runtime that every version must run on
    session: bool = False  # whether the settings of the session are tuned too
    objective: str = "latency"
    budget_s: float = SEARCH_S  # of the search for the best candidate
    shapes: tuple[Mapping[str, tuple[int, ...]], ...] = ()  # by input: sizes that a fixed model is made for

    def equivalence_on(self, provider: str) -> Equivalence:
        """The bounds that the model is held to on a provider."""
        own = self.own.get(provider)
        if own is None or own.bound is None:
            return self.equivalence
        return Equivalence(own.bound, {}, self.equivalence.search_s)

    def options_on(self, provider: str) -> Mapping[str, str]:
        own = self.own.get(provider)
        return own.options if own else {}


@dataclass(frozen=True, slots=True)
class Release:
    store: str = "git"  # where the bytes of a released artifact live: git, lfs, dvc


@dataclass(frozen=True, slots=True)
class Project:
    """A configuration; `root` is the folder its relative paths start from."""

    root: Path
    models: Mapping[str, ModelConfig]
    config_path: Path | None = None
    release: Release = Release()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one operation of a child process may take; beyond it, the model is at fault."""

    time_s: float = 1800.0  # also the default of --time-limit
    memory_mb: int | None = None  # None: what the machine has

    def within(self, seconds: float) -> float:
        """As long as asked for, and short enough to answer before the limit."""
        return min(seconds, 0.9 * self.time_s)


@dataclass(frozen=True, slots=True)
class BuildRequest:
    config: ModelConfig
    root: Path  # what the configuration's paths are relative to
    artifacts: Path  # where <model>/artifact_vN goes
    force: bool = False
    cache: Path | None = None  # where what recipes made is kept; None: it is made here and now

    @property
    def home(self) -> Path:
        return self.artifacts / self.config.name


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    reference: str  # MODEL or MODEL@vN
    root: Path  # where artifacts/, baselines/ and dist/ lie
    project: Project | None = None
    dry_run: bool = False
    push: bool = False
    remote: str | None = None
    resume: bool = False  # only go on with what was begun
    package: Path | None = None  # made before; it is opened and proved, not made again
