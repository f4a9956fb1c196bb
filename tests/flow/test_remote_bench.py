"""A bundle that is run by a Python without artifactctl, and what comes back."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from artifactctl import schema
from tests.conftest import Finished, run_cli
from tests.flow.test_bench import dense

Cli = Callable[..., Finished]


def run_bundle(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With numpy and onnxruntime, and with nothing of ours to import."""
    code = (
        "import runpy, sys; sys.modules['artifactctl'] = sys.modules['onnx'] = None; sys.path.insert(0, '.');"
        "sys.argv[0] = 'bench.py'; runpy.run_path('bench.py', run_name='__main__')"
    )
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """one.onnx against twenty.onnx, exported, run and come back as result.json."""
    place = tmp_path_factory.mktemp("remote")
    dense(place / "one.onnx", 1)
    dense(place / "twenty.onnx", 20)
    made = run_cli("bench", "one.onnx", "--against", "twenty.onnx", "--export", "bundle.zip", "--json", cwd=place)
    assert made.code == 0, made.err
    assert made.json["data"]["path"] == "bundle.zip"
    with zipfile.ZipFile(place / "bundle.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(place / "there")
    done = run_bundle(place / "there", "--rounds", "5")
    assert done.returncode == 0, done.stderr
    assert "artifactctl bench --import" in done.stdout
    return place


def test_what_came_back_is_judged(cli: Cli, brought: Path) -> None:
    result = brought / "there/result.json"
    assert schema.problems(json.loads(result.read_text()), "bench-result") == []
    fast = cli("bench", "--import", result, "--max-regression", "300%", "--json")
    assert fast.code == 0, fast.err
    data = fast.json["data"]
    assert (data["verdict"], data["against"], data["model"]) == ("not-slower", "twenty.onnx", "one")
    assert data["candidate"]["p50_ms"] > 0
    assert schema.problems(fast.json, "report") == []
    assert cli("bench", brought / "one.onnx", "--import", result, "--max-regression", "300%").code == 0
    other = cli("bench", brought / "twenty.onnx", "--import", result, "--json")
    assert (other.code, "not comparable" in other.json["error"]["message"]) == (9, True)


def test_the_other_machine_can_be_the_baseline(cli: Cli, brought: Path, tmp_path: Path) -> None:
    result = brought / "there/result.json"
    saved = cli("bench", "--import", result, "--save-baseline", "--max-regression", "300%", "--json")
    stored = json.loads((tmp_path / saved.json["data"]["baseline_file"]).read_text())
    assert schema.problems(stored, "baseline") == []
    assert stored["model"] == "one"
    assert stored["machine"] == json.loads(result.read_text())["machine"]


def test_the_same_bundle_again_has_the_same_bytes(cli: Cli, brought: Path) -> None:
    again = brought / "again.zip"
    done = cli("-C", brought, "bench", "one.onnx", "--against", "twenty.onnx", "--export", "again.zip")
    assert done.code == 0, done.err
    assert again.read_bytes() == (brought / "bundle.zip").read_bytes()
    refused = cli("-C", brought, "bench", "one.onnx", "--against", "twenty.onnx", "--export", "again.zip")
    assert refused.code == 11


def test_results_that_say_nothing_pass_nothing(cli: Cli, brought: Path, tmp_path: Path) -> None:
    whole = json.loads((brought / "there/result.json").read_text())
    path = tmp_path / "result.json"

    def judged(**change: object) -> Finished:
        path.write_text(json.dumps(whole | change))
        return cli("bench", "--import", path, "--json")

    assert judged(rounds=[]).code == 8, "zero pairs are never a pass"
    assert judged(rounds=[entry | {"times_ns": []} for entry in whole["rounds"]]).code == 8
    assert judged(rounds=whole["rounds"][:1]).code == 8
    assert judged(files={}).code == 10
    assert judged(rounds=[entry | {"times_ns": [[1, 0, 1]]} for entry in whole["rounds"]]).code == 3
    assert judged(rounds="none").code == 3
    path.write_text("{")
    assert cli("bench", "--import", path).code == 3
    assert cli("bench", "--import", tmp_path / "none.json").code == 3


def test_a_bundle_for_hardware_that_is_not_here(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "one.onnx", 1)
    made = cli("bench", "one.onnx", "--against", "one.onnx", "--provider", "cuda", "--export", "b.zip")
    assert made.code == 0, made.err
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(tmp_path / "there")
    done = run_bundle(tmp_path / "there")
    assert (done.returncode, "CUDAExecutionProvider is not available" in done.stderr) == (9, True)
    assert not (tmp_path / "there/result.json").exists()
    assert run_bundle(tmp_path / "there", "--rounds", "0").returncode == 2


def test_options_that_contradict(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "one.onnx", 1)
    assert cli("bench").code == 2
    assert cli("bench", "--import", "r.json", "--against", "one.onnx").code == 2
    assert cli("bench", "one.onnx", "--import", "r.json", "--export", "b.zip").code == 2
    assert cli("bench", "one.onnx", "--against", "one.onnx", "--export", "none/b.zip").code == 3


def test_a_pair_that_is_longer_than_the_budget(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "one.onnx", 1)
    done = cli("bench", "one.onnx", "--against", "one.onnx", "--budget", "0.0000001", "--json")
    assert (done.code, done.json["data"]["verdict"], done.json["data"]["pairs"]) == (8, "not-proven", 0)
    assert "one pair of runs takes" in done.json["error"]["message"]
    assert "--budget" in done.json["error"]["hint"]


def batched(path: Path, weight: float) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x", "y")]
    stored = numpy_helper.from_array(np.full((8, 8), weight, np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", values[:1], values[1:], [stored])
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), str(path))
    return path


def configure(place: Path, *batches: int) -> None:
    model = {"source": {"onnx": "m.onnx"}, "latency": {"batches": list(batches), "max_regression": "300%"}}
    (place / "artifactctl.yaml").write_text(yaml.safe_dump({"schema_version": 1, "models": {"m": model}}))


def test_throughput_by_batch_and_denormals(cli: Cli, tmp_path: Path) -> None:
    batched(tmp_path / "m.onnx", 1e-41)
    configure(tmp_path, 4, 16)
    done = cli("bench", "m.onnx", "--against", "m.onnx", "--json")
    assert done.code == 0, done.err
    rows = {(entry["threads"], entry["batch"]) for entry in done.json["data"]["candidate"]["throughput"]}
    threads = {1, done.json["data"]["session"]["intra_op_threads"]}
    assert {batch for _, batch in rows} >= {4, 16}
    assert {count for count, _ in rows} == threads
    assert all(entry["per_s"] > 0 for entry in done.json["data"]["candidate"]["throughput"])
    assert any("64 of its weights" in text for text in done.json["data"]["warnings"])


def test_a_fixed_batch_is_said_to_be_one(cli: Cli, tmp_path: Path) -> None:
    dense(tmp_path / "m.onnx", 1)
    configure(tmp_path, 4)
    done = cli("bench", "m.onnx", "--against", "m.onnx", "--json")
    assert any("batch 4 is not measured" in text for text in done.json["data"]["warnings"])
