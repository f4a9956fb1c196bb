"""The reference is settled: its export proved, its own noise known, and session settings found that hold the bound."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from artifactctl.crew import Crew
from artifactctl.errors import ConfigError, NotEquivalent, SourceError
from artifactctl.folder import shown
from artifactctl.project import Equivalence
from artifactctl.providers import PROVIDERS
from artifactctl.records import EquivalenceReport, ReferenceModel, Session
from artifactctl.steps.explain import keep_evidence
from artifactctl.steps.verify import bounds_of, how_of

FLOAT64_SAMPLES = 2


def as_written(session: Session) -> dict[str, Any]:
    """The source is the judge: on the CPU, with no graph optimization."""
    row = PROVIDERS["cpu"]
    judge = replace(
        session, provider="cpu", execution_provider=row.execution_provider, graph_level="disabled", options={}
    )
    return asdict(judge)


def settle(reference: ReferenceModel, crew: Crew) -> ReferenceModel:
    """Prove the exported file, and find the session settings at which the unchanged source holds its own bound."""
    config = reference.source.config
    _demand_steady(reference)
    found = crew.ask("runner", "prove", settings=as_written(reference.session), **_asked(reference))
    written = EquivalenceReport.from_dict(found)
    _know_outputs(config.equivalence, crew.ask("runner", "inspect", path=str(reference.path))["outputs"])
    if not written.passed:
        if config.source.kind == "onnx":
            message = f"the source does not agree with itself: {written.reason}"
            hint = "It draws random numbers or depends on uninitialized memory; make it deterministic first."
        else:
            message = f"the exported ONNX model is not the source: {written.reason}"
            hint = "Compare source.inputs with forward; sizes that must stay fixed should be numbers, not names."
        raise NotEquivalent(message + _kept(reference, written, "export", crew), hint=hint)
    noise = {"reference": reference.noise["reference"], "rows": written.rows}
    noise["float64"] = _float64_noise(reference, crew)
    exported = None if config.source.kind == "onnx" else written
    return find_level(replace(reference, noise=noise, exported=exported), crew)


def _asked(reference: ReferenceModel) -> dict[str, Any]:
    return {
        "path": str(reference.path),
        "folder": str(reference.samples),
        "bounds": bounds_of(reference.equivalence),
        "how": how_of(reference.plan),
    }


def find_level(reference: ReferenceModel, crew: Crew) -> ReferenceModel:
    """The highest graph level at which the unchanged source holds its own bound on all samples."""
    noise = crew.ask("runner", "noise", settings=asdict(reference.session), **_asked(reference))
    if noise["graph_level"] is None:
        reasons = "; ".join(f"{entry['graph_level']}: {entry['reason']}" for entry in noise["levels"])
        message = (
            f"the unchanged source leaves the bound on {reference.session.provider} at every graph level: {reasons}"
        )
        message += _kept(reference, EquivalenceReport.from_dict(noise["report"]), "source", crew)
        raise NotEquivalent(message, hint="Choose a bound or a measure that the source itself can hold.")
    return replace(
        reference,
        session=replace(reference.session, graph_level=noise["graph_level"]),
        noise={**reference.noise, "levels": noise["levels"]},
        itself=EquivalenceReport.from_dict(noise["report"]),
    )


def _kept(reference: ReferenceModel, report: EquivalenceReport, name: str, crew: Crew) -> str:
    kept = keep_evidence(reference, report, reference.path, name, crew)
    return f"\nThe worst sample is kept: {shown(kept)}" if kept else ""


def _float64_noise(reference: ReferenceModel, crew: Crew) -> dict[str, Any]:
    """How far the source itself lies from what it would answer in float64: the error that nobody can avoid."""
    entries = reference.plan["entries"]
    seeded = [number for number, entry in entries.items() if entry["origin"] == "seeded"]
    samples = [str(reference.samples / f"{number}.npz") for number in (seeded or list(entries))[:FLOAT64_SAMPLES]]
    bounds = bounds_of(reference.equivalence)
    try:
        found: dict[str, Any] = crew.ask(
            "runner", "float64_noise", path=str(reference.path), samples=samples, bounds=bounds
        )
    except SourceError as error:  # it is a remark beside the proof, not a part of it
        return {"ran": False, "reason": str(error)}
    return found


def _demand_steady(reference: ReferenceModel) -> None:
    """A source that gives two answers to one question cannot be compared with anything."""
    for output in reference.noise["reference"]:
        error = output["max_error"]
        limit = reference.equivalence.default.max_abs
        if output["reason"] or (limit is not None and error is not None and error > limit):
            why = output["reason"] or f"two runs differ by {error:.3g}"
            hint = "It draws random numbers or depends on uninitialized memory; make it deterministic first."
            raise NotEquivalent(f"the source does not agree with itself: output {output['name']!r}: {why}", hint=hint)


def _know_outputs(equivalence: Equivalence, outputs: list[dict[str, Any]]) -> None:
    """A bound for an output that does not exist would hold nothing."""
    known = [output["name"] for output in outputs]
    for name in equivalence.outputs:
        if name not in known:
            message = f"equivalence.outputs names {name!r}, but the model's outputs are {', '.join(known)}"
            raise ConfigError(message, hint="Correct the name; 'artifactctl inspect FILE' lists the outputs.")
