"""A model against the versions before it: the one before, and the oldest, so that small steps do not add up unseen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from artifactctl import verdicts
from artifactctl.crew import Crew
from artifactctl.errors import (
    ArtifactctlError,
    ArtifactDamaged,
    LatencyRegression,
    NotAvailable,
    NotProven,
    SourceError,
)
from artifactctl.folder import shown
from artifactctl.project import Latency, Say
from artifactctl.records import Choice, LatencyReport, Session, Timing
from artifactctl.steps.explain import keep_model
from artifactctl.steps.measure import Duel, Terms, fight, report_of
from artifactctl.steps.sides import Side, calm, earlier, own_session, recorded, session_of, side_of, why_incomparable

PREVIOUS, OLDEST = "previous", "oldest"
SETTINGS = {PREVIOUS: "max_regression", OLDEST: "max_drift"}


@dataclass(frozen=True, slots=True)
class Contender:
    """What is compared with its past: a model with the inputs, the session and the seed of its measurement."""

    side: Side
    inputs: Path | None
    session: Session
    seed: int
    providers: tuple[str, ...] = ()  # that a version before may have been chosen for: it is then run as it was chosen


def stand(
    contender: Contender,
    home: Path,
    before: int,
    latency: Latency,
    crew: Crew,
    say: Say,
    which: tuple[str, ...] = (PREVIOUS, OLDEST),
) -> dict[str, LatencyReport]:
    """Against the version before, and with `latency.max_drift` against the oldest; empty where there is none."""
    found = {}
    for name in which:
        limit: float | None = getattr(latency, SETTINGS[name])
        if limit is None:
            continue
        try:
            side = _version(name, contender, home, before, latency, crew, say)
        except SourceError as error:  # it is released, and its bytes cannot be had
            found[name] = _incomparable(contender, f"the {name} version", limit, latency, str(error))
            continue
        if side is not None:
            say(f"timing against {side.label}")
            found[name] = compare(contender, side, limit, latency, crew)
    return found


def _version(
    which: str, contender: Contender, home: Path, before: int, latency: Latency, crew: Crew, say: Say
) -> Side | None:
    """The version before, as it is; or the oldest one that can be compared, from `latency.drift_since` on."""
    first = None
    since = latency.drift_since or 1
    for path, label in earlier(home, contender.side.name, before, crew.scratch, oldest_first=which == OLDEST):
        try:
            side = side_of(path, label)
        except ArtifactDamaged as error:
            say(f"warning: {label} does not count: {error}")
            continue
        if which == PREVIOUS:
            return side
        if (side.version or 0) < since:
            continue
        first = first or side
        if not why_incomparable(contender.side, side, crew, _provider(contender, side)):
            return side
    return first


def compare(contender: Contender, other: Side, limit: float, latency: Latency, crew: Crew) -> LatencyReport:
    """In pairs; *not comparable* where they cannot be run on the same inputs and provider."""
    terms = Terms(limit, latency.confidence, latency.budget_s, other.label)
    sizes = (contender.side.size_bytes, other.size_bytes)
    provider = contender.session.provider
    found = why_incomparable(contender.side, other, crew, _provider(contender, other))
    reason = found[0] if found else ""
    if not reason:
        try:
            duel = Duel(
                contender.side.model, other.model, contender.inputs, calm(contender.session), contender.seed, terms,
                _session(contender, other, crew),
            )  # fmt: skip
            rounds, seconds = fight(duel, crew)
        except (SourceError, NotAvailable) as error:
            reason = f"{other.label} cannot be run on the same inputs: {error}"
        else:
            return report_of(terms, provider, rounds, seconds, sizes)
    return _incomparable(contender, other.label, limit, latency, reason, other.size_bytes)


def _provider(contender: Contender, other: Side) -> str | None:
    """Which provider the other must be for; None where it is its own that it may be run on."""
    own = other.metadata["session"]["provider"] if other.metadata else None
    return None if own in contender.providers else contender.session.provider


def _session(contender: Contender, other: Side, crew: Crew) -> Session:
    same = _provider(contender, other) is not None
    return own_session(other, contender.session) if same else session_of(other, None, crew)


def _incomparable(
    contender: Contender, against: str, limit: float, latency: Latency, reason: str, size_bytes: int = 0
) -> LatencyReport:
    provider, own, other = contender.session.provider, Timing(contender.side.size_bytes), Timing(size_bytes)
    return LatencyReport(
        provider, verdicts.NOT_COMPARABLE, None, None, None, None, limit, latency.confidence, 0, 0, 0.0,
        own, other, against, reason,
    )  # fmt: skip


def problem_of(report: LatencyReport, key: str, hint: str | None = None) -> ArtifactctlError | None:
    """What a verdict means at the edge; `key` is the setting that allows more."""
    text = verdicts.sentence(report.numbers())
    if report.verdict == verdicts.REGRESSION:
        return LatencyRegression(f"{text} (latency.{key})", hint=hint)
    if report.verdict == verdicts.NOT_PROVEN:
        reason = f"; {report.reason}" if report.ratio is not None else ""
        more = f"Give it more time (--budget, latency.budget_s), a wider latency.{key}, or a quieter machine."
        return NotProven(f"{text}{reason}, after {report.seconds:.0f} s", hint=more)
    return None


def demand_not_slower(standing: Mapping[str, LatencyReport], choice: Choice, crew: Crew) -> None:
    """An error where it is proved slower than allowed; the model is kept for looking at it, and nothing is written."""
    for name, report in standing.items():
        if report.verdict != verdicts.REGRESSION:
            continue
        kept = keep_model(choice.chosen.candidate.path, choice.chosen.candidate.recipe, crew)
        look = f"\nWhere the time goes: artifactctl profile {shown(kept)} --against {report.against}" if kept else ""
        allow = {
            PREVIOUS: f"artifactctl build --max-regression {math.ceil(100 * (report.ratio_high or 1) - 100)}%",
            OLDEST: "raise latency.max_drift, or let it count from a later version: latency.drift_since",
        }
        problem = problem_of(report, SETTINGS[name], hint=f"If the slow-down is wanted: {allow[name]}{look}")
        assert problem is not None
        raise problem


def history(home: Path, model: str, before: int, crew: Crew) -> list[dict[str, Any]]:
    """What each version recorded when it was built: its ratio to the version before it. To read, not to judge by."""
    found = []
    for metadata in recorded(home, model, before, crew.scratch):
        latency: Mapping[str, Any] = metadata["latency"] or {}
        previous = latency.get(PREVIOUS) or {}
        keys = ("verdict", "ratio", "ratio_low", "ratio_high")
        found.append(
            {"version": metadata["version"], "p50_ms": metadata["latency_ms"]}
            | {key: previous.get(key) for key in keys}
        )
    return found


def anonymous(report: LatencyReport) -> LatencyReport:
    """As it is recorded in an artifact: the other version by its name alone, wherever it lay."""
    return replace(report, against=report.against.removesuffix(" (tag)").rpartition("/")[2])
