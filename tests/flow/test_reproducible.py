"""The same inputs give the same bytes, whatever the place, time zone, umask or hash seed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from artifactctl import metadata
from tests.conftest import EXAMPLE, clean_environment
from tests.judges import demand_valid_bill


def build(place: Path, umask: int, **env: str) -> Path:
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("artifacts", "__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "artifactctl", "build", "-q"],
        cwd=place,
        env=clean_environment(**env),
        check=True,
        preexec_fn=lambda: os.umask(umask) and None,
    )
    return place / "artifacts" / "simple_cnn" / "artifact_v1"


def unmeasured_bill(path: Path) -> dict[str, Any]:
    """Without the times, and without the number that is made from all of it."""
    data: dict[str, Any] = json.loads((path / "bom.cdx.json").read_text())
    assert data.pop("serialNumber")
    analysis = data["metadata"]["component"]["modelCard"]["quantitativeAnalysis"]
    metrics = analysis["performanceMetrics"]
    analysis["performanceMetrics"] = [entry for entry in metrics if not entry["type"].startswith("latency.")]
    assert len(analysis["performanceMetrics"]) == len(metrics) - 2
    return data


def test_same_bytes(tmp_path: Path) -> None:
    first = build(tmp_path / "a", 0o022, TZ="UTC", PYTHONHASHSEED="1", HOME=str(tmp_path))
    second = build(tmp_path / "another place" / "deep", 0o077, TZ="Asia/Tokyo", PYTHONHASHSEED="2", LC_ALL="C")
    for name in ("model_opt.onnx", "golden.npz", "validate.py", "evidence/equivalence.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    assert metadata.without_measurements(metadata.read(first)) == metadata.without_measurements(metadata.read(second))
    assert unmeasured_bill(first) == unmeasured_bill(second)
    demand_valid_bill((second / "bom.cdx.json").read_text())
    assert (second / "metadata.yaml").stat().st_mode & 0o777 == 0o644
    everything = b"".join(path.read_bytes() for path in second.rglob("*") if path.is_file())
    for secret in (str(tmp_path), str(Path.home())):
        assert secret.encode() not in everything, secret
    texts = "".join(path.read_text() for path in second.rglob("*") if path.suffix in (".md", ".yaml", ".json", ".py"))
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", texts)
