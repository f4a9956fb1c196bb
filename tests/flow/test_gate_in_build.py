"""A new version against the ones before it. Verdicts are asked where no machine could give another one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from artifactctl import schema
from tests.conftest import MODELS, Finished
from tests.flow.test_bench import dense

Cli = Callable[..., Finished]


def configure(place: Path, **latency: Any) -> None:
    model = {"source": {"onnx": "dense.onnx"}, "optimize": {"recipes": ["fp32"]}, "latency": latency}
    (place / "artifactctl.yaml").write_text(yaml.safe_dump({"schema_version": 1, "models": {"dense": model}}))


def test_a_slower_version_is_not_written(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "dense.onnx", 1)
    assert cli("build", "dense.onnx", "--recipe", "fp32").code == 0
    dense(tmp_path / "dense.onnx", 20)
    slow = cli("build", "dense.onnx", "--recipe", "fp32", "--json")
    assert (slow.code, slow.json["error"]["name"]) == (7, "LatencyRegression")
    assert "artifact_v1" in slow.json["error"]["message"]
    assert not (tmp_path / "artifacts/dense/artifact_v2").exists()
    # what the hint says works: look at it, or allow it
    words = slow.json["error"]["hint"].splitlines()[1].split("artifactctl ")[1].split()
    assert cli(*words).code == 0
    allowed = cli("build", "dense.onnx", "--recipe", "fp32", "--max-regression", "9900%", "--json")
    assert allowed.code == 0, allowed.err
    gate = allowed.json["data"]["artifacts"][0]["latency"]["previous"]
    assert (gate["verdict"], gate["against"]) == ("not-slower", "artifact_v1")
    assert gate["ratio_low"] > 1
    artifact = tmp_path / "artifacts/dense/artifact_v2"
    recorded = yaml.safe_load((artifact / "metadata.yaml").read_text())["latency"]
    assert recorded["previous"]["verdict"] == "not-slower"
    assert recorded["oldest"] is None
    evidence = json.loads((artifact / "evidence/latency.cpu.json").read_text())
    assert schema.problems(evidence, "latency") == []
    assert evidence["versions"]["previous"]["raw"][0]["times_ns"]
    assert "not slower than artifact_v1" in (artifact / "README.md").read_text()
    assert cli("check").code == 0
    # another limit is no other model
    again = cli("build", "dense.onnx", "--recipe", "fp32", "--max-regression", "1%", "--json")
    assert again.json["data"]["artifacts"][0]["status"] == "unchanged"


def test_small_steps_add_up(cli: Cli, tmp_path: Path) -> None:
    """Each step is allowed by itself; together they are not."""
    configure(tmp_path, max_regression="900%", max_drift="900%")
    for layers in (1, 4):
        dense(tmp_path / "dense.onnx", layers)
        assert cli("build").code == 0
    dense(tmp_path / "dense.onnx", 40)
    configure(tmp_path, max_regression="9900%", max_drift="100%")
    drifted = cli("build", "--json")
    assert drifted.code == 7, drifted.out
    assert "artifact_v1" in drifted.json["error"]["message"]
    assert "latency.max_drift" in drifted.json["error"]["message"]
    assert "drift_since" in drifted.json["error"]["hint"]
    configure(tmp_path, max_regression="9900%", max_drift="9900%", drift_since=2)
    passed = cli("build", "--json")
    assert passed.code == 0, passed.err
    assert passed.json["data"]["artifacts"][0]["latency"]["oldest"]["against"] == "artifact_v2"
    configure(tmp_path, max_regression="9900%", max_drift="100%")
    benched = cli("bench", "artifacts/dense/artifact_v3", "--json")
    assert (benched.code, benched.json["data"]["verdict"]) == (7, "not-slower")
    assert benched.json["data"]["drift"]["verdict"] == "regression"
    assert [entry["version"] for entry in benched.json["data"]["history"]] == [1, 2]
    assert "drift " in cli("bench", "artifacts/dense/artifact_v3").out


def test_a_model_with_other_inputs_is_a_new_beginning(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path / "m.onnx")
    assert cli("build", "m.onnx", "--recipe", "fp32").code == 0
    shutil.copy(MODELS / "cnn.onnx", tmp_path / "m.onnx")
    done = cli("build", "m.onnx", "--recipe", "fp32")
    assert done.code == 0, done.err
    assert "warning   not comparable with artifact_v1" in done.out
    recorded = yaml.safe_load((tmp_path / "artifacts/m/artifact_v2/metadata.yaml").read_text())["latency"]["previous"]
    assert (recorded["verdict"], recorded["pairs"]) == ("not-comparable", 0)


def test_what_the_budget_does_not_prove_is_recorded(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "dense.onnx", 1)
    configure(tmp_path, max_regression="0%", budget_s=3)
    assert cli("build").code == 0
    done = cli("build", "--force")
    assert done.code == 0, done.err
    assert "warning   not proven whether slower than artifact_v1" in done.out


def test_a_damaged_version_does_not_count(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "dense.onnx", 1)
    for _ in range(2):
        assert cli("build", "dense.onnx", "--recipe", "fp32", "--force", "--max-regression", "300%").code == 0
    with (tmp_path / "artifacts/dense/artifact_v2/golden.npz").open("ab") as file:
        file.write(b"x")
    done = cli("build", "dense.onnx", "--recipe", "fp32", "--force", "--max-regression", "300%", "--json")
    assert done.json["data"]["artifacts"][0]["latency"]["previous"]["against"] == "artifact_v1"
    assert "artifact_v2 does not count" in done.err
