"""ReferenceModel, Candidate -> EquivalenceReport; and the same proof again from a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from artifactctl.crew import Crew
from artifactctl.errors import ArtifactctlError, NotAvailable, SourceError, is_full_disk
from artifactctl.project import Equivalence
from artifactctl.records import Candidate, EquivalenceReport, ReferenceModel, Tried

LONGEST_REASON = 300


def bounds_of(equivalence: Equivalence) -> dict[str, Any]:
    return {
        "default": asdict(equivalence.default),
        "outputs": {name: asdict(bound) for name, bound in equivalence.outputs.items()},
    }


def statement_of(equivalence: Equivalence) -> str:
    """The bound that is proved, in words that may stand in a tag."""
    named = [f"{name}: {bound.describe()}" for name, bound in equivalence.outputs.items()]
    return "; ".join([equivalence.default.describe(), *named])


def how_of(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What the proof must know of a plan; rows of two batches are also asked one by one."""
    free = {
        spec["shape"][axis] for spec in plan["inputs"] if (axis := plan["batch_axes"].get(spec["name"])) is not None
    }
    split = [
        number
        for number, entry in plan["entries"].items()
        if entry["origin"] == "seeded" and not entry.get("follows") and any(entry["dims"][name] > 1 for name in free)
    ]
    return {key: plan[key] for key in ("batched", "states", "batch_axes")} | {"split": split[:2]}


def prove(reference: ReferenceModel, candidate: Candidate, crew: Crew) -> EquivalenceReport:
    """The candidate, run as users will run it, against the source's own answers."""
    try:
        found = crew.ask(
            "runner", "prove", path=str(candidate.path), folder=str(reference.samples),
            settings=asdict(reference.session), bounds=bounds_of(reference.equivalence),
            how=how_of(reference.plan),
        )  # fmt: skip
    except SourceError as error:
        return EquivalenceReport(reference.session.provider, 0, (), failure=str(error))
    untaken = tuple(entry["condition"] for entry in reference.plan["branches"] if len(entry["taken"]) < 2)
    report = replace(EquivalenceReport.from_dict(found), untaken=untaken)
    alone, source_alone = report.rows, reference.noise.get("rows")
    if report.passed and alone and alone["reason"] and source_alone and not source_alone["reason"]:
        failure = (
            f"a row alone is answered otherwise than in its batch, which the source does not do: {alone['reason']}"
        )
        return replace(report, failure=failure)
    return report


def put_to_proof(
    reference: ReferenceModel, candidate: Candidate, crew: Crew, own: ReferenceModel | None = None
) -> Tried:
    """A candidate of a build, at its own place if it has one. That a provider runs only some of its nodes speaks
    against the candidate, and ends no build."""
    try:
        return Tried(candidate, prove(own or reference, candidate, crew), own=own)
    except NotAvailable as error:
        return refused(candidate, error, own)


def refused(candidate: Candidate, error: ArtifactctlError, own: ReferenceModel | None) -> Tried:
    """With the reason; a full disk speaks against nobody, and goes on."""
    if is_full_disk(error):
        raise error
    why = str(error).splitlines()[0][:LONGEST_REASON]
    return Tried(replace(candidate, path=None, failure=why), own=own)
