"""The whole flow on small and on real models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from artifactctl import folder, schema
from tests.conftest import EXAMPLE, MODELS, Finished, run_cli

EIGHT = ["model_name", "version", "opset", "precision", "optimization", "runtime", "latency_ms", "accuracy_drop"]
SECTIONS = [
    "source",
    "reference",
    "model",
    "recipe",
    "session",
    "equivalence",
    "latency",
    "environment",
    "files",
    "previous",
]


def candidates(done: Finished) -> dict[str, dict]:
    return {entry["recipe"]: entry for entry in done.json["data"]["artifacts"][0]["candidates"]}


def test_folder_is_as_the_contract_says(built: Path) -> None:
    names = ["README.md", "SHA256SUMS", "bom.cdx.json", "evidence/equivalence.json", "evidence/latency.cpu.json"]
    assert folder.listing(built) == [*names, "golden.npz", "metadata.yaml", "model_opt.onnx", "validate.py"]
    assert folder.damage(built) == []
    metadata = yaml.safe_load((built / "metadata.yaml").read_text())
    assert list(metadata) == [*EIGHT, "schema_version", *SECTIONS]
    assert schema.problems(metadata, "metadata") == []
    for name in ("equivalence", "latency"):
        file = next((built / "evidence").glob(f"{name}*.json"))
        assert schema.problems(json.loads(file.read_text()), name) == []


def test_proof_has_single_samples_and_a_larger_batch(built: Path) -> None:
    evidence = json.loads((built / "evidence" / "equivalence.json").read_text())
    sizes = [entry["dims"]["batch"] for entry in evidence["sets"].values()]
    assert sizes.count(1) >= 5
    assert len([size for size in sizes if size > 1]) >= 5
    chosen = next(entry for entry in evidence["providers"]["cpu"] if entry["status"] == "chosen")
    assert len(chosen["report"]["sets"]) == len(sizes)


def test_measurement_keeps_every_pair(built: Path) -> None:
    evidence = json.loads((built / "evidence" / "latency.cpu.json").read_text())
    measured = [entry["latency"] for entry in evidence["candidates"] if entry["latency"]]
    for latency in measured:
        assert latency["pairs"] >= 30
        assert latency["rounds"] >= 5
        assert latency["verdict"] in ("not-slower", "regression", "not-proven")
        assert latency["ratio_low"] <= latency["ratio"] <= latency["ratio_high"]
        assert sum(len(entry["times_ns"]) for entry in latency["raw"]) == latency["pairs"]
        assert latency["candidate"]["load_ms"] > 0


def test_every_recipe_is_shown_with_its_reason(cli: Callable[..., Finished], tmp_path: Path) -> None:
    shutil.copy(MODELS / "cnn.onnx", tmp_path)
    done = cli("build", "cnn.onnx", "--json")
    assert done.code == 0, done.err
    assert schema.problems(done.json, "report") == []
    found = candidates(done)
    assert list(found) == ["fp32", "fp32-listed", "transformer", "slim", "peephole", "fp16", "int8-dynamic", "source"]
    assert all(entry["reason"] for entry in found.values())
    assert "needs float32 weights in MatMul or Gemm" in found["int8-dynamic"]["reason"]
    passes = {entry["name"]: entry["status"] for entry in found["fp32"]["passes"]}
    assert passes["eliminate_deadend"] == "changed"
    assert passes["fuse_bn_into_conv"] == "changed"
    assert passes["fuse_add_bias_into_conv"] == "unchanged"
    again = cli("build", "cnn.onnx", "--json")
    assert again.json["data"]["artifacts"][0]["status"] == "unchanged"
    before = [entry | {"worst": None} for entry in found.values()]  # samples are kept by the build that found them
    assert again.json["data"]["artifacts"][0]["candidates"] == before


def test_a_changed_model_is_a_new_version(cli: Callable[..., Finished], tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path / "m.onnx")
    assert cli("build", "m.onnx", "-q").code == 0
    shutil.copy(MODELS / "tokens.onnx", tmp_path / "m.onnx")
    done = cli("build", "m.onnx", "--json")
    assert done.json["data"]["artifacts"][0]["version"] == 2
    metadata = yaml.safe_load((tmp_path / "artifacts/m/artifact_v2/metadata.yaml").read_text())
    assert metadata["previous"]["version"] == 1
    assert metadata["previous"]["sha256"] == folder.digest(tmp_path / "artifacts/m/artifact_v1/SHA256SUMS")
    tokens = metadata["reference"]["samples"]["inputs"][0]
    assert tokens["range"] == [0, 19]


def test_int8_is_shipped_only_under_a_measure_of_the_users_own(cli: Callable[..., Finished], tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    config = {
        "schema_version": 1,
        "models": {
            "mlp": {
                "source": {"onnx": "mlp.onnx"},
                "optimize": {"recipes": ["int8-dynamic"]},
                "equivalence": {"max_abs": None, "min_top1": 0.5},
            }
        },
    }
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump(config))
    done = cli("build", "--json")
    found = candidates(done)["int8-dynamic"]
    metadata = yaml.safe_load((tmp_path / "artifacts/mlp/artifact_v1/metadata.yaml").read_text())
    assert metadata["equivalence"]["statement"] == "min_top1 ≥ 0.5"
    assert "not equivalent" not in found["reason"]
    assert found["equivalence"]["max_error"] > 1e-3


def test_olive_file_of_the_user(cli: Callable[..., Finished], tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    passes = {"half": {"type": "OnnxFloatToFloat16", "keep_io_types": True}}
    system = {
        "type": "LocalSystem",
        "accelerators": [{"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}],
    }
    run = {"systems": {"local": system}, "host": "local", "target": "local", "passes": passes}
    (tmp_path / "half.json").write_text(json.dumps(run))
    done = cli("build", "mlp.onnx", "--recipe", "olive:half.json", "--json")
    assert done.code == 0, done.err
    found = candidates(done)["olive:half.json"]
    assert found["passes"] == [{"name": "Olive run configuration", "status": "changed", "detail": "+2 Cast"}]
    assert found["equivalence"]["samples"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["artifacts", "half.json", "mlp.onnx"]


def test_both_sides_of_a_branch_are_taken(cli: Callable[..., Finished], tmp_path: Path) -> None:
    """Also when nobody says how."""
    shutil.copy(MODELS / "branch.onnx", tmp_path)
    assert cli("build", "branch.onnx", "-q").code == 0
    metadata = yaml.safe_load((tmp_path / "artifacts/branch/artifact_v1/metadata.yaml").read_text())
    assert metadata["reference"]["samples"]["branches"] == [{"condition": "large", "taken": [False, True]}]


@pytest.mark.parametrize("name", ["mtcnn_onet", "silero_vad"])
def test_real_models(
    cli: Callable[..., Finished], tmp_path: Path, real_model: Callable[[str], Path], name: str
) -> None:
    shutil.copy(real_model(name), tmp_path)
    done = cli("build", f"{name}.onnx", "--json")
    assert done.code == 0, done.err
    artifact = tmp_path / done.json["data"]["artifacts"][0]["path"]
    for entry in done.json["data"]["artifacts"][0]["candidates"]:
        if entry["status"] != "rejected":
            assert entry["equivalence"]["max_error"] <= 1e-3
    verified = cli("verify", artifact, "--reference", f"{name}.onnx", "--json")
    assert verified.code == 0, verified.err
    assert schema.problems(verified.json, "report") == []
    assert verified.json["data"]["verdict"] == "equivalent"


def test_example_has_a_real_accuracy_drop(tmp_path: Path) -> None:
    place = Path(
        shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("artifacts", "__pycache__"))
    )
    done = run_cli("build", "--json", cwd=place)
    assert done.code == 0, done.err
    assert done.json["data"]["artifacts"][0]["accuracy_drop"] == 0.0
    metadata = yaml.safe_load((place / "artifacts/simple_cnn/artifact_v1/metadata.yaml").read_text())
    assert metadata["equivalence"]["accuracy"]["source"] > 0.95
    assert metadata["equivalence"]["accuracy"]["samples"] == 360
    assert metadata["reference"]["framework"].startswith("torch ")
    assert metadata["reference"]["exported"]["max_error"] <= 1e-3
    paths = [entry["path"] for entry in metadata["source"]["files"]]
    assert set(paths) == {
        "models/simple_cnn.py",
        "models/simple_cnn.safetensors",
        "data/samples.npz",
        "data/labels.npy",
    }
    assert not list(place.rglob("__pycache__"))
    again = run_cli("build", "--json", cwd=place)
    assert again.json["data"]["artifacts"][0]["status"] == "unchanged"
