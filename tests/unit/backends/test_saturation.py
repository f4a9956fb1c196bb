"""int8 layers that may overflow 16 bits, held against the instruction's arithmetic and ONNX Runtime's own quantizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from artifactctl.backends import saturation
from tests.conftest import MODELS


def test_a_pair_counts_where_the_instruction_can_cut_it_off() -> None:
    """All pairs of weights, against the worst activations: VPMADDUBSW adds two products into 16 bits."""
    every = np.arange(-128, 128)
    first, second = np.meshgrid(every, every)
    sums = np.stack([a * first + b * second for a in (0, 255) for b in (0, 255)])
    overflows = ((sums > 32767) | (sums < -32768)).any(axis=0)
    pairs = np.stack([first, second], axis=-1).astype(np.int8)
    counted = np.array([[saturation.count(pair[None])[0] for pair in row] for row in pairs[::5, ::5]])
    assert (counted.astype(bool) == overflows[::5, ::5]).all()
    assert saturation.count(pairs) == (int(overflows.sum()), 65536)


def made(
    nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray[Any, Any]], path: Path, inner: bool = False
) -> list[dict[str, Any]]:
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    if inner:
        then = helper.make_graph(nodes, "then", [], [y])
        other = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "else", [], [y])
        nodes = [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
    return saturation.saturating_layers(str(path))


LARGE = np.full((4, 6), 100, np.int8)
SMALL = np.full((4, 6), 64, np.int8)
ALTERNATING = np.where(np.arange(4)[:, None] % 2 == 0, 127, -127) * np.ones((1, 6), np.int64)
U8, S8 = np.array(0, np.uint8), np.array(0, np.int8)
SCALE = np.array(1, np.float32)


def qdq(kind: str, **attributes: Any) -> list[onnx.NodeProto]:
    return [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s", "wz"], ["v"]),
        helper.make_node(kind, ["d", "v"], ["y"], name="layer", **attributes),
    ]


@pytest.mark.parametrize(
    ("kind", "weights", "zero", "attributes", "pairs"),
    [
        ("MatMul", LARGE, U8, {}, 12),
        ("MatMul", LARGE, S8, {}, 0),
        ("MatMul", LARGE.astype(np.uint8), U8, {}, 0),
        ("MatMul", SMALL, U8, {}, 0),
        ("MatMul", ALTERNATING.astype(np.int8), U8, {}, 0),  # neighbours along the sum cancel out
        ("Gemm", ALTERNATING.astype(np.int8), U8, {"transB": 1}, 12),
        ("Conv", LARGE.reshape(4, 6, 1, 1), U8, {}, 12),
        ("Conv", LARGE.reshape(4, 2, 3, 1), U8, {}, 12),
        ("Conv", np.array([127, 0, 127, 0], np.int8).reshape(1, 2, 2, 1), U8, {}, 1),  # with the channels last only
        ("Relu", LARGE, U8, {}, 0),
    ],
)
def test_qdq(
    tmp_path: Path, kind: str, weights: np.ndarray[Any, Any], zero: np.ndarray[Any, Any], attributes: dict[str, Any],
    pairs: int,
) -> None:  # fmt: skip
    stored = {"w": weights, "s": SCALE, "z": zero, "wz": np.array(0, weights.dtype)}
    found = made(qdq(kind, **attributes), stored, tmp_path / "m.onnx")
    assert [entry["pairs"] for entry in found] == ([pairs] if pairs else [])
    assert all(entry["layer"] == "layer" for entry in found)


@pytest.mark.parametrize("inner", [False, True])
def test_integer_operators(tmp_path: Path, inner: bool) -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["y"]),
    ]
    stored = {"w": LARGE, "wz": S8, "c": np.array(True)}
    found = made(nodes, stored, tmp_path / "m.onnx", inner)
    assert found == [{"layer": "y", "operator": "MatMulInteger", "pairs": 12, "of": 12}]


@pytest.mark.parametrize(("reduced", "layers"), [(False, 2), (True, 0)])
def test_what_the_quantizer_writes(tmp_path: Path, reduced: bool, layers: int) -> None:
    """Weights of 7 bits can never be cut off."""
    rng = np.random.default_rng(0)
    model = onnx.load(MODELS / "mlp.onnx")
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 2:
            array = rng.uniform(0.5, 1, tuple(tensor.dims)).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, tmp_path / "m.onnx")
    quantize_dynamic(
        tmp_path / "m.onnx", tmp_path / "q.onnx", weight_type=QuantType.QInt8, reduce_range=reduced,
        extra_options={"WeightSymmetric": True},
    )  # fmt: skip
    assert len(saturation.saturating_layers(str(tmp_path / "q.onnx"))) == layers


def test_weights_in_another_file(tmp_path: Path) -> None:
    stored = {"w": np.full((64, 64), 100, np.int8), "s": SCALE, "z": U8, "wz": S8}
    made(qdq("MatMul"), stored, tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    onnx.save_model(model, tmp_path / "e.onnx", save_as_external_data=True, location="w.data", size_threshold=16)
    assert saturation.saturating_layers(str(tmp_path / "e.onnx"))[0]["pairs"] == 64 * 32


def test_large_weights_are_counted_in_blocks() -> None:
    rows = np.random.default_rng(1).integers(-128, 128, (3, saturation.BLOCK // 2 + 1)).astype(np.int8)
    each = [saturation.count(row[None]) for row in rows]
    assert saturation.count(rows) == (sum(pairs for pairs, _ in each), sum(total for _, total in each))
    seen: list[tuple[int, ...]] = []
    saturation.count(rows, lambda part: seen.append(part.shape) or part)  # type: ignore[func-returns-value]
    assert seen == [(1, rows.shape[1])] * 3


def test_a_recurrent_layer_that_olive_makes_int8_is_seen(tmp_path: Path) -> None:
    """As onnxruntime's quantizer writes it, with its scale for all weights of a direction."""
    weights = {"w": np.ones((1, 8, 4), np.float32), "r": np.zeros((1, 8, 2), np.float32)}
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    body = helper.make_graph([helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="lstm", hidden_size=2)], "g", [x],
                             [y], stored)  # fmt: skip
    plain, made = tmp_path / "plain.onnx", tmp_path / "made.onnx"
    plain.write_bytes(
        helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    )
    quantize_dynamic(plain, made, weight_type=QuantType.QInt8)
    (layer,) = saturation.saturating_layers(str(made))
    assert layer == {"layer": layer["layer"], "operator": "DynamicQuantizeLSTM", "pairs": 16, "of": 24}
    quantize_dynamic(plain, made, weight_type=QuantType.QInt8, reduce_range=True)
    assert saturation.saturating_layers(str(made)) == []
