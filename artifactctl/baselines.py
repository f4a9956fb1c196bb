"""baselines/<model>.<provider>.json: what was measured, of which artifact, on which machine. History, not the judge."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from artifactctl import jsontext
from artifactctl.errors import ConfigError
from artifactctl.records import Session, Timing

FOLDER = "baselines"


def path_of(root: Path, model: str, provider: str) -> Path:
    return root / FOLDER / f"{model}.{provider}.json"


def fingerprint(machine: Mapping[str, Any], session: Session) -> str:
    """Two machines with one fingerprint may be compared by absolute numbers."""
    parts = {key: machine[key] for key in ("system", "machine", "cpu", "flags", "cores", "memory_gb", "onnxruntime")}
    parts |= {"provider": session.provider, "options": dict(session.options), "threads": session.intra_op_threads}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def content(
    model: str, artifact: Mapping[str, Any], timing: Timing, machine: Mapping[str, Any], session: Session
) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "model": model,
        "provider": session.provider,
        "artifact": dict(artifact),
        "timing": asdict(timing),
        "machine": dict(machine),
        "threads": session.intra_op_threads,
        "fingerprint": fingerprint(machine, session),
    }


def read(path: Path) -> dict[str, Any] | None:
    """None where there is none; what cannot be read is an error, never a pass."""
    hint = "Save it anew with 'artifactctl bench ARTIFACT --save-baseline'."
    return jsontext.read(path, "baseline", ConfigError, hint)
