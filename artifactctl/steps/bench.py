"""Two sides -> a Bench: the gate's verdict, each model's own numbers, and what the absolute budgets say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from artifactctl import baselines, folder, gate
from artifactctl.crew import Crew
from artifactctl.errors import ArtifactctlError, LatencyRegression, NotAvailable, NotProven
from artifactctl.percentiles import median_interval, milliseconds, percentile_of
from artifactctl.project import Budgets, Latency, Say
from artifactctl.records import LatencyReport, Session, Timing
from artifactctl.steps.measure import Duel, fight, report_of
from artifactctl.steps.sides import Side, demand_same_inputs, inputs_of, session_of

SURVEY_S = 1.5
SEED = 20_260  # of the order of runs; any number will do, the same one makes a run repeatable


@dataclass(frozen=True, slots=True)
class Bench:
    report: LatencyReport
    session: Session
    machine: dict[str, Any]
    noise: tuple[dict[str, Any], dict[str, Any]]
    warnings: tuple[str, ...]
    problems: tuple[ArtifactctlError, ...]  # the gate's and the budgets', worst first


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
    if baseline.metadata and provider is None and baseline.metadata["session"]["provider"] != session.provider:
        message = f"not comparable: {baseline.label} is for {baseline.metadata['session']['provider']}"
        raise NotAvailable(message, hint=f"Run both on one provider: --provider {session.provider}")
    demand_same_inputs(candidate, baseline, crew)
    inputs = inputs_of(candidate, crew.scratch, crew)
    before = crew.ask("timer", "describe_machine")
    duel = Duel(
        candidate.model, baseline.model, inputs, session, SEED, latency.max_regression, latency.confidence,
        latency.budget_s, baseline.label,
    )  # fmt: skip
    say(f"timing against {baseline.label}")
    rounds, seconds = fight(duel, crew)
    report = report_of(duel, rounds, seconds, (candidate.size_bytes, baseline.size_bytes))
    say("each model by itself")
    task = duel.task() | {"survey_s": SURVEY_S}
    report = replace(
        report,
        candidate=surveyed(report.candidate, crew.ask("timer", "survey", task=task, side="candidate")),
        baseline=surveyed(report.baseline, crew.ask("timer", "survey", task=task, side="baseline")),
    )
    machine, after = before["machine"], crew.ask("timer", "describe_machine")["noise"]
    problems = [
        *_gate_problem(report),
        *budget_problems(report, latency, budgets, machine, session, root, candidate.name),
    ]
    noise = (before["noise"], after)
    return Bench(report, session, machine, noise, tuple(noise_warnings(*noise)), tuple(problems))


def surveyed(timing: Timing, found: dict[str, Any]) -> Timing:
    """With what one process by itself showed; percentiles only where enough runs support them."""
    times = found["times_ns"]
    p50 = percentile_of(times, 0.5)
    return replace(
        timing,
        p50_ms=milliseconds(p50),
        p95_ms=milliseconds(percentile_of(times, 0.95)),
        p99_ms=milliseconds(percentile_of(times, 0.99)),
        throughput_per_s=round(1e9 / p50, 3) if p50 else None,
        peak_rss_mb=round(found["peak_rss_bytes"] / 1e6, 3),
        cpu_cores=round(found["cpu_cores"], 3),
        intervals={**timing.intervals, "p50_ms": _scaled(median_interval(times))},
    )


def _scaled(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if interval is None else (round(interval[0] / 1e6, 6), round(interval[1] / 1e6, 6))


def _gate_problem(report: LatencyReport) -> list[ArtifactctlError]:
    if report.verdict == gate.REGRESSION:
        message = f"slower than {report.against} by more than {report.limit:.1%}: {told(report)}"
        return [LatencyRegression(message)]
    if report.verdict == gate.NOT_PROVEN:
        limit = "unknown" if report.detection_limit is None else f"{report.detection_limit:.1%}"
        message = (
            f"not proven within {report.seconds:.0f} s: {told(report)}; "
            f"the smallest slow-down it could have seen is {limit}, the limit {report.limit:.1%}"
        )
        return [NotProven(message, hint="Give it more time (latency.budget_s), a wider limit, or a quieter machine.")]
    return []


def told(report: LatencyReport) -> str:
    if report.ratio is None or report.ratio_low is None or report.ratio_high is None:
        return f"one pair takes {report.seconds:.1f} s"
    return f"{report.ratio:.3f} × its time ({report.ratio_low:.3f}–{report.ratio_high:.3f})"


def budget_problems(
    report: LatencyReport,
    latency: Latency,
    budgets: Budgets,
    machine: dict[str, Any],
    session: Session,
    root: Path,
    model: str,
) -> list[ArtifactctlError]:
    """Absolute budgets hold only on a machine like that of the saved baseline; a file's size is one everywhere."""
    found: list[ArtifactctlError] = []
    size_mb = report.candidate.size_bytes / 1e6
    if budgets.size_mb is not None and size_mb > budgets.size_mb:
        found.append(LatencyRegression(f"{size_mb:.2f} MB is over size.max_mb {budgets.size_mb:g}"))
    asked = [
        ("latency.max_ms", latency.max_ms, report.candidate.p50_ms),
        ("memory.max_mb", budgets.memory_mb, report.candidate.peak_rss_mb),
    ]
    if all(limit is None for _, limit, _ in asked):
        return found
    saved = baselines.read(baselines.path_of(root, model, session.provider))
    if saved is None or saved["fingerprint"] != baselines.fingerprint(machine, session):
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


def saved_baseline(found: Bench, side: Side) -> dict[str, Any]:
    sums = side.model.with_name(folder.SUMS)
    artifact = {
        "version": side.metadata["version"] if side.metadata else None,
        "sha256": folder.digest(sums if sums.is_file() else side.model),
    }
    return baselines.content(side.name, artifact, found.report.candidate, found.machine, found.session)
