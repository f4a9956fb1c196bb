"""ArtifactFolder -> Package in ONNX Runtime's own format, opened again by ONNX Runtime and proved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artifactctl import folder, inspection, ortpackage
from artifactctl.alive import part_folder
from artifactctl.copies import copy
from artifactctl.crew import Crew
from artifactctl.errors import NotAvailable
from artifactctl.project import Say
from artifactctl.steps.package import Package, demand_equivalent, prepare, settle
from artifactctl.steps.reverify import Request
from artifactctl.versions import package_name

CPU = "CPUExecutionProvider"


def ort_package(artifact: Path, output: Path, crew: Crew, say: Say) -> Package:
    """A folder, as ONNX Runtime wants it. It appears whole or not at all, and never replaces another one."""
    metadata = inspection.whole_artifact(artifact)
    name = package_name(metadata["model_name"], metadata["version"])
    prepare(output)
    target = output / f"{name}{ortpackage.SUFFIX}"
    with part_folder(target) as place:
        part = place / target.name
        say("packaging")
        _write(artifact, metadata, part)
        say("opening it again")
        _prove(artifact, metadata, part.resolve(), crew)
        folder.keep(part)
        return settle(part, target, folder.content_digest(part))


def _write(artifact: Path, metadata: Mapping[str, Any], part: Path) -> None:
    models = part / ortpackage.model_folder(metadata)
    models.mkdir(parents=True)
    for name in (folder.MODEL, f"{folder.MODEL}.data"):
        if (artifact / name).exists():
            copy(artifact / name, models / name)
    for name, text in ortpackage.texts(metadata, folder.digest(artifact / folder.SUMS)).items():
        (part / name).write_text(text, encoding="utf-8", newline="\n")


def _prove(artifact: Path, metadata: Mapping[str, Any], part: Path, crew: Crew) -> None:
    """ONNX Runtime finds what was meant; where that is the CPU it also loads the model as its users will."""
    provider = metadata["session"]["execution_provider"]
    found = crew.ask("runner", "open_ort_package", path=str(part), session=provider == CPU)
    expected = {ortpackage.component(metadata): {ortpackage.variant(metadata): provider}}
    if found["components"] != expected:
        raise NotAvailable(f"ONNX Runtime reads the package otherwise: {found['components']}, not {expected}")
    golden = artifact / folder.GOLDEN
    demand_equivalent(part / ortpackage.model_folder(metadata), metadata, Request(golden=golden), crew)
