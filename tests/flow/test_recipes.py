"""Every recipe on a model that it is for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import helper

from artifactctl import schema
from tests.conftest import MODELS, Finished
from tests.flow.refusal import fails

Cli = Callable[..., Finished]


def build(cli: Cli, place: Path, name: str, recipes: list[str], **entry: Any) -> dict[str, dict[str, Any]]:
    if not (place / f"{name}.onnx").exists():
        shutil.copy(MODELS / f"{name}.onnx", place)
    optimize = {"recipes": recipes} | entry.pop("optimize", {})
    model = {"source": {"onnx": f"{name}.onnx"}, "latency": {"budget_s": 2}, "optimize": optimize} | entry
    (place / "artifactctl.yaml").write_text(yaml.safe_dump({"schema_version": 1, "models": {name: model}}))
    done = cli("build", "--json")
    assert done.code == 0, done.err
    assert schema.problems(done.json, "report") == []
    return {item["recipe"]: item for item in done.json["data"]["artifacts"][0]["candidates"]}


def operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_a_transformer_is_fused(cli: Cli, tmp_path: Path) -> None:
    found = build(cli, tmp_path, "encoder", ["transformer"])["transformer"]
    assert found["equivalence"]["max_error"] < 1e-5
    said = found["passes"][0]["detail"]
    assert said.startswith("as bert, 1 attention block; +2 SkipLayerNormalization, +1 Attention")
    assert "−10 Add" in said


def test_what_turns_back_is_folded_by_the_simplifiers(cli: Cli, tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[1, 0]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 8]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "turned", values[:1], values[1:], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(made, tmp_path / "turned.onnx")
    found = build(cli, tmp_path, "turned", ["peephole", "slim"])
    assert found["peephole"]["passes"][0] == {
        "name": "folding by onnxscript", "status": "changed", "detail": "−2 Transpose"
    }  # fmt: skip
    slim = found["slim"]
    assert (slim["passes"][0]["name"], slim["passes"][0]["detail"]) == ("simplification by onnxslim", "−2 Transpose")
    assert slim["equivalence"]["max_error"] == 0
    assert found["peephole"]["reason"] == "gave the same model as slim"


def test_what_float16_cannot_hold_stays_float32(cli: Cli, tmp_path: Path) -> None:
    found = build(cli, tmp_path, "loud", ["fp16", "fp16-mixed"])
    assert "not equivalent" in found["fp16"]["reason"]
    mixed = found["fp16-mixed"]
    assert mixed["equivalence"]["max_error"] < 1e-3
    assert mixed["passes"][0]["detail"] == "3 of 5 nodes kept in float32 (Add, Div, Mul); +4 Cast"


def test_where_nothing_overflows_there_is_nothing_to_mix(cli: Cli, tmp_path: Path) -> None:
    found = build(cli, tmp_path, "mlp", ["fp16-mixed", "int4", "fp32-fixed"])
    assert "nothing in it is too large for float16" in found["fp16-mixed"]["reason"]
    assert found["int4"]["reason"] == "does not apply: needs float32 weights in MatMul or Gather"
    assert found["fp32-fixed"]["reason"] == "does not apply: needs inputs with free sizes, and optimize.shapes"
    assert found["source"]["status"] == "chosen"


def test_static_int8_is_calibrated_on_the_users_data(cli: Cli, tmp_path: Path) -> None:
    """Masks of attention are left out, or nothing would be left of the scores."""
    rng = np.random.default_rng(5)
    ids, mask = rng.integers(0, 30, (48, 12)), np.ones((48, 12), np.int64)
    mask[::2, 8:] = 0
    np.savez(tmp_path / "c.npz", ids=ids, mask=mask)
    names = ["int8-static", "int8-static-entropy", "int8-static-percentile"]
    data = {"calibration": "c.npz", "samples": "c.npz"}
    loose = {"max_abs": None, "min_cosine": 0.97}
    found = build(cli, tmp_path, "encoder", names, data=data, equivalence=loose)
    for name in names:
        assert found[name]["equivalence"]["rel_l2"] < 0.2, found[name]
        said = found[name]["passes"][-1]["detail"]
        assert "calibrated on 1 sets of c.npz; 4 nodes with masks or huge values left out; weights in 7 bits" in said
        assert "QuantizeLinear" in said
    assert len({found[name]["equivalence"]["rel_l2"] for name in names}) == 3


@pytest.mark.parametrize(("data", "said"), [(True, "2 sets of data.samples"), (False, "sets of made-up samples")])
def test_without_calibration_data_it_is_calibrated_on_samples(cli: Cli, tmp_path: Path, data: bool, said: str) -> None:
    samples = np.random.default_rng(5).uniform(-1, 1, (128, 8)).astype(np.float32)
    np.savez(tmp_path / "s.npz", x=samples)
    entry: dict[str, Any] = {"data": {"samples": "s.npz"}} if data else {}
    loose = {"max_abs": None, "min_cosine": 0.9}
    found = build(cli, tmp_path, "mlp", ["int8-static"], equivalence=loose, **entry)["int8-static"]
    assert said in found["passes"][-1]["detail"]
    assert found["equivalence"], "it runs, and was compared"


def test_int4_keeps_the_names_of_the_outputs(cli: Cli, tmp_path: Path) -> None:
    loose = {"max_abs": None, "min_cosine": 0.5}
    found = build(cli, tmp_path, "loud", ["int4", "int4-128"], equivalence=loose)
    for name in ("int4", "int4-128"):
        assert found[name]["passes"][0]["detail"] == "+1 MatMulNBits, −1 MatMul"
        assert found[name]["equivalence"]["max_error"] > 0


def test_the_same_model_twice_is_proved_once(cli: Cli, tmp_path: Path) -> None:
    found = build(cli, tmp_path, "cnn", ["fp32", "slim"])
    assert found["slim"]["reason"] == "gave the same model as fp32"
    assert found["slim"]["passes"][0]["status"] == "changed"
    assert found["slim"]["equivalence"] is None


def test_dynamic_int8_of_everything_takes_convolutions_too(cli: Cli, tmp_path: Path) -> None:
    found = build(cli, tmp_path, "cnn", ["int8-dynamic", "int8-dynamic-all"])
    assert found["int8-dynamic"]["reason"] == "does not apply: needs float32 weights in MatMul or Gemm"
    assert "+1 ConvInteger" in found["int8-dynamic-all"]["passes"][0]["detail"]


def test_a_model_of_fixed_sizes_says_so_everywhere(cli: Cli, tmp_path: Path) -> None:
    optimize = {"shapes": [{"image": [2, 3, 16, 20]}]}
    found = build(cli, tmp_path, "cnn", ["fp32-fixed"], optimize=optimize)["fp32-fixed"]
    assert found["status"] == "chosen", found["reason"]
    assert found["passes"][0]["detail"].startswith("image [2, 3, 16, 20]; ")
    artifact = tmp_path / "artifacts/cnn/artifact_v1"
    metadata = yaml.safe_load((artifact / "metadata.yaml").read_text())
    assert metadata["model"]["fixed"] == {"image": [2, 3, 16, 20]}
    assert metadata["model"]["inputs"][0]["shape"] == [2, 3, 16, 20]
    assert metadata["reference"]["samples"]["inputs"][0]["shape"] == [2, 3, 16, 20]
    assert (
        "made for one shape only, image [2, 3, 16, 20]; the source takes others" in (artifact / "README.md").read_text()
    )
    assert cli("verify", artifact).code == 0
    assert cli("rebuild", "--check", artifact).code == 0
    assert cli("build", "--json").json["data"]["artifacts"][0]["status"] == "unchanged"


def test_each_of_the_shapes_is_a_model_of_its_own(cli: Cli, tmp_path: Path) -> None:
    shapes = {"fp32-fixed-1": [2, 3, 16, 20], "fp32-fixed-2": [1, 3, 24, 24]}
    optimize = {"shapes": [{"image": shape} for shape in shapes.values()]}
    found = build(cli, tmp_path, "cnn", ["fp32-fixed"], optimize=optimize)
    artifact = tmp_path / "artifacts/cnn/artifact_v1"
    for name, shape in shapes.items():
        assert found[name]["passes"][0]["detail"].startswith(f"image {shape}; ")
        assert found[name]["equivalence"]["samples"] > 0
    (chosen,) = [name for name in shapes if found[name]["status"] == "chosen"]
    metadata = yaml.safe_load((artifact / "metadata.yaml").read_text())
    assert metadata["model"]["fixed"] == {"image": shapes[chosen]}
    assert cli("verify", artifact).code == 0
    assert cli("rebuild", "--check", artifact).code == 0


@pytest.mark.parametrize(
    ("shapes", "names"),
    [
        ([{"picture": [1, 3, 8, 8]}], ("'picture'", "image")),
        ([{"image": [1, 4, 8, 8]}], ("'image'", "[1, 4, 8, 8]")),
        ([{"image": [1, 3, 8]}], ("'image'", "[1, 3, 8]")),
    ],
)
def test_shapes_that_do_not_fit(cli: Cli, tmp_path: Path, shapes: list[Any], names: tuple[str, ...]) -> None:
    shutil.copy(MODELS / "cnn.onnx", tmp_path)
    model = {"source": {"onnx": "cnn.onnx"}, "optimize": {"recipes": ["fp32-fixed"], "shapes": shapes}}
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump({"schema_version": 1, "models": {"cnn": model}}))
    fails(cli, tmp_path, 3, "build", names=("optimize.shapes", *names))


def test_weights_that_an_old_exporter_listed_as_inputs(cli: Cli, tmp_path: Path) -> None:
    """The heavy ones stay so, and lie beside the model."""
    dice = np.random.default_rng(2)
    weights = [
        onnx.numpy_helper.from_array((dice.standard_normal(shape) / 9).astype(np.float32), name)
        for name, shape in (("u", (32, 3, 3, 3)), ("w", (64, 32, 3, 3)))
    ]
    nodes = [helper.make_node("Conv", ["x", "u"], ["c"]), helper.make_node("Conv", ["c", "w"], ["y"])]
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", ["n", 3, 16, 16]), ("u", [32, 3, 3, 3]), ("w", [64, 32, 3, 3]))
    ]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 64, 12, 12])]
    graph = helper.make_graph(nodes, "old", values, outputs, weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=4), tmp_path / "old.onnx"
    )
    found = build(cli, tmp_path, "old", ["fp32-listed"], load={"max_regression": None})["fp32-listed"]
    details = [step["detail"] for step in found["passes"]]
    assert "−2 weights that are inputs" in details
    assert details[-1] == "+1 weights that are inputs"
    assert found["equivalence"]["max_error"] < 1e-3
    assert found["size_bytes"] > 4 * 64 * 32 * 9


def test_where_no_weight_is_an_input_there_is_nothing_to_list(cli: Cli, tmp_path: Path) -> None:
    found = build(cli, tmp_path, "cnn", ["fp32", "fp32-listed"])
    assert found["fp32-listed"]["reason"] == "does not apply: needs weights that are listed as inputs"


def test_what_is_laid_out_for_the_cpu_is_a_file_of_its_own(cli: Cli, tmp_path: Path) -> None:
    """Beside the one for all providers, which keeps the pieces that others know."""
    rng = np.random.default_rng(2)
    numbers = {"three": 3.0, "zero": 0.0, "six": 6.0}
    weights = {"w": rng.standard_normal((16, 4, 3, 3)).astype(np.float32)}
    weights |= {name: np.array(number, np.float32) for name, number in numbers.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Add", ["c", "three"], ["shifted"]),
        helper.make_node("Clip", ["shifted", "zero", "six"], ["clipped"]),
        helper.make_node("Mul", ["c", "clipped"], ["product"]),
        helper.make_node("Div", ["product", "six"], ["y"]),
    ]
    inputs, outputs = (
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", channels, size, size])]
        for name, channels, size in (("x", 4, 16), ("y", 16, 14))
    )
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "swish", inputs, outputs, stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(made, tmp_path / "swish.onnx")
    found = build(cli, tmp_path, "swish", ["fp32", "fp32-fused"], providers=["cpu", "openvino"])
    one, other = ({item["name"]: item for item in found[name]["passes"]} for name in ("fp32", "fp32-fused"))
    assert one["whole activations"]["status"] == "left-out"
    assert (
        "made for ONNX Runtime's CPU kernels, and the model must run on openvino" in one["whole activations"]["detail"]
    )
    assert other["whole activations"]["status"] == "changed"
    assert found["fp32-fused"]["equivalence"]["max_error"] < 1e-4
