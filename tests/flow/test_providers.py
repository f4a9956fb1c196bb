"""One artifact, built once on the CPU, proved on three real providers: each in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artifactctl import folder, metadata, schema
from artifactctl.errors import ArtifactDamaged
from tests.conftest import MODELS, ROOT, Finished, clean_environment, run_cli

pytestmark = pytest.mark.xdist_group("providers")
CONFIG = """\
schema_version: 1
models:
  qdq:
    source: {onnx: qdq.onnx}
    latency: {budget_s: 2}
    providers: {cpu: {}, openvino: null, qnn: {max_abs: 0.05, options: {htp_performance_mode: burst}}}
  strict:
    source: {onnx: qdq.onnx}
    latency: {budget_s: 2}
    providers: [cpu, qnn]
  mlp:
    source: {onnx: mlp.onnx}
    optimize: {recipes: [fp32]}
    latency: {budget_s: 2}
    providers: {cpu: {max_abs: 0.01}}
"""
EXECUTION = {"cpu": "CPUExecutionProvider", "openvino": "OpenVINOExecutionProvider", "qnn": "QNNExecutionProvider"}
Run = Callable[..., Finished]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("providers")
    shutil.copy(MODELS / "qdq.onnx", place)
    shutil.copy(MODELS / "mlp.onnx", place)
    (place / "artifactctl.yaml").write_text(CONFIG)
    done = run_cli("build", "--json", cwd=place)
    assert done.code == 0, done.err
    return place


@pytest.fixture(scope="module")
def on(home: Path, provider_python: Callable[[str], Path]) -> Run:
    """artifactctl in the environment of a provider: on("qnn", "verify", …)."""

    def run(extra: str, *arguments: object) -> Finished:
        python = sys.executable if extra == "cpu" else provider_python(extra)
        return run_cli(*arguments, cwd=home, env={"PYTHONPATH": os.fspath(ROOT)}, python=python)

    return run


def test_the_build_keeps_what_other_providers_need(home: Path) -> None:
    """Fused for the CPU, the model has operators that OpenVINO and QNN refuse."""
    meta = metadata.read(home / "artifacts/qdq/artifact_v1")
    [fp32] = [entry for entry in meta["recipe"]["candidates"] if entry["recipe"] == "fp32"]
    assert fp32["passes"][-1]["status"] == "left-out"
    assert "must run on openvino, qnn" in fp32["reason"]
    assert meta["recipe"]["name"] == "source"
    assert meta["session"]["placement"] == {EXECUTION["cpu"]: 13}
    own = meta["equivalence"]["providers"]
    assert list(own) == ["qnn"]
    assert own["qnn"]["bounds"]["default"]["max_abs"] == 0.05
    assert own["qnn"]["options"] == {"htp_performance_mode": "burst"}
    assert "providers" not in metadata.read(home / "artifacts/strict/artifact_v1")["equivalence"]


@pytest.mark.parametrize(("provider", "bound"), [("cpu", 1e-3), ("openvino", 1e-3), ("qnn", 0.05)])
def test_it_is_proved_on(provider: str, bound: float, home: Path, on: Run) -> None:
    path = home / "artifacts/qdq/artifact_v1"
    asked = ("--provider", provider, "--require", f"equivalence[{provider}]", "--save-evidence")
    done = on(provider, "verify", path.relative_to(home), *asked, "--json")
    assert done.code == 0, done.err
    document = done.json
    assert schema.problems(document, "report") == []
    data, emulated = document["data"], provider == "qnn"
    assert (data["verdict"], data["provider"], data["emulated"]) == ("equivalent", provider, emulated)
    assert list(data["placement"]) == [EXECUTION[provider]]
    assert data["required"] == [
        {"name": f"equivalence[{provider}]", "met": True} | {"reason": data["required"][0]["reason"]}
    ]
    [output] = data["outputs"]
    assert output["bound"] == bound
    assert not output["vacuous"]
    assert ("emulated" in done.err) is emulated
    cell = json.loads((path.with_name("artifact_v1.cells") / f"{provider}.json").read_text())
    assert schema.problems(cell, "cell") == []
    assert (cell["emulated"], cell["bounds"]["default"]["max_abs"]) == (emulated, bound)


def test_qnn_differs_by_a_step_and_needs_its_own_bound(on: Run) -> None:
    done = on("qnn", "verify", "artifacts/strict/artifact_v1", "--provider", "qnn", "--json")
    assert (done.code, done.json["error"]["name"]) == (6, "NotEquivalent")
    [output] = done.json["data"]["outputs"]
    assert 1e-3 < output["max_error"] < 0.05
    kept = done.json["data"]["worst"]
    again = on("qnn", "verify", "artifacts/strict/artifact_v1", "--replay", kept, "--provider", "qnn", "--json")
    assert again.code == 6
    assert again.json["data"]["emulated"]


@pytest.mark.parametrize("provider", ["openvino", "qnn"])
def test_validate_py_knows_it_too(provider: str, home: Path, provider_python: Callable[[str], Path]) -> None:
    script = home / "artifacts/qdq/artifact_v1/validate.py"
    command = [provider_python(provider), "-B", script, "--provider", provider, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment())
    data = json.loads(done.stdout)["data"]  # one document, whatever the libraries print
    assert done.returncode == 0, done.stderr
    assert (data["verdict"], data["emulated"]) == ("equivalent", provider == "qnn")
    assert list(data["placement"]) == [EXECUTION[provider]]


def test_openvino_as_a_plugin_finds_the_cpus_of_intel(on: Run) -> None:
    """Beside the newest ONNX Runtime; for other CPUs there is the package that has it inside."""
    done = on("openvino-plugin", "verify", "artifacts/mlp/artifact_v1", "--provider", "openvino", "--json")
    if done.code == 0:
        assert list(done.json["data"]["placement"]) == [EXECUTION["openvino"]]
        return
    assert "GenuineIntel" not in Path("/proc/cpuinfo").read_text()
    assert (done.code, done.json["error"]["name"]) == (9, "NotAvailable")
    assert done.json["error"]["hint"] == "pip uninstall -y onnxruntime && pip install 'artifactctl[openvino]'"


def test_a_model_that_the_provider_does_not_take(on: Run) -> None:
    """The HTP runs quantized models; nothing falls back in silence."""
    done = on("qnn", "verify", "artifacts/mlp/artifact_v1", "--provider", "qnn", "--json")
    assert (done.code, done.json["error"]["name"]) == (9, "NotAvailable")
    assert "QNNExecutionProvider runs none of the model's" in done.json["error"]["message"]


def test_the_bound_of_the_first_provider_is_the_bound_of_the_build(home: Path) -> None:
    meta = metadata.read(home / "artifacts/mlp/artifact_v1")
    assert meta["equivalence"]["statement"].startswith("max_abs ≤ 0.01 ")
    assert meta["equivalence"]["bounds"]["default"]["max_abs"] == 1e-3  # of providers that have none of their own
    assert [output["bound"] for output in meta["equivalence"]["outputs"]] == [0.01]
    for arguments in ((), ("--provider", "cpu")):
        done = run_cli("verify", "artifacts/mlp/artifact_v1", *arguments, "--json", cwd=home)
        assert [output["bound"] for output in done.json["data"]["outputs"]] == [0.01]


SILENT = """
import json, sys
from artifactctl.backends import core
class Silent:  # a session of an ONNX Runtime that does not tell where its nodes run
    pass
path, golden = sys.argv[1:]
settings = {"provider": "qnn", "execution_provider": "QNNExecutionProvider", "intra_op_threads": 1, "placement": None,
            "inter_op_threads": 1, "graph_level": "all", "allow_spinning": False, "options": {"backend_type": "htp"}}
feeds = core.read_golden(golden)[0]["inputs"]
print("found", json.dumps(core.counted(core.proved_placement(Silent(), path, settings, feeds))))
"""


def test_a_profile_tells_where_the_session_does_not(home: Path, provider_python: Callable[[str], Path]) -> None:
    path = home / "artifacts/qdq/artifact_v1"
    command = [provider_python("qnn"), "-c", SILENT, path / folder.MODEL, path / folder.GOLDEN]
    environment = clean_environment(PYTHONPATH=os.fspath(ROOT))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("found")]
    assert list(json.loads(line.removeprefix("found"))) == [EXECUTION["qnn"]]


def test_a_provider_that_stands_for_another_machine(home: Path) -> None:
    for command in (["verify", "artifacts/qdq/artifact_v1"], ["bench", "artifacts/qdq/artifact_v1"], ["build", "qdq"]):
        done = run_cli(*command, "--provider", "cpu-windows", "--json", cwd=home)
        assert (done.code, done.json["error"]["name"]) == (9, "NotAvailable")
        assert done.json["error"]["message"].endswith("cpu-windows stands for Windows, and this is Linux")
        assert "--provider cpu" in done.json["error"]["hint"]
    script = home / "artifacts/qdq/artifact_v1/validate.py"
    run = subprocess.run(
        [sys.executable, "-B", script, "--provider", "cpu-windows"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 9


@pytest.mark.parametrize(
    ("provider", "line"),
    [
        ("qnn", "pip install 'artifactctl[qnn]'"),
        ("openvino", "pip uninstall -y onnxruntime && pip install 'artifactctl[openvino]'"),
    ],
)
def test_a_package_that_is_missing(home: Path, provider: str, line: str) -> None:
    for command in ("verify", "bench"):
        done = run_cli(command, "artifacts/qdq/artifact_v1", "--provider", provider, "--json", cwd=home)
        assert done.code == 9
        assert f"onnxruntime-{provider} is not installed" in done.json["error"]["message"]
        assert done.json["error"]["hint"] == line


@pytest.fixture
def shadowed(tmp_path: Path) -> dict[str, str]:
    """An environment in which pip has also written onnxruntime-gpu."""
    about = tmp_path / "onnxruntime_gpu-1.23.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.23.0\n")
    (about / "RECORD").write_text("onnxruntime/__init__.py,,\n")
    return {"PYTHONPATH": os.pathsep.join([os.fspath(tmp_path), os.fspath(ROOT)])}


def test_packages_that_overwrite_one_another(home: Path, shadowed: dict[str, str]) -> None:
    line = "pip uninstall -y onnxruntime onnxruntime-gpu && pip install 'artifactctl[cpu]'"
    commands = (
        ["verify", "artifacts/qdq/artifact_v1"],
        ["bench", "artifacts/qdq/artifact_v1"],
        ["build", "--force", "qdq"],
    )
    for command in commands:
        done = run_cli(*command, "--json", cwd=home, env=shadowed)
        assert done.code == 9, done.err
        assert "onnxruntime and onnxruntime-gpu are both installed" in done.json["error"]["message"]
        assert done.json["error"]["hint"] == line
    data = run_cli("doctor", "--json", cwd=home, env=shadowed).json["data"]
    assert data["runtimes"] == ["onnxruntime", "onnxruntime-gpu"]
    assert line in [entry["install"] for entry in data["missing"]]
    assert not any(entry["available"] for entry in data["providers"])


def test_doctor_shows_the_table_of_this_machine(home: Path) -> None:
    done = run_cli("doctor", "--json", cwd=home)
    assert schema.problems(done.json, "report") == []
    rows: dict[str, Any] = {entry["name"]: entry for entry in done.json["data"]["providers"]}
    assert rows["cpu"]["available"]
    assert rows["cpu"]["why"] is None
    assert rows["cpu-windows"]["why"] == "cpu-windows stands for Windows, and this is Linux"
    assert rows["qnn"]["emulated"]
    assert rows["cuda"]["runs_on"] == []
    assert "emulated" in done.err
    assert "your own label" in done.err


def test_the_emulator_is_there_by_name(on: Run) -> None:
    data = on("qnn", "doctor", "--json").json["data"]
    assert [entry["name"] for entry in data["providers"] if entry["available"]] == ["cpu", "qnn"]
    assert data["runtimes"] == ["onnxruntime", "onnxruntime-qnn"]


def test_options_of_an_artifact_name_no_library(home: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(home / "artifacts/qdq/artifact_v1", tmp_path / "artifact_v1"))
    data = metadata.read(copy)
    data["equivalence"]["providers"]["qnn"]["options"] = {"backend_path": "evil.so"}
    (copy / folder.METADATA).write_text(metadata.dump(data), encoding="utf-8")
    with pytest.raises(ArtifactDamaged, match="backend_path"):
        metadata.read(copy)
