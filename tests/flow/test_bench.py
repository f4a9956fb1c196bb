"""The gate as a command. Verdicts are asked where no machine could give another one; times are never looked at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from artifactctl import schema
from tests.conftest import MODELS, Finished

Cli = Callable[..., Finished]


def dense(path: Path, layers: int) -> Path:
    """So many products of 256 by 256: twenty of them are never as fast as one."""
    weight = numpy_helper.from_array(
        (np.random.default_rng(1).standard_normal((256, 256)) / 16).astype(np.float32), "w"
    )
    names = ["x", *(f"h{layer}" for layer in range(layers - 1)), "y"]
    nodes = [helper.make_node("MatMul", [names[layer], "w"], [names[layer + 1]]) for layer in range(layers)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 256]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "dense", values[:1], values[1:], [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save_model(made, str(path))
    return path


def test_twenty_times_the_work_is_a_regression(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "one.onnx", 1)
    dense(tmp_path / "twenty.onnx", 20)
    slow = cli("bench", "twenty.onnx", "--against", "one.onnx", "--max-regression", "100%", "--budget", "60", "--json")
    assert slow.code == 7, slow.out
    data = slow.json["data"]
    assert schema.problems(slow.json, "report") == []
    assert data["verdict"] == "regression"
    assert data["ratio_low"] > 2
    assert slow.json["error"]["name"] == "LatencyRegression"
    fast = cli("bench", "one.onnx", "--against", "twenty.onnx", "--max-regression", "100%", "--json")
    assert (fast.code, fast.json["data"]["verdict"]) == (0, "not-slower")
    for side in ("candidate", "baseline"):
        numbers = fast.json["data"][side]
        assert numbers["size_bytes"] > 0
        assert all(numbers[key] > 0 for key in ("p50_ms", "load_ms", "first_run_ms", "throughput_per_s", "cpu_cores"))
        assert numbers["peak_rss_mb"] >= 0
    assert fast.json["data"]["detection_limit"] <= 1.0
    assert fast.json["data"]["session"]["intra_op_threads"] >= 1
    assert fast.json["data"]["session"]["allow_spinning"] is False


def test_a_limit_that_nobody_can_prove_is_not_proven(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "one.onnx", 1)
    done = cli("bench", "one.onnx", "--against", "one.onnx", "--max-regression", "0%", "--budget", "1", "--json")
    assert (done.code, done.json["data"]["verdict"]) == (8, "not-proven")
    assert "could have seen" in done.json["error"]["message"]


@pytest.fixture
def two_versions(cli: Cli, tmp_path: Path) -> Path:
    """dense/artifact_v1 of twenty layers, artifact_v2 of one."""
    for layers in (20, 1):
        dense(tmp_path / "dense.onnx", layers)
        assert cli("build", "dense.onnx", "--recipe", "fp32").code == 0
    return tmp_path / "artifacts" / "dense"


def test_the_version_before_is_the_baseline(cli: Cli, two_versions: Path) -> None:
    done = cli("bench", two_versions / "artifact_v2", "--json")
    assert done.code == 0, done.err
    assert done.json["data"]["against"].endswith("artifact_v1")
    # without the folder its tag will do
    place = two_versions.parents[1]
    import git

    with git.Repo.init(place) as repository:
        with repository.config_writer() as config:
            config.set_value("user", "name", "t").set_value("user", "email", "t@example.com")
        repository.git.add("artifacts/dense")
        repository.git.commit("-qm", "both")
        repository.create_tag("dense/artifact_v1", message="one")
    shutil.rmtree(two_versions / "artifact_v1")
    again = cli("bench", two_versions / "artifact_v2", "--json")
    assert again.code == 0, again.err
    assert again.json["data"]["ratio"] < 1
    # and without the tag, the source that still lies there
    with git.Repo(place) as repository:
        repository.delete_tag("dense/artifact_v1")
    source = cli("bench", two_versions / "artifact_v2", "--max-regression", "300%", "--json")
    assert source.json["data"]["against"].endswith("dense.onnx")


def test_budgets_hold_on_the_machine_of_the_baseline_only(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "dense.onnx", 1)
    settings: dict[str, Any] = {
        "source": {"onnx": "dense.onnx"},
        "optimize": {"recipes": ["fp32"]},
        "latency": {"max_ms": 1e6, "max_regression": "300%"},
        "memory": {"max_mb": 1e6},
    }
    config = {"schema_version": 1, "models": {"dense": settings}}
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump(config))
    assert cli("build").code == 0
    artifact = "artifacts/dense/artifact_v1"
    unknown = cli("bench", artifact, "--json")
    assert (unknown.code, unknown.json["data"]["verdict"]) == (9, "not-comparable")
    assert "--save-baseline" in unknown.json["error"]["hint"]
    saved = cli("bench", artifact, "--save-baseline", "--json")
    path = tmp_path / saved.json["data"]["baseline_file"]
    assert path == tmp_path / "baselines" / "dense.cpu.json"
    stored = json.loads(path.read_text())
    assert schema.problems(stored, "baseline") == []
    assert cli("bench", artifact).code == 0
    config["models"]["dense"]["latency"]["max_ms"] = 1e-9
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump(config))
    late = cli("bench", artifact, "--json")
    assert late.code == 7
    assert "latency.max_ms" in late.json["error"]["message"]
    path.write_text(json.dumps(stored | {"fingerprint": "0" * 64}))
    assert cli("bench", artifact).code == 9
    path.write_text("{")
    assert cli("bench", artifact).code == 3


def test_a_file_that_is_too_large_is_so_everywhere(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "dense.onnx", 1)
    settings = {"source": {"onnx": "dense.onnx"}, "size": {"max_mb": 0.001}, "latency": {"max_regression": "300%"}}
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump({"schema_version": 1, "models": {"dense": settings}}))
    done = cli("bench", "dense.onnx", "--against", "dense.onnx", "--json")
    assert done.code == 7
    assert "size.max_mb" in done.json["error"]["message"]


def test_what_cannot_be_compared(cli: Cli, tmp_path: Path) -> None:
    for name in ("mlp", "cnn"):
        shutil.copy(MODELS / f"{name}.onnx", tmp_path)
    other = cli("bench", "mlp.onnx", "--against", "cnn.onnx", "--json")
    assert other.code == 9
    assert all(name in other.json["error"]["message"] for name in ("mlp.onnx", "cnn.onnx", "image"))
    alone = cli("bench", "mlp.onnx", "--json")
    assert (alone.code, "--against" in alone.json["error"]["hint"]) == (4, True)
    (tmp_path / "text.onnx").write_text("not a model")
    assert cli("bench", "mlp.onnx", "--against", "text.onnx").code == 4
    assert cli("bench", "none.onnx").code == 4
    assert cli("bench", "mlp.onnx", "--against", "mlp.onnx", "--max-regression", "much").code == 2
    absent = cli("bench", "mlp.onnx", "--against", "mlp.onnx", "--provider", "cuda", "--json")
    assert (absent.code, "artifactctl[gpu]" in absent.json["error"]["hint"]) == (9, True)


def test_the_table_as_markdown(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "one.onnx", 1)
    done = cli("bench", "one.onnx", "--against", "one.onnx", "--max-regression", "300%", "--markdown")
    lines = done.out.splitlines()
    assert lines[0].startswith("| model | size | latency p50 |")
    assert lines[1].startswith("| --- |")
    assert "verdict   not slower than one.onnx by more than 300.0%, proved" in done.out
