"""The generated validate.py, run by an interpreter that has numpy and onnxruntime and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from artifactctl import folder
from tests.conftest import MODELS, Finished


def validate(python: Path, artifact: Path, *arguments: object) -> Finished:
    command = [python, "-I", artifact / "validate.py", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=artifact.parent)
    assert "Traceback" not in done.stderr, done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


def test_the_environment_is_slim(slim_python: Path) -> None:
    done = subprocess.run([slim_python, "-c", "import onnx"], capture_output=True, check=False)
    assert done.returncode != 0


def test_table_and_json(slim_python: Path, built: Path) -> None:
    done = validate(slim_python, built)
    assert done.code == 0, done.err
    assert "mlp artifact_v1: equivalent" in done.out
    data = validate(slim_python, built, "--json").json
    assert data["ok"] is True
    assert data["data"]["verdict"] == "equivalent"
    assert data["data"]["samples"] >= 20
    assert folder.damage(built) == [], "checking leaves nothing behind"


def test_reference_on_fresh_inputs(slim_python: Path, built: Path) -> None:
    data = validate(slim_python, built, "--reference", MODELS / "mlp.onnx", "--json").json
    assert [output["name"] for output in data["data"]["outputs"]] == ["y", "y (fresh)"]
    assert data["data"]["verdict"] == "equivalent"


def test_another_reference_is_different(slim_python: Path, built: Path, tmp_path: Path) -> None:
    model = onnx.load(MODELS / "mlp.onnx")
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "b2")
    moved = onnx.numpy_helper.to_array(weight) + np.float32(2e-3)
    weight.CopyFrom(onnx.numpy_helper.from_array(moved.astype(np.float32) * 3, "b2"))
    onnx.save(model, tmp_path / "other.onnx")
    done = validate(slim_python, built, "--reference", tmp_path / "other.onnx", "--json")
    assert done.code == 6
    assert done.json["error"]["name"] == "NotEquivalent"
    assert done.json["error"]["hint"]


def test_reference_that_cannot_be_loaded(slim_python: Path, built: Path, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    done = validate(slim_python, built, "--reference", tmp_path / "text.onnx")
    assert done.code == 4
    assert "text.onnx cannot be loaded" in done.err


@pytest.mark.parametrize("provider", ["cuda", "nonsense"])
def test_provider_that_is_not_here(slim_python: Path, built: Path, provider: str) -> None:
    done = validate(slim_python, built, "--provider", provider, "--json")
    assert done.code == 9
    assert done.json["error"]["name"] == "NotAvailable"


@pytest.mark.parametrize(
    "name", ["model_opt.onnx", "golden.npz", "metadata.yaml", "README.md", "evidence/latency.cpu.json"]
)
def test_changed_file(slim_python: Path, artifact: Path, name: str) -> None:
    content = bytearray((artifact / name).read_bytes())
    content[len(content) // 2] ^= 1
    (artifact / name).write_bytes(content)
    done = validate(slim_python, artifact, "--json")
    assert done.code == 10
    assert f"{name} has been changed" in done.json["error"]["message"]
    assert done.json["data"]["integrity"] == "damaged"


def test_extra_and_missing_files(slim_python: Path, artifact: Path) -> None:
    (artifact / ".hidden").write_text("x")
    (artifact / "README.md").unlink()
    done = validate(slim_python, artifact)
    assert done.code == 10
    assert ".hidden is not listed" in done.err
    assert "README.md is missing" in done.err


def test_a_model_swapped_with_new_sums_is_different(slim_python: Path, artifact: Path) -> None:
    """The golden answers catch what digests that were written anew cannot."""
    model = onnx.load(artifact / "model_opt.onnx")
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 2:
            swapped = onnx.numpy_helper.to_array(tensor) * np.float32(1.01)
            tensor.CopyFrom(onnx.numpy_helper.from_array(swapped, tensor.name))
    onnx.save(model, artifact / "model_opt.onnx")
    folder.write_sums(artifact)
    done = validate(slim_python, artifact, "--json")
    assert done.code == 6
    assert json.loads(done.out)["data"]["verdict"] == "different"


def test_it_runs_from_any_place(slim_python: Path, built: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(built, tmp_path / "elsewhere with spaces" / "copy"))
    assert validate(slim_python, moved).code == 0
