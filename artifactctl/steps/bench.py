"""Two sides -> a Bench: the gate's verdict, each model's own numbers, and what the absolute budgets say."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from artifactctl import baselines
from artifactctl.crew import Crew
from artifactctl.errors import ArtifactctlError, LatencyRegression, NotAvailable
from artifactctl.project import Budgets, Latency, Say
from artifactctl.records import LatencyReport, Session
from artifactctl.steps.measure import Duel, Terms, fight, report_of
from artifactctl.steps.sides import Side, demand_comparable, inputs_of, own_session, session_of
from artifactctl.steps.standing import OLDEST, Contender, history, problem_of, stand
from artifactctl.steps.survey import denormals, refused, survey_rows, surveyed

SEED = 20_260  # of the order of runs; any number will do, the same one makes a run repeatable


@dataclass(frozen=True, slots=True)
class Subject:
    """What was measured, wherever that was."""

    name: str
    label: str
    version: int | None
    sha256: str
    size_bytes: int
    accuracy_drop: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def subject_of(side: Side) -> Subject:
    drop = side.metadata["accuracy_drop"] if side.metadata else None
    return Subject(side.name, side.label, side.version, side.sha256, side.size_bytes, drop)


@dataclass(frozen=True, slots=True)
class Bench:
    subject: Subject
    report: LatencyReport
    session: Session
    machine: dict[str, Any]
    noise: tuple[dict[str, Any], dict[str, Any]]
    warnings: tuple[str, ...]
    problems: tuple[ArtifactctlError, ...]  # the gate's and the budgets', worst first
    drift: LatencyReport | None = None  # against the oldest version
    history: tuple[dict[str, Any], ...] = ()  # what earlier versions recorded


def prepare(
    candidate: Side, baseline: Side, latency: Latency, session: Session, crew: Crew
) -> tuple[Duel, list[dict[str, Any]]]:
    """The pairs that are to be run, and the rows of the survey: 1 and many threads, by the sizes of a batch."""
    inputs, batched = inputs_of(candidate, crew.scratch, crew)
    terms = Terms(latency.max_regression, latency.confidence, latency.budget_s, baseline.label)
    session = own_session(candidate, session)
    duel = Duel(
        candidate.model, baseline.model, inputs, session, SEED, terms, own_session(baseline, session)
    )  # fmt: skip
    return duel, survey_rows(inputs, batched, latency.batches, session.intra_op_threads, crew)


def bench(
    candidate: Side,
    baseline: Side,
    latency: Latency,
    budgets: Budgets,
    provider: str | None,
    root: Path,
    crew: Crew,
    say: Say,
) -> Bench:
    """Both run now, on this machine, with the same threads, provider and inputs."""
    session = session_of(candidate, provider, crew)
    demand_comparable(candidate, baseline, crew, None if provider else session.provider)
    duel, rows = prepare(candidate, baseline, latency, session, crew)
    before = crew.ask("timer", "describe_machine")
    say(f"timing against {baseline.label}")
    rounds, seconds = fight(duel, crew)
    report = report_of(duel.terms, session.provider, rounds, seconds, (candidate.size_bytes, baseline.size_bytes))
    warnings = list[str]()
    drift, past = None, list[dict[str, Any]]()
    if report.pairs:
        say("each model by itself")
        task = duel.task() | {"surveys": rows}
        found = {side: crew.ask("timer", "surveys", task=task, side=side) for side in ("candidate", "baseline")}
        report = surveyed(report, found)
        warnings += refused(found, latency.batches) + denormals(duel, crew)
    if candidate.version is not None:
        home, contender = candidate.model.parent.parent, Contender(candidate, duel.inputs, session, SEED)
        past = history(home, candidate.name, candidate.version, crew)
        drift = stand(contender, home, candidate.version, latency, crew, say, (OLDEST,)).get(OLDEST)
    noise = (before["noise"], crew.ask("timer", "describe_machine")["noise"])
    machine = before["machine"]
    problems = judged(report, drift, Standard(latency, budgets, machine, session, root, candidate.name))
    warnings = noise_warnings(*noise) + warnings
    subject = subject_of(candidate)
    return Bench(subject, report, session, machine, noise, tuple(warnings), problems, drift, tuple(past))


@dataclass(frozen=True, slots=True)
class Standard:
    """What is allowed, and where it was measured: absolute budgets need the saved baseline of such a machine."""

    latency: Latency
    budgets: Budgets
    machine: dict[str, Any]
    session: Session
    root: Path
    model: str


def judged(report: LatencyReport, drift: LatencyReport | None, standard: Standard) -> tuple[ArtifactctlError, ...]:
    gates = [problem_of(report, "max_regression"), problem_of(drift, "max_drift") if drift else None]
    return (*(problem for problem in gates if problem), *budget_problems(report, standard))


def budget_problems(report: LatencyReport, standard: Standard) -> list[ArtifactctlError]:
    """Absolute budgets hold only on a machine like that of the saved baseline; a file's size is one everywhere."""
    found: list[ArtifactctlError] = []
    budgets, session = standard.budgets, standard.session
    size_mb = report.candidate.size_bytes / 1e6
    if budgets.size_mb is not None and size_mb > budgets.size_mb:
        found.append(LatencyRegression(f"{size_mb:.2f} MB is over size.max_mb {budgets.size_mb:g}"))
    asked = [
        ("latency.max_ms", standard.latency.max_ms, report.candidate.p50_ms),
        ("memory.max_mb", budgets.memory_mb, report.candidate.peak_rss_mb),
    ]
    if all(limit is None for _, limit, _ in asked):
        return found
    saved = baselines.read(baselines.path_of(standard.root, standard.model, session.provider))
    if saved is None or saved["fingerprint"] != baselines.fingerprint(standard.machine, session):
        why = "no baseline is saved" if saved is None else "the saved baseline is of another machine"
        names = " and ".join(name for name, limit, _ in asked if limit is not None)
        hint = "Save one on the machine that counts: artifactctl bench ARTIFACT --save-baseline"
        return [*found, NotAvailable(f"not comparable: {names} cannot be judged here, {why}", hint=hint)]
    for name, limit, value in asked:
        if limit is not None and (value is None or value > limit):
            found.append(LatencyRegression(f"{'nothing' if value is None else f'{value:g}'} is over {name} {limit:g}"))
    return found


def noise_warnings(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What made the measurement worse than it could be."""
    found = []
    if before["governor"] not in (None, "performance"):
        found.append(f"the CPU governor is {before['governor']!r}: frequencies change while it runs")
    if before["quota_cores"] is not None:
        found.append(f"the container may use {before['quota_cores']:g} cores: it is stopped now and then")
    if before["steal"] and after["steal"]:
        stolen, total = (after["steal"][place] - before["steal"][place] for place in (0, 1))
        if total > 0 and stolen / total > 0.01:
            found.append(f"other virtual machines took {stolen / total:.0%} of the CPU meanwhile")
    if before["load"] is not None and before["load"] > 1.0:
        found.append(f"the machine was busy before it began (load {before['load']:g})")
    return found


def saved_baseline(found: Bench) -> dict[str, Any]:
    subject = found.subject
    artifact = {"version": subject.version, "sha256": subject.sha256}
    return baselines.content(subject.name, artifact, found.report.candidate, found.machine, found.session)
