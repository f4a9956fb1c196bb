"""SourceModel -> ReferenceModel: the source as ONNX, proved against the source, with its answers to every sample."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from artifactctl import folder
from artifactctl.crew import Crew
from artifactctl.errors import ConfigError, NotAvailable, NotEquivalent, SourceError
from artifactctl.folder import FileDigest
from artifactctl.project import Equivalence
from artifactctl.providers import PROVIDERS
from artifactctl.records import EquivalenceReport, ReferenceModel, Session, SourceModel
from artifactctl.steps.verify import bounds_of


def session_for(provider: str, crew: Crew) -> Session:
    row = PROVIDERS[provider]
    here = crew.ask("runner", "describe_runtime")
    if row.execution_provider not in here["providers"]:
        names = ", ".join(name for name, other in PROVIDERS.items() if other.execution_provider in here["providers"])
        raise NotAvailable(f"provider {provider} is not available here (this machine has {names})", hint=row.install)
    return Session(provider, row.execution_provider, here["threads"])


def make_reference(source: SourceModel, provider: str, scratch: Path, crew: Crew) -> ReferenceModel:
    """Everything after this is compared with the answers that are recorded here."""
    session = session_for(provider, crew)
    path, info, source = _as_onnx(source, scratch, crew)
    sha256 = folder.digest(path)
    plan = crew.ask("runner", "plan_inputs", path=str(path), settings=_as_written(session), seed=int(sha256[:12], 16),
        declared={name: asdict(spec) for name, spec in source.config.source.inputs.items()},
        probe=source.config.source.kind == "onnx",
    )  # fmt: skip
    samples = scratch / "samples"
    data = source.config.data
    entries = crew.ask(
        "runner", "write_samples", plan=plan, folder=str(samples),
        samples=str(source.root / data.samples) if data.samples else None,
        labels=str(source.root / data.labels) if data.labels else None,
    )  # fmt: skip
    if source.config.source.kind == "onnx":
        refused = crew.ask(
            "runner", "answer_as_written", path=str(path), folder=str(samples), settings=_as_written(session)
        )
    else:
        refused = crew.ask("framework", "answer", folder=str(samples))
        crew.dismiss("framework")
    plan = _inside_domain(plan, entries, refused)
    reference = ReferenceModel(
        source, path, sha256, info["opset"], info["precision"], info["size_bytes"], info["framework"],
        plan, samples, session, noise={},
    )  # fmt: skip
    return _settle(reference, crew)


def _as_onnx(source: SourceModel, scratch: Path, crew: Crew) -> tuple[Path, dict[str, Any], SourceModel]:
    if source.config.source.kind == "onnx":
        info = crew.ask("runner", "inspect", path=str(source.path))
        return source.path, info | {"framework": "the ONNX file as written"}, source
    spec, path = source.config.source, scratch / "reference" / "model.onnx"
    path.parent.mkdir()
    info = crew.ask(
        "framework", "export", kind=spec.kind, target=spec.target, weights=spec.weights, opset=spec.opset,
        inputs={name: asdict(value) for name, value in spec.inputs.items()}, root=str(source.root), output=str(path),
    )  # fmt: skip
    known = {entry.path for entry in source.files}
    found = [folder.file_digest(source.root / name, name) for name in info["files"] if name not in known]
    described = crew.ask("runner", "inspect", path=str(path)) | {"framework": info["framework"]}
    return path, described, replace(source, files=_sorted([*source.files, *found]))


def _sorted(files: list[FileDigest]) -> tuple[FileDigest, ...]:
    return tuple(files[:1] + sorted(files[1:], key=lambda entry: entry.path))


def _as_written(session: Session) -> dict[str, Any]:
    """The source is the judge: on the CPU, with no graph optimization."""
    row = PROVIDERS["cpu"]
    judge = replace(
        session, provider="cpu", execution_provider=row.execution_provider, graph_level="disabled", options={}
    )
    return asdict(judge)


def _inside_domain(
    plan: dict[str, Any], entries: list[dict[str, Any]], refused: list[dict[str, str]]
) -> dict[str, Any]:
    """Sets that the source itself refuses are outside its domain; but it must take its own data and some sets."""
    reasons = {item["set"]: item["message"] for item in refused}
    for entry in entries:
        if entry["origin"] == "data" and entry["set"] in reasons:
            raise SourceError(
                f"the source refuses data.samples: {reasons[entry['set']]}",
                hint="Check shapes, types and value ranges of the samples against the model.",
            )
    seeded = [entry for entry in entries if entry["origin"] == "seeded"]
    kept = [entry for entry in seeded if entry["set"] not in reasons]
    if not kept and not any(entry["origin"] == "data" for entry in entries):
        message = next(iter(reasons.values()), "no set was made")
        raise SourceError(
            f"the source refuses every sample: {message}", hint="Check source.inputs: names, shapes and dtypes."
        )
    outside = [{"dims": entry["dims"], "message": reasons[entry["set"]]} for entry in seeded if entry["set"] in reasons]
    numbers = {entry["set"]: entry for entry in entries}
    return plan | {
        "sets": [{"kind": entry["kind"], "dims": entry["dims"]} for entry in kept],
        "outside": plan["outside"] + outside,
        "entries": {number: entry for number, entry in numbers.items() if number not in reasons},
    }


def _settle(reference: ReferenceModel, crew: Crew) -> ReferenceModel:
    """Prove the exported file, and find the session settings at which the unchanged source holds its own bound."""
    config = reference.source.config
    common: dict[str, Any] = {
        "path": str(reference.path),
        "folder": str(reference.samples),
        "bounds": bounds_of(config.equivalence),
        "batched": reference.plan["batched"],
    }
    found = crew.ask("runner", "prove", settings=_as_written(reference.session), **common)
    written = EquivalenceReport.from_dict(found)
    _know_outputs(config.equivalence, written)
    if not written.passed:
        if config.source.kind == "onnx":
            message = f"the source does not agree with itself: {written.reason}"
            hint = "It draws random numbers or depends on uninitialized memory; make it deterministic first."
        else:
            message = f"the exported ONNX model is not the source: {written.reason}"
            hint = "Compare source.inputs with forward; sizes that must stay fixed should be numbers, not names."
        raise NotEquivalent(message, hint=hint)
    noise = crew.ask("runner", "noise", settings=asdict(reference.session), **common)
    if noise["graph_level"] is None:
        reasons = "; ".join(f"{entry['graph_level']}: {entry['reason']}" for entry in noise["levels"])
        message = (
            f"the unchanged source leaves the bound on {reference.session.provider} at every graph level: {reasons}"
        )
        raise NotEquivalent(message, hint="Choose a bound or a measure that the source itself can hold.")
    self_error = written.summary() if config.source.kind == "onnx" else None
    return replace(
        reference,
        session=replace(reference.session, graph_level=noise["graph_level"]),
        noise={"reference": self_error, "levels": noise["levels"]},
        exported=None if config.source.kind == "onnx" else written,
    )


def _know_outputs(equivalence: Equivalence, report: EquivalenceReport) -> None:
    """A bound for an output that does not exist would hold nothing."""
    known = [output.name for output in report.outputs]
    for name in equivalence.outputs:
        if not any(leaf == name or leaf.startswith((f"{name}.", f"{name}[")) for leaf in known):
            message = f"equivalence.outputs names {name!r}, but the model's outputs are {', '.join(known)}"
            raise ConfigError(message, hint="Correct the name; 'artifactctl inspect FILE' lists the outputs.")
