"""When a model differs, hangs, or eats the memory: what is kept, what is said, and that the next model goes on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import MODELS, ROOT, Finished, clean_environment

Cli = Callable[..., Finished]


def save(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any]) -> Path:
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), str(path))
    return path


def floats(name: str, *shape: int | str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


@pytest.fixture(scope="module")
def different(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A build whose fp16 candidate is proved different."""
    from tests.conftest import run_cli

    place = tmp_path_factory.mktemp("different")
    shutil.copy(MODELS / "mlp.onnx", place)
    done = run_cli("build", "mlp.onnx", "--recipe", "fp32", "--recipe", "fp16", "--json", cwd=place)
    assert done.code == 0, done.err
    return place, done.json["data"]["artifacts"][0]


def test_what_is_different_is_kept_and_named(different: tuple[Path, dict[str, Any]], cli: Cli) -> None:
    place, built = different
    entry = next(item for item in built["candidates"] if item["recipe"] == "fp16")
    assert entry["status"] == "rejected"
    assert (place / entry["worst"]).is_file()
    assert entry["worst"].endswith("fp16/evidence/worst.npz")
    culprit = entry["culprit"]
    assert culprit["operator"] in ("Gemm", "Relu", "Cast")
    assert culprit["error"] > 1e-3
    assert culprit["pass"].startswith("conversion to float16")
    assert culprit["operator"] in entry["reason"]
    others = [item for item in built["candidates"] if item["recipe"] != "fp16"]
    assert all(item["worst"] is None for item in others)
    model = Path(entry["worst"]).parents[1] / "model.onnx"
    again = cli("verify", model, "--replay", entry["worst"], "--json", cwd=place)
    assert again.code == 6
    assert again.json["data"]["integrity"] == "not-checked"
    assert again.json["data"]["outputs"][0]["max_error"] == pytest.approx(entry["equivalence"]["max_error"])
    sound = cli("verify", built["path"], "--replay", entry["worst"], "--json", cwd=place)
    assert (sound.code, sound.json["data"]["verdict"]) == (0, "equivalent")


def test_a_replay_of_something_else(different: tuple[Path, dict[str, Any]], cli: Cli, tmp_path: Path) -> None:
    place, built = different
    text = tmp_path / "notes.npz"
    text.write_text("not an archive")
    for file in (text, place / built["path"] / "golden.npz"):
        refused = cli("verify", built["path"], "--replay", file, "--json", cwd=place)
        assert refused.code == 4, refused.out
        assert file.name in refused.json["error"]["message"]
    assert cli("verify", built["path"], "--replay", tmp_path / "none.npz", cwd=place).code == 4
    assert cli("verify", built["path"], "--replay", text, "--search", "1", cwd=place).code == 2


def test_evidence_of_the_last_build_only(different: tuple[Path, dict[str, Any]], cli: Cli) -> None:
    place, _ = different
    copy = place / "second.onnx"
    shutil.copy(MODELS / "mlp.onnx", copy)
    assert cli("build", "second.onnx", "--recipe", "fp16", cwd=place).code == 0
    kept = place / "artifacts" / ".work" / "second@kept"
    assert (kept / "fp16" / "evidence" / "worst.npz").is_file()
    assert cli("build", "second.onnx", "--recipe", "fp32", "--force", cwd=place).code == 0
    assert not kept.exists()


def test_the_pass_of_an_olive_file_is_found_by_halving(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    passes = {
        "tidy": {"type": "OnnxPeepholeOptimizer"},
        "shrink": {"type": "OnnxDynamicQuantization"},
        "tidy_again": {"type": "OnnxPeepholeOptimizer"},
    }
    (tmp_path / "own.json").write_text(json.dumps({"passes": passes}))
    done = cli("build", "mlp.onnx", "--recipe", "olive:own.json", "--json")
    assert done.code == 0, done.err
    entry = done.json["data"]["artifacts"][0]["candidates"][0]
    assert entry["status"] == "rejected"
    assert entry["culprit"]["pass"] == "shrink"


def test_a_search_finds_worse_and_joins_the_golden_samples(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    config = {
        "schema_version": 1,
        "models": {
            "mlp": {
                "source": {"onnx": "mlp.onnx", "inputs": {"x": {"range": [-1, 1]}}},
                "optimize": {"recipes": ["fp16"]},
                "equivalence": {"max_abs": 0.5, "search_s": 2},
            }
        },
    }
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump(config))
    done = cli("build", "--json")
    assert done.code == 0, done.err
    artifact = tmp_path / done.json["data"]["artifacts"][0]["path"]
    evidence = json.loads((artifact / "evidence" / "equivalence.json").read_text())
    tried = evidence["providers"]["cpu"][0]
    assert tried["search"]["evaluations"] > 20
    assert tried["search"]["found"] > tried["search"]["start"]
    number = tried["search"]["set"]
    assert evidence["sets"][number]["origin"] == "search"
    assert tried["report"]["worst"] == number
    stored = np.load(artifact / "golden.npz")
    numbers = sorted({name.split("/")[0] for name in stored.files})
    found = stored[f"{numbers[-1]}/inputs/x"]
    assert np.abs(found).max() <= 1
    # the same from the folder: the source lies where it was
    again = cli("verify", artifact, "--search", "1", "--json")
    assert again.code == 0, again.err
    assert again.json["data"]["search"]["evaluations"] > 10
    (tmp_path / "mlp.onnx").unlink()
    lost = cli("verify", artifact, "--search", "1", "--json")
    assert (lost.code, "--reference" in lost.json["error"]["hint"]) == (4, True)


def hungry(path: Path) -> Path:
    """Needs 1.6 GB for one intermediate value."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("MatMul", ["t", "x"], ["m"]),
        helper.make_node("ReduceMax", ["m"], ["y"], keepdims=0),
    ]
    return save(path, nodes, [floats("x", 1, 20000)], [floats("y")], {})


def endless(path: Path) -> Path:
    """Counts to 2**40."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["more"]), helper.make_node("Add", ["held", "held"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            floats("held", 2),
        ],
        [helper.make_tensor_value_info("more", TensorProto.BOOL, []), floats("next", 2)],
    )
    weights = {"trips": np.array(2**40, np.int64), "yes": np.array(True)}
    loop = helper.make_node("Loop", ["trips", "yes", "x"], ["y"], body=body)
    return save(path, [loop], [floats("x", 2)], [floats("y", 2)], weights)


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (hungry, ["--memory-limit", "700"], ("out of memory", "--memory-limit")),
        (endless, ["--time-limit", "12"], ("no answer within 12 s",)),
    ],
)
def test_the_next_model_goes_on(
    make: Callable[[Path], Path], options: list[str], said: tuple[str, ...], cli: Cli, tmp_path: Path
) -> None:
    make(tmp_path / "bad.onnx")
    shutil.copy(MODELS / "cnn.onnx", tmp_path / "good.onnx")
    done = cli("build", "bad.onnx", "good.onnx", "--recipe", "fp32", *options, "--json")
    assert done.code == 4, done.err
    error = done.json["error"]
    assert all(word in error["message"] + error["hint"] for word in said), error
    assert [item["model"] for item in done.json["data"]["artifacts"]] == ["good"]
    assert not list((tmp_path / "artifacts" / ".work").glob("*@build-*"))


def test_an_audio_model_is_asked_in_sequences(cli: Cli, real_model: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copy(real_model("silero_vad"), tmp_path / "vad.onnx")
    done = cli("build", "vad.onnx", "--recipe", "fp32", "--json")
    assert done.code == 0, done.err
    artifact = tmp_path / done.json["data"]["artifacts"][0]["path"]
    samples = yaml.safe_load((artifact / "metadata.yaml").read_text())["reference"]["samples"]
    assert samples["states"] == [{"input": "state", "output": "stateN"}]
    follows = [entry.get("follows", False) for entry in samples["sets"]]
    assert not follows[0]
    assert sum(follows) >= 6
    stored = np.load(artifact / "golden.npz")
    steps = [name.split("/")[0] for name in stored.files if name.endswith("/follows/")]
    # what was fed back is what the source gave one step before
    for number in steps:
        before = f"{int(number) - 1:05d}"
        np.testing.assert_array_equal(stored[f"{number}/inputs/state"], stored[f"{before}/outputs/stateN"])
    assert all(branch["taken"] == [False, True] for branch in samples["branches"])
    assert cli("verify", artifact).code == 0
    ran = subprocess.run([sys.executable, artifact / "validate.py"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_margin_decisions_and_placement_are_told(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "cnn.onnx", tmp_path)
    done = cli("build", "cnn.onnx", "--recipe", "fp32")
    assert "× below the bound" in done.out
    assert "× the float32 noise" in done.out
    assert "scores: 0 flips in" in done.out
    artifact = tmp_path / "artifacts" / "cnn" / "artifact_v1"
    metadata = yaml.safe_load((artifact / "metadata.yaml").read_text())
    assert metadata["reference"]["noise"]["float64"]["ran"] is True
    assert metadata["session"]["placement"]["CPUExecutionProvider"] > 0
    assert metadata["reference"]["noise"]["rows"]["checked"] > 0
    output = metadata["equivalence"]["outputs"][0]
    assert output["decisions"]["flips"] == 0
    assert output["decisions"]["margin"] == pytest.approx(2 * output["max_abs"])
    told = cli("verify", artifact)
    assert "nodes on CPUExecutionProvider" in told.out


@pytest.fixture(scope="module")
def openvino_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with ONNX Runtime for OpenVINO, and what `verify` needs; no torch, no Olive."""
    place = tmp_path_factory.mktemp("openvino") / "venv"
    subprocess.run([sys.executable, "-m", "venv", place], check=True, capture_output=True)
    python = place / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, f"{ROOT}[openvino]"], check=True, capture_output=True)
    return python


def test_no_fall_back_is_labelled_with_another_provider(
    openvino_python: Path, cli: Cli, tmp_path: Path, slim_python: Path
) -> None:
    """OpenVINO runs a CNN, and none of the nodes of a linear classifier from ai.onnx.ml."""
    shutil.copy(MODELS / "cnn.onnx", tmp_path)
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            classlabels_ints=[0, 1],
            coefficients=[0.5, -1.0, 0.25, 1.0],
            intercepts=[0.1, 0.2],
            post_transform="SOFTMAX",
        )
    ]
    labels = helper.make_tensor_value_info("label", TensorProto.INT64, ["n"])
    graph = helper.make_graph(nodes, "g", [floats("x", "n", 2)], [labels, floats("scores", "n", 2)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)
    onnx.save_model(made, str(tmp_path / "linear.onnx"))
    assert cli("build", "cnn.onnx", "linear.onnx", "--recipe", "fp32").code == 0

    def verify(name: str) -> tuple[int, dict[str, Any]]:
        command = [openvino_python, "-m", "artifactctl", "verify", f"artifacts/{name}/artifact_v1"]
        done = subprocess.run(
            [*command, "--provider", "openvino", "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env=clean_environment(),
        )
        return done.returncode, json.loads(done.stdout)

    code, report = verify("cnn")
    assert code == 0, report
    assert report["data"]["provider"] == "openvino"
    assert report["data"]["placement"]["OpenVINOExecutionProvider"] > 0
    assert set(report["data"]["placement"]) == {"OpenVINOExecutionProvider"}
    code, report = verify("linear")
    assert code == 9
    assert "runs none of the model's" in report["error"]["message"]
    assert "LinearClassifier" in report["error"]["message"]
    # the shipped script says the same
    script = tmp_path / "artifacts" / "linear" / "artifact_v1" / "validate.py"
    done = subprocess.run(
        [openvino_python, script, "--provider", "openvino"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "LinearClassifier" in done.stderr) == (9, True)
    absent = subprocess.run(
        [slim_python, script, "--provider", "openvino"], capture_output=True, text=True, check=False
    )
    assert absent.returncode == 9


def test_numbers_that_are_none(different: tuple[Path, dict[str, Any]], cli: Cli) -> None:
    place, built = different
    for option, value in (
        ("--search", "nan"),
        ("--time-limit", "nan"),
        ("--time-limit", "inf"),
        ("--memory-limit", "64"),
    ):
        assert cli("verify", built["path"], option, value, cwd=place).code == 2, (option, value)


def test_what_an_artifact_was_proved_on_is_explained(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    source = {"onnx": "mlp.onnx", "inputs": {"x": {"range": [5, 7]}}}
    config = {"schema_version": 1, "models": {"mlp": {"source": source, "optimize": {"recipes": ["fp32"]}}}}
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump(config))
    assert cli("build").code == 0
    for target in ("artifacts/mlp/artifact_v1", "mlp.onnx"):
        told = cli("inspect", target, "--inputs", "--json")
        assert told.json["data"]["plan"]["inputs"][0]["range"] == [5, 7], target


@pytest.mark.parametrize(
    "said", [{"values": ["a", "b"]}, {"range": [0.5, 0.7]}, {"values": [1.5]}, {"range": [0, 2**70]}]
)
def test_values_that_the_type_cannot_hold(said: dict[str, Any], cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "tokens.onnx", tmp_path)
    source = {"onnx": "tokens.onnx", "inputs": {"ids": said}}
    config = {"schema_version": 1, "models": {"tokens": {"source": source}}}
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump(config))
    done = cli("build", "--json")
    assert done.code == 3, done.out
    assert "'ids' is int64" in done.json["error"]["message"]


def test_a_bound_for_an_output_that_does_not_exist(cli: Cli, tmp_path: Path) -> None:
    """`out` is not `out.1`: its bound would be stated as proved, and hold nothing."""
    nodes = [helper.make_node("Relu", ["x"], ["out.1"]), helper.make_node("Neg", ["x"], ["out.2"])]
    save(tmp_path / "m.onnx", nodes, [floats("x", "n", 4)], [floats("out.1", "n", 4), floats("out.2", "n", 4)], {})
    bounds = {"outputs": {"out": {"max_abs": 1e-30}}}
    config = {"schema_version": 1, "models": {"m": {"source": {"onnx": "m.onnx"}, "equivalence": bounds}}}
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump(config))
    done = cli("build", "--json")
    assert (done.code, "out.1" in done.json["error"]["message"]) == (3, True)


def test_a_recipe_that_ran_out_of_time_is_tried_again(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    assert cli("build", "mlp.onnx", "--recipe", "fp32").code == 0
    path = tmp_path / "artifacts" / "mlp" / "artifact_v1" / "metadata.yaml"
    assert "died: false" in path.read_text()
    path.write_text(path.read_text().replace("died: false", "died: true", 1))
    again = cli("build", "mlp.onnx", "--recipe", "fp32", "--json")
    assert [item["version"] for item in again.json["data"]["artifacts"]] == [2]


def test_the_source_is_found_below_the_working_directory(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    shutil.copy(MODELS / "mlp.onnx", tmp_path / "models")
    assert cli("build", "models/mlp.onnx", "--recipe", "fp32").code == 0
    assert cli("verify", "artifacts/mlp/artifact_v1", "--search", "1").code == 0
