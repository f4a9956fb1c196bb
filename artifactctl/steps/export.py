"""SourceModel -> ReferenceModel: the source as ONNX, proved against the source, with its answers to every sample."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from artifactctl import folder, runtimes
from artifactctl.crew import Crew
from artifactctl.domain import inside_domain
from artifactctl.errors import ConfigError, NotAvailable, NotEquivalent, SourceError, is_full_disk
from artifactctl.folder import FileDigest
from artifactctl.project import InputSpec
from artifactctl.providers import PROVIDERS
from artifactctl.records import ReferenceModel, Session, SourceModel
from artifactctl.steps.settle import as_written, settle


def session_for(provider: str, crew: Crew, own: Mapping[str, str] | None = None) -> Session:
    """`own` are options beside those of the provider table."""
    runtimes.demand_sound(provider)
    row, here = PROVIDERS[provider], crew.ask("runner", "describe_runtime")
    runtimes.demand_available(provider, here["providers"])
    return Session(provider, row.execution_provider, here["threads"], options={**row.options, **(own or {})})


def make_reference(source: SourceModel, provider: str, scratch: Path, crew: Crew) -> ReferenceModel:
    """Everything after this is compared with the answers that are recorded here."""
    session = session_for(provider, crew, source.config.options_on(provider))
    path, info, source = _as_onnx(source, scratch, crew)
    sha256 = _digest(path)
    reference = ReferenceModel(
        source, path, sha256, info["opset"], info["precision"], info["size_bytes"], info["framework"],
        {}, scratch / "samples", session, noise={},
    )  # fmt: skip
    answered = _answered(reference, source.config.source.inputs, crew)
    if not source.config.equivalence.search_s and not source.config.shapes:  # else it will be asked again
        crew.dismiss("framework")
    return answered


def fixed_reference(
    reference: ReferenceModel, shape: Mapping[str, tuple[int, ...]], samples: Path, crew: Crew
) -> ReferenceModel | str:
    """The same source, asked at one shape only; a text says why it cannot be."""
    declared = dict(reference.source.config.source.inputs)
    declared |= {name: replace(declared.get(name) or InputSpec(), shape=sizes) for name, sizes in shape.items()}
    try:
        return _answered(replace(reference, samples=samples), declared, crew)
    except (ConfigError, SourceError, NotEquivalent, NotAvailable) as error:
        if is_full_disk(error):
            raise
        return f"does not apply: {error}"


def _answered(reference: ReferenceModel, inputs: Mapping[str, InputSpec], crew: Crew) -> ReferenceModel:
    """Plan the samples, and ask the source for its answers."""
    source, path, session = reference.source, reference.path, reference.session
    spec, data, samples = source.config.source, source.config.data, str(reference.samples)
    own = str(source.root / data.samples) if data.samples else None
    labels = str(source.root / data.labels) if data.labels else None
    plan = crew.ask(
        "runner", "plan_inputs", path=str(path), settings=as_written(session), seed=_seed(reference.sha256),
        declared={name: asdict(value) for name, value in inputs.items()}, probe=spec.kind == "onnx", samples=own,
    )  # fmt: skip
    entries = crew.ask("runner", "write_samples", plan=plan, folder=samples, samples=own, labels=labels)
    if spec.kind == "onnx":
        judge = as_written(session)
        answers = crew.ask(
            "runner", "answer_as_written", path=str(path), folder=samples, settings=judge, states=plan["states"]
        )
    else:
        answers = crew.ask("framework", "answer", folder=samples, states=plan["states"])
    plan = inside_domain(plan, entries, answers["refused"], declared=spec.kind != "onnx")
    if conditions := [entry["condition"] for entry in plan["branches"]]:
        judge = as_written(session)
        plan["branches"] = crew.ask(
            "runner", "branches_taken", path=str(path), folder=samples, settings=judge, conditions=conditions
        )
    return settle(replace(reference, plan=plan, noise={"reference": answers["noise"]}), crew)


def explain_inputs(model: Path, scratch: Path, crew: Crew, declared: dict[str, Any] | None = None) -> dict[str, Any]:
    """The plan that a build of this file would try, with its reasons."""
    session = session_for("cpu", crew)
    staged = crew.ask("runner", "stage_onnx", source=str(model), folder=str(scratch / "source"))
    path = Path(staged["path"])
    plan: dict[str, Any] = crew.ask(
        "runner", "plan_inputs", path=str(path), settings=as_written(session), seed=_seed(_digest(path)),
        declared=declared or {}, probe=True, samples=None,
    )  # fmt: skip
    return plan


def _seed(sha256: str) -> int:
    """Every machine makes the same samples of the same model."""
    return int(sha256[:12], 16)


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


def _digest(path: Path) -> str:
    """Of the model with its external data: all that lies in its scratch folder."""
    files = sorted(file for file in path.parent.rglob("*") if file.is_file())
    if files == [path]:
        return folder.digest(path)
    parts = [f"{folder.digest(file)}  {file.relative_to(path.parent).as_posix()}" for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _sorted(files: list[FileDigest]) -> tuple[FileDigest, ...]:
    return tuple(files[:1] + sorted(files[1:], key=lambda entry: entry.path))
