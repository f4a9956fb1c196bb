"""ReferenceModel, Candidate -> EquivalenceReport; and the same proof again from a folder."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from artifactctl import folder
from artifactctl.crew import Crew
from artifactctl.errors import NotAvailable, SourceError
from artifactctl.project import Equivalence
from artifactctl.providers import PROVIDERS
from artifactctl.records import Candidate, EquivalenceReport, ReferenceModel


def bounds_of(equivalence: Equivalence) -> dict[str, Any]:
    return {
        "default": asdict(equivalence.default),
        "outputs": {name: asdict(bound) for name, bound in equivalence.outputs.items()},
    }


def statement_of(equivalence: Equivalence) -> str:
    """The bound that is proved, in words that may stand in a tag."""
    named = [f"{name}: {bound.describe()}" for name, bound in equivalence.outputs.items()]
    return "; ".join([equivalence.default.describe(), *named])


def prove(reference: ReferenceModel, candidate: Candidate, crew: Crew) -> EquivalenceReport:
    """The candidate, run as users will run it, against the source's own answers."""
    try:
        found = crew.ask(
            "runner", "prove", path=str(candidate.path), folder=str(reference.samples),
            settings=asdict(reference.session), bounds=bounds_of(reference.source.config.equivalence),
            batched=reference.plan["batched"],
        )  # fmt: skip
    except SourceError as error:
        return EquivalenceReport(reference.session.provider, 0, (), failure=str(error))
    untaken = tuple(entry["condition"] for entry in reference.plan["branches"] if len(entry["taken"]) < 2)
    return replace(EquivalenceReport.from_dict(found), untaken=untaken)


def verify_artifact(
    path: Path,
    metadata: dict[str, Any],
    crew: Crew,
    *,
    provider: str | None,
    reference: Path | None,
    samples: int | None,
) -> EquivalenceReport:
    """Prove an artifact again from its own files; no code from it is run."""
    settings = dict(metadata["session"])
    if provider and provider != settings["provider"]:
        row = PROVIDERS[provider]
        settings |= {"provider": provider, "execution_provider": row.execution_provider, "options": {}}
    path = path.resolve()  # the child works in a folder of its own
    common: dict[str, Any] = {
        "path": str(path / folder.MODEL),
        "settings": settings,
        "bounds": metadata["equivalence"]["bounds"],
    }
    plan = metadata["reference"]["samples"]
    kept = samples if reference is None else None
    try:
        found = crew.ask("runner", "verify_golden", golden=str(path / folder.GOLDEN), plan=plan, count=kept, **common)
        if reference is None:
            return EquivalenceReport.from_dict(found)
        source, count = str(reference.resolve()), samples or len(plan["sets"])
        fresh = crew.ask("runner", "verify_fresh", reference=source, plan=plan, count=count, **common)
    except NotAvailable as error:
        name = settings["provider"]
        raise NotAvailable(str(error), hint=PROVIDERS[name].install) from None
    outputs = found["outputs"] + fresh["outputs"]
    return EquivalenceReport.from_dict(found | {"samples": found["samples"] + fresh["samples"], "outputs": outputs})
