"""The first node whose value differs between two files of one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from artifactctl.backends import culprit
from artifactctl.backends.culprit import first_departure
from artifactctl.backends.npz import sample_arrays, write_npz
from tests.conftest import MODELS

from .small import SETTINGS, floats, ints, model, node, write

BOUNDS = {"default": {"max_abs": 1e-3}, "outputs": {}}
RNG = np.random.default_rng(7)
X, IMAGE = RNG.standard_normal((5, 8)).astype(np.float32), RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)


def departure(good: str, bad: str, folder: Path, bounds: dict[str, Any] = BOUNDS, **inputs: Any) -> Any:
    sample = {"inputs": inputs, "outputs": {}, "labels": None, "follows": False}
    write_npz(folder / "s.npz", sample_arrays("s", sample))
    return first_departure(good, bad, str(folder / "s.npz"), SETTINGS | {"graph_level": "all"}, bounds)


def changed(name: str, weight: str, by: float, target: Path) -> str:
    made = onnx.load_model(str(MODELS / f"{name}.onnx"))
    for tensor in made.graph.initializer:
        if tensor.name == weight:
            array = numpy_helper.to_array(tensor).copy()
            array.flat[0] += by
            tensor.CopyFrom(numpy_helper.from_array(array, weight))
    return write(made, target)


def original(name: str) -> str:
    return str(MODELS / f"{name}.onnx")


@pytest.mark.parametrize(("name", "inputs"), [("mlp", {"x": X}), ("cnn", {"image": IMAGE}), ("branch", {"x": X})])
def test_a_model_does_not_depart_from_itself(name: str, inputs: dict[str, Any], tmp_path: Path) -> None:
    assert departure(original(name), original(name), tmp_path, **inputs) is None


def test_a_wrong_weight_is_found_where_it_is_used(tmp_path: Path) -> None:
    bad = changed("mlp", "w2", 0.5, tmp_path / "bad.onnx")
    found = departure(original("mlp"), bad, tmp_path, x=X)
    assert found["error"] > 1e-3
    assert found | {"error": 0} == {"operator": "Gemm", "node": "", "output": "y", "error": 0}


def test_the_first_of_several_is_named(tmp_path: Path) -> None:
    found = departure(original("cnn"), changed("cnn", "mean", 2.0, tmp_path / "bad.onnx"), tmp_path, image=IMAGE)
    assert (found["operator"], found["output"]) == ("BatchNormalization", "n")


def test_the_bound_decides(tmp_path: Path) -> None:
    bad = changed("mlp", "b1", 1e-4, tmp_path / "bad.onnx")
    assert departure(original("mlp"), bad, tmp_path, x=X) is None
    assert departure(original("mlp"), bad, tmp_path, {"default": {"max_abs": None}}, x=X) is None
    assert departure(original("mlp"), bad, tmp_path, {"default": {"max_abs": 1e-6}}, x=X)["output"] == "h"


@pytest.mark.parametrize("same_inputs", [True, False])
def test_a_conversion_to_float16(same_inputs: bool, tmp_path: Path) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    half = convert_float_to_float16(onnx.load_model(original("mlp")), keep_io_types=same_inputs)
    found = departure(
        original("mlp"), write(half, tmp_path / "bad.onnx"), tmp_path, {"default": {"max_abs": 1e-5}}, x=X
    )
    assert (found["operator"], found["output"]) == ("Gemm", "h")
    assert 1e-5 < found["error"] < 1e-2
    assert departure(original("mlp"), str(tmp_path / "bad.onnx"), tmp_path, {"default": {"max_abs": 0.1}}, x=X) is None


def test_a_quantized_value_is_compared_where_both_files_have_it(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(original("mlp"), str(tmp_path / "bad.onnx"))
    assert departure(original("mlp"), str(tmp_path / "bad.onnx"), tmp_path, x=X)["output"] == "h"


def test_shapes_infinities_and_whole_numbers_depart_too(tmp_path: Path) -> None:
    def write_one(operator: str, name: str, **options: Any) -> str:
        kind = TensorProto.INT64 if operator.startswith("Arg") else TensorProto.FLOAT
        nodes = [node(operator, ["x"], ["a"], name="one", **options), node("Identity", ["a"], ["y"])]
        made = model(nodes, [floats("x", 5, 8)], [helper.make_tensor_value_info("y", kind, None)])
        return write(made, tmp_path / name)

    good = write_one("ArgMax", "good.onnx", axis=1, keepdims=0)
    found = departure(good, write_one("ArgMin", "bad.onnx", axis=1, keepdims=0), tmp_path, x=X)
    assert (found["operator"], found["node"], found["output"]) == ("ArgMin", "one", "a")
    assert found["error"] >= 1
    found = departure(good, write_one("ArgMax", "bad.onnx", axis=1), tmp_path, x=X)
    assert (found["operator"], found["error"]) == ("ArgMax", None)
    found = departure(write_one("Abs", "good.onnx"), write_one("Log", "bad.onnx"), tmp_path, x=X)
    assert (found["operator"], found["error"]) == ("Log", None)


def test_values_that_are_no_tensors_are_left_out(tmp_path: Path) -> None:
    def write_one(name: str, added: float) -> str:
        nodes = [
            node("SequenceConstruct", ["x", "x"], ["several"]),
            node("ConcatFromSequence", ["several"], ["joined"], axis=0),
            node("Add", ["joined", "c"], ["y"]),
        ]
        weights = {"c": np.array(added, np.float32)}
        return write(model(nodes, [floats("x", 5, 8)], [floats("y", 10, 8)], weights), tmp_path / name)

    found = departure(write_one("good.onnx", 0), write_one("bad.onnx", 1), tmp_path, x=X)
    assert (found["operator"], found["output"]) == ("Add", "y")


def test_values_are_asked_for_in_parts_when_they_are_large(tmp_path: Path) -> None:
    sizes = {"a": 120_000_000, "b": 90_000_000, "c": 300_000_000, "d": 100}
    assert list(culprit.chunks([*sizes, "unknown"], sizes)) == [["a"], ["b"], ["c"], ["d", "unknown"]]

    def write_one(name: str, factor: int) -> str:
        count = culprit.CHUNK_BYTES // culprit.UNKNOWN_BYTES  # as large as nobody knows: how many are not zero?
        nodes = [node("NonZero", ["x"], ["v0"]), *(node("Add", [f"v{i}", "c"], [f"v{i + 1}"]) for i in range(count))]
        nodes.append(node("Mul", [f"v{count}", "f"], ["y"]))
        made = model(nodes, [floats("x", 3)], [ints("y", 1, None)], {"c": np.array(1), "f": np.array(factor)})
        return write(made, tmp_path / name)

    found = departure(write_one("good.onnx", 2), write_one("bad.onnx", 3), tmp_path, x=np.ones(3, np.float32))
    assert (found["operator"], found["error"]) == ("Mul", 402)


def test_nothing_is_said_of_a_file_that_cannot_be_run(tmp_path: Path) -> None:
    made = onnx.load_model(original("mlp"))
    made.graph.node[0].op_type = "Unheard"
    assert departure(original("mlp"), write(made, tmp_path / "bad.onnx"), tmp_path, x=X) is None
