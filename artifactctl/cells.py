"""artifact_vN.cells/<provider>.json: the proof of an artifact on one provider, beside the folder that never changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artifactctl import folder, jsontext
from artifactctl.errors import ArtifactDamaged

SUFFIX = ".cells"


def folder_of(artifact: Path) -> Path:
    return artifact.with_name(artifact.name + SUFFIX)


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
    cell = jsontext.read(path_of(artifact, provider), "cell", ArtifactDamaged)
    if cell is None:
        return f"{provider} was never verified"
    if cell["artifact_sha256"] != folder.digest(artifact / folder.SUMS):
        return f"the proof on {provider} is of another artifact"
    return None if cell["verdict"] == "equivalent" else f"it is different on {provider}"
