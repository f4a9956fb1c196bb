"""Choice -> Choice with the session's settings that are proved faster for it, one setting after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from artifactctl.clock import Clock
from artifactctl.crew import Crew
from artifactctl.providers import CPU
from artifactctl.records import Choice, ReferenceModel, Session, Tried
from artifactctl.steps.contest import Contest
from artifactctl.steps.refusals import loses, rejection
from artifactctl.steps.verify import put_to_proof

SHARE = 4  # of optimize.budget_s, at least
LEVELS = ("all", "extended", "basic")
KNOBS = ("graph_level", "memory_pattern", "arena", "flush_denormals", "allow_spinning", "intra_op_threads")


def tune(contest: Contest, choice: Choice) -> Choice:
    """Every other value of every setting is proved, then timed against what is best so far. It was asked for, so a
    search that took all the time leaves some."""
    best, found = choice.chosen, list[dict[str, Any]]()
    contest = replace(contest, clock=Clock(max(contest.clock.left, contest.clock.budget_s / SHARE)))
    for knob, value in settings(_own(contest.reference, best).session):
        if contest.clock.left <= 0:
            break
        own = _own(contest.reference, best)
        if getattr(own.session, knob) == value:
            continue
        tuned = _proved(replace(own, session=replace(own.session, **{knob: value})), best, contest.crew)
        if tuned is None:
            found.append({"setting": knob, "value": value, "ratio": None, "adopted": False})
            continue
        contest.say(f"timing {knob} {value}")
        report = contest.duel(tuned, best)
        adopted = report is not None and report.ratio_high is not None and report.ratio_high < 1
        found.append({"setting": knob, "value": value, "ratio": report.ratio if report else None, "adopted": adopted})
        best = tuned if adopted else best
    if best is not choice.chosen:
        best = contest.against_the_source(best, contest.reference.source.config.latency.budget_s)
        if best.candidate.failure or rejection(best, contest.rules) or loses(best, choice.chosen, contest.rules):
            best, found = choice.chosen, [entry | {"adopted": False} for entry in found]
    return _with(choice, best, tuple(found))


def settings(session: Session) -> Iterator[tuple[str, Any]]:
    """Other values than ONNX Runtime's defaults; most of them mean something to its own CPU kernels only."""
    for level in LEVELS:
        yield "graph_level", level
    if session.execution_provider != CPU:
        return
    yield "flush_denormals", True
    yield "memory_pattern", False
    yield "arena", False
    if session.intra_op_threads > 1:
        yield "allow_spinning", False
    threads = session.intra_op_threads
    while threads > 1:
        threads //= 2
        yield "intra_op_threads", threads


def as_tuned(reference: ReferenceModel, choice: Choice, recorded: Mapping[str, Any], crew: Crew) -> Choice:
    """With the settings that were found when it was recorded, if they are proved here too."""
    own = _own(reference, choice.chosen)
    knobs = [knob for knob in KNOBS[:-1] if knob in recorded]  # threads are the machine's
    session = replace(own.session, **{knob: recorded[knob] for knob in knobs})
    if session == own.session:
        return choice
    tuned = _proved(replace(own, session=session), choice.chosen, crew)
    return _with(choice, tuned, ()) if tuned else choice


def _own(reference: ReferenceModel, item: Tried) -> ReferenceModel:
    return item.own or reference


def _proved(own: ReferenceModel, item: Tried, crew: Crew) -> Tried | None:
    report = put_to_proof(own, item.candidate, crew).equivalence
    return replace(item, own=own, equivalence=report) if report and report.proves_something else None


def _with(choice: Choice, best: Tried, found: tuple[dict[str, Any], ...]) -> Choice:
    tried = tuple(best if item is choice.chosen else item for item in choice.tried)
    return replace(choice, chosen=best, tried=tried, tuning=found)
