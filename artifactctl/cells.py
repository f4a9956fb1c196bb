"""artifact_vN.cells/<provider>.json: the proof of an artifact on one provider, beside the folder that never changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artifactctl import folder, jsontext
from artifactctl.errors import ArtifactDamaged

SUFFIX = ".cells"


def folder_of(artifact: Path) -> Path:
    place = artifact.resolve()  # the folder itself may be named by a dot
    return place.with_name(place.name + SUFFIX)


def path_of(artifact: Path, provider: str) -> Path:
    return folder_of(artifact) / f"{provider}.json"


def content(
    artifact: Path, metadata: Mapping[str, Any], found: Mapping[str, Any], machine: Mapping[str, Any]
) -> dict[str, Any]:
    """`found` is what `verify --json` says."""
    keys = ("provider", "emulated", "verdict", "samples", "placement", "bounds", "outputs")
    kept = {key: found[key] for key in keys if key in found}
    return {
        "schema_version": 1,
        "model": metadata["model_name"],
        "version": metadata["version"],
        "artifact_sha256": folder.digest(artifact / folder.SUMS),
        **kept,
        "machine": dict(machine),
    }


def why_missing(artifact: Path, metadata: Mapping[str, Any], provider: str) -> str | None:
    """Why there is no fresh proof on a provider; None where there is one."""
    if provider == metadata["session"]["provider"]:
        return None  # the build itself proved it
    cell = read(artifact, provider)
    return why_no_proof(cell, metadata, folder.digest(artifact / folder.SUMS), provider)


def read(artifact: Path, provider: str) -> dict[str, Any] | None:
    """None where there is none; one that cannot be read is damaged."""
    return jsontext.read(path_of(artifact, provider), "cell", ArtifactDamaged)


def why_no_proof(
    cell: Mapping[str, Any] | None, metadata: Mapping[str, Any], artifact_sha256: str, provider: str
) -> str | None:
    """None where a cell proves that this artifact is equivalent on this provider."""
    if cell is None:
        return f"{provider} was never verified"
    named = (cell["artifact_sha256"], cell["model"], cell["version"])
    if named != (artifact_sha256, metadata["model_name"], metadata["version"]):
        return f"the proof on {provider} is of another artifact"
    if cell["provider"] != provider:
        return f"the proof on {provider} was made on {cell['provider']}"
    outputs = cell["outputs"]
    if cell["verdict"] != "equivalent" or not all(output["passed"] is True for output in outputs):
        return f"it is different on {provider}"
    if not outputs or not cell["samples"] or all(output.get("vacuous", True) for output in outputs):
        return f"the proof on {provider} compared nothing that tells models apart"
    return None
