"""The source in float64, against its own float32 answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from artifactctl.backends import core, double, evaluator
from artifactctl.backends.double import float64_noise
from artifactctl.backends.npz import sample_arrays, write_npz
from tests.conftest import MODELS

from .small import SETTINGS, floats, model, node, write

BOUNDS = {"default": {"max_abs": 1e-3}, "outputs": {}}
RNG = np.random.default_rng(5)
INPUTS: dict[str, dict[str, np.ndarray]] = {
    "mlp": {"x": RNG.standard_normal((6, 8)).astype(np.float32)},
    "cnn": {"image": RNG.standard_normal((2, 3, 9, 11)).astype(np.float32)},
    "branch": {"x": RNG.standard_normal((3, 8)).astype(np.float32)},
    "tokens": {"ids": RNG.integers(0, 20, (2, 7))},
}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def answered(path: str, inputs: dict[str, Any], file: Path) -> str:
    outputs = core.run(core.open_session(path, SETTINGS), inputs)
    sample = {"inputs": inputs, "outputs": outputs, "labels": None, "follows": False}
    write_npz(file, sample_arrays(file.stem, sample))
    return str(file)


def noise_of(made: onnx.ModelProto, inputs: dict[str, Any], folder: Path, **bound: Any) -> dict[str, Any]:
    path = write(made, folder / "m.onnx")
    return float64_noise(path, [answered(path, inputs, folder / "s.npz")], {"default": bound or {"max_abs": 1e-3}})


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_small_models_run_and_the_noise_is_that_of_float32(name: str, tmp_path: Path) -> None:
    path = str(MODELS / f"{name}.onnx")
    sample = answered(path, INPUTS[name], tmp_path / "s.npz")
    found = float64_noise(path, [sample], BOUNDS)
    assert found["ran"], found
    assert found["engine"] == ("onnx.reference" if name == "cnn" else "onnxruntime")
    assert 0 < found["max_error"] < 1e-5
    assert found["max_abs"] == max(output["max_abs"] for output in found["outputs"].values())
    assert found == float64_noise(path, [sample], BOUNDS)


def test_the_noise_is_the_distance_to_a_calculation_in_numpy(tmp_path: Path) -> None:
    path = str(MODELS / "mlp.onnx")
    sample = answered(path, INPUTS["mlp"], tmp_path / "s.npz")
    stored = onnx.load_model(path).graph.initializer
    w = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in stored}
    y = np.maximum(INPUTS["mlp"]["x"].astype(np.float64) @ w["w1"] + w["b1"], 0) @ w["w2"] + w["b2"]
    [given] = core.read_golden(Path(sample))
    gap = np.abs(given["outputs"]["y"] - y)
    found = float64_noise(path, [sample, sample], BOUNDS)
    assert found["samples"] == 2
    assert found["max_abs"] == pytest.approx(gap.max(), rel=1e-5)
    assert found["max_error"] == pytest.approx((gap / np.maximum(1, np.abs(given["outputs"]["y"]))).max(), rel=1e-5)


def test_a_float16_model_has_the_noise_of_float16(tmp_path: Path) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    half = convert_float_to_float16(onnx.load_model(str(MODELS / "mlp.onnx")))
    found = noise_of(half, {"x": INPUTS["mlp"]["x"].astype(np.float16)}, tmp_path)
    assert found["ran"], found
    assert 1e-4 < found["max_error"] < 1e-2


def test_an_operator_that_no_engine_has_is_a_reason(tmp_path: Path) -> None:
    made = model(
        [node("Unheard", ["x"], ["y"], domain="some.where")], [floats("x", 2)], [floats("y", 2)], {}, ("some.where",)
    )
    sample = {"inputs": {"x": normal(2)}, "outputs": {"y": normal(2)}, "labels": None, "follows": False}
    write_npz(tmp_path / "s.npz", sample_arrays("s", sample))
    found = float64_noise(write(made, tmp_path / "m.onnx"), [str(tmp_path / "s.npz")], BOUNDS)
    assert not found["ran"]
    assert "Unheard" in found["reason"]
    assert "\n" not in found["reason"]


def test_a_fused_operator_of_onnx_runtime_is_a_reason(tmp_path: Path) -> None:
    made = model(
        [node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", activation="Relu")],
        [floats("x", 1, 3, 8, 8)],
        [floats("y", 1, 4, 6, 6)],
        {"w": normal(4, 3, 3, 3)},
        ("com.microsoft",),
    )
    assert "FusedConv" in noise_of(made, {"x": normal(1, 3, 8, 8)}, tmp_path)["reason"]


def test_a_model_that_draws_random_numbers_does_not_agree(tmp_path: Path) -> None:
    path = str(MODELS / "noisy.onnx")
    sample = answered(path, {"x": normal(2, 4)}, tmp_path / "s.npz")
    assert float64_noise(path, [sample], BOUNDS) == {"ran": False, "reason": double.DISAGREES}


def test_a_number_that_only_float64_can_hold_does_not_agree(tmp_path: Path) -> None:
    made = model([node("Exp", ["x"], ["y"])], [floats("x", 1)], [floats("y", 1)])
    assert noise_of(made, {"x": np.array([200], np.float32)}, tmp_path)["reason"] == double.DISAGREES


def test_the_limit_of_nonsense_follows_the_bound(tmp_path: Path) -> None:
    made = model([node("Mul", ["x", "x"], ["s"]), node("Sub", ["s", "c"], ["y"])], [floats("x", 1)], [floats("y", 1)])
    made.graph.initializer.append(numpy_helper.from_array(np.array([1e8], np.float32), "c"))
    inputs = {"x": np.array([1e4 + 0.001], np.float32)}
    assert noise_of(made, inputs, tmp_path, max_abs=1e-6)["reason"] == double.DISAGREES
    assert noise_of(made, inputs, tmp_path, max_abs=None)["ran"] is False
    assert noise_of(made, inputs, tmp_path, max_abs=1.0)["ran"]


def test_whole_numbers_have_no_noise(tmp_path: Path) -> None:
    counts = helper.make_tensor_value_info("y", TensorProto.INT64, [1])
    made = model([node("ArgMax", ["x"], ["y"], axis=0)], [floats("x", 4)], [counts])
    assert noise_of(made, {"x": normal(4)}, tmp_path) == {
        "ran": False,
        "reason": "no sample has floating-point outputs",
    }


def test_a_damaged_file_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"nothing")
    assert not float64_noise(str(tmp_path / "m.onnx"), [], BOUNDS)["ran"]


def test_what_costs_too_much_is_not_begun_twice(tmp_path: Path) -> None:
    made = model(
        [node("Resize", ["x", "", "s"], ["y"], mode="linear")],
        [floats("x", 1, 1, "h", "w")],
        [floats("y", 1, 1, None, None)],
    )
    made.graph.initializer.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "s"))
    assert noise_of(made, {"x": normal(1, 1, 6, 6)}, tmp_path)["ran"]
    found = noise_of(made, {"x": normal(1, 1, 400, 400)}, tmp_path)
    assert found == {"ran": False, "reason": found["reason"]}
    assert "too many calculations" in found["reason"]


class Exhausted:
    """Answers once, and is too expensive afterwards."""

    def __init__(self) -> None:
        self.answers = [normal(2)]

    def get_inputs(self) -> list[Any]:
        return []

    def get_outputs(self) -> list[Any]:
        return [floats("y", 2)]

    def run(self, _: None, feeds: dict[str, Any]) -> list[np.ndarray]:
        if not self.answers:
            raise evaluator.Costly
        return [self.answers.pop()]


def test_as_many_samples_as_the_purse_allows(tmp_path: Path) -> None:
    sample = {"inputs": {"x": normal(2)}, "outputs": {"y": normal(2)}, "labels": None, "follows": False}
    write_npz(tmp_path / "s.npz", sample_arrays("s", sample))
    assert double._compared(Exhausted(), [str(tmp_path / "s.npz")] * 3).samples == 1
    purse = evaluator.Purse()
    purse.pay(evaluator.BUDGET)
    with pytest.raises(evaluator.Costly):
        purse.pay(1)


def test_every_place_that_names_a_float_type_is_widened(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [
            node("Constant", [], ["c"], value_floats=[0.1, 0.2, 0.3]),
            node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            node("Add", ["f", "c"], ["d"]),
            node("Add", ["d", "carried"], ["next"]),
            node("Identity", ["go"], ["still"]),
            node("Identity", ["d"], ["scanned"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            floats("carried", 3),
        ],
        [helper.make_tensor_value_info("still", TensorProto.BOOL, []), floats("next", 3), floats("scanned", 3)],
    )
    weights = {"three": np.array(3), "shape": np.array([3]), "go0": np.array(True), "size": np.array(3)}
    made = model(
        [
            node("ConstantOfShape", ["shape"], ["zero"]),
            node("Add", ["x", "zero"], ["x0"]),
            node("HannWindow", ["size"], ["window"]),
            node("Loop", ["three", "go0", "x0"], ["last", "all"], body=inner),
            node("third", ["last"], ["divided"], domain="own"),
            node("Add", ["divided", "window"], ["y"]),
        ],
        [floats("x", 3)],
        [floats("y", 3), floats("all", 3, 3)],
        weights,
        ("own",),
    )
    steps = [node("Constant", [], ["t"], value_float=3.0), node("Div", ["a", "t"], ["b"])]
    made.functions.append(helper.make_function("own", "third", ["a"], ["b"], steps, [helper.make_opsetid("", 18)]))
    found = noise_of(made, {"x": normal(3)}, tmp_path)
    assert found["ran"], found
    assert found["engine"] == "onnxruntime"
    assert 0 < found["max_error"] < 1e-6


def close(made: NodeProto, x: np.ndarray, folder: Path, **weights: np.ndarray) -> None:
    """The evaluator's own operators answer as ONNX Runtime's in float32 do."""
    whole = model([made], [floats("x", *x.shape)], [floats("y", *[None] * x.ndim)], weights)
    found = noise_of(whole, {"x": x}, folder)
    assert found["ran"], found
    assert found["engine"] == "onnx.reference"
    assert found["max_error"] < 1e-5


@pytest.mark.parametrize(
    ("shape", "kernel", "options"),
    [
        ((2, 4, 9), (6, 4, 3), {"strides": [2], "pads": [2, 0]}),
        ((2, 4, 9, 8), (6, 2, 3, 2), {"group": 2, "dilations": [2, 3], "pads": [1, 0, 2, 3]}),
        ((1, 6, 9, 8), (6, 1, 3, 3), {"group": 6, "strides": [2, 1]}),
        ((1, 3, 10, 7), (4, 3, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
        ((1, 3, 10, 7), (4, 3, 2, 4), {"auto_pad": "SAME_LOWER"}),
        ((1, 3, 10, 7), (4, 3, 3, 3), {"auto_pad": "VALID"}),
        ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {}),
    ],
)
def test_convolutions(shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any], tmp_path: Path) -> None:
    made = node("Conv", ["x", "w", "b"], ["y"], **options)
    close(made, normal(*shape), tmp_path, w=normal(*kernel), b=normal(kernel[0]))


def test_a_convolution_in_several_blocks(tmp_path: Path) -> None:
    shape, kernel = (1, 32, 200, 200), (2, 32, 3, 3)
    assert np.prod(shape) * 9 > evaluator.BLOCK
    close(node("Conv", ["x", "w"], ["y"]), normal(*shape), tmp_path, w=normal(*kernel) / 10)


@pytest.mark.parametrize(
    ("shape", "kernel", "options"),
    [
        ((2, 4, 7), (4, 3, 3), {"strides": [2], "pads": [1, 0]}),
        ((2, 4, 5, 6), (4, 3, 3, 2), {"group": 2, "strides": [2, 3], "output_padding": [1, 2]}),
        ((1, 4, 5, 6), (4, 3, 3, 2), {"dilations": [2, 3], "pads": [1, 2, 0, 1]}),
        ((1, 2, 4, 4), (2, 3, 4, 4), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ],
)
def test_transposed_convolutions(
    shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any], tmp_path: Path
) -> None:
    outputs = kernel[1] * options.get("group", 1)
    made = node("ConvTranspose", ["x", "w", "b"], ["y"], **options)
    close(made, normal(*shape), tmp_path, w=normal(*kernel), b=normal(outputs))


@pytest.mark.parametrize(
    "options",
    [
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"pads": [1, 0, 2, 1], "count_include_pad": 1},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"strides": [2, 2], "ceil_mode": 1},
    ],
)
def test_averages(options: dict[str, Any], tmp_path: Path) -> None:
    close(node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], **options), normal(1, 2, 9, 8), tmp_path)


@pytest.mark.parametrize("operator", ["GlobalMaxPool", "GlobalAveragePool"])
def test_pools_over_everything(operator: str, tmp_path: Path) -> None:
    whole = model(
        [node("Softplus", ["x"], ["s"]), node(operator, ["s"], ["y"])], [floats("x", 2, 3, 7)], [floats("y", 2, 3, 1)]
    )
    assert 0 < noise_of(whole, {"x": normal(2, 3, 7)}, tmp_path)["max_error"] < 1e-6


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_enlarged_images(mode: str, tmp_path: Path) -> None:
    scales = np.array([1, 1, 2, 1.5], np.float32)
    close(node("Resize", ["x", "", "s"], ["y"], mode=mode), normal(1, 2, 5, 6), tmp_path, s=scales)
