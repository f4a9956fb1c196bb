from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from artifactctl.backends.facts import recipe_facts, would_saturate
from tests.conftest import MODELS
from tests.unit.backends.small import floats, ints, model, node, write


def test_an_encoder_is_a_transformer() -> None:
    found = recipe_facts(str(MODELS / "encoder.onnx"))
    assert (found["attention"], found["transformer"]) == (1, "bert")
    assert found["weighted"] == {"Gather": 1, "MatMul": 6}
    assert found["free"] == ["batch", "length"] * 2


@pytest.mark.parametrize("name", ["mlp", "cnn", "tokens", "qdq", "branch"])
def test_what_is_none(name: str) -> None:
    found = recipe_facts(str(MODELS / f"{name}.onnx"))
    assert (found["attention"], found["transformer"]) == (0, None)


def test_a_softmax_over_answers_is_no_attention(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "x"], ["p"]), node("Softmax", ["p"], ["s"]), node("MatMul", ["s", "w"], ["y"])]
    made = model(nodes, [floats("x", 4, 4)], [floats("y", 4, 4)], {"w": np.ones((4, 4), np.float32)})
    assert recipe_facts(write(made, tmp_path / "m.onnx"))["attention"] == 0


@pytest.mark.parametrize(("names", "listed"), [((), False), (("small",), False), (("large",), True)])
def test_weights_are_listed_where_most_of_them_are_inputs(names: tuple[str, ...], listed: bool, tmp_path: Path) -> None:
    weights = {"small": np.ones((4, 4), np.float32), "large": np.ones((4, 8), np.float32)}
    nodes = [node("MatMul", ["x", "small"], ["h"]), node("MatMul", ["h", "large"], ["y"])]
    inputs = [floats("x", 1, 4), *(floats(name, *weights[name].shape) for name in names)]
    made = model(nodes, inputs, [floats("y", 1, 8)], weights)
    assert recipe_facts(write(made, tmp_path / "m.onnx"))["listed"] is listed


@pytest.mark.parametrize(("rows", "large"), [(1_000_000, False), (2_000_000, True)])
def test_what_is_large(rows: int, large: bool, tmp_path: Path) -> None:
    """By what is stored, though most of it lies beside the file and is not read."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, 256], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    made = model([node("Gather", ["w", "i"], ["y"])], [ints("i", 1)], [floats("y", 1, 256)], {})
    made.graph.initializer.append(weight)
    with (tmp_path / "w.bin").open("wb") as data:
        data.truncate(rows * 256 * 4)
    assert recipe_facts(write(made, tmp_path / "m.onnx"))["large"] is large


@pytest.mark.parametrize(
    ("rows", "saturates"),
    [
        ([[1.0, 1.0, 0.0, 0.0]], True),  # 127 + 127
        ([[1.0, 0.0, 1.0, 0.0]], False),  # never side by side
        ([[1.0, -1.0, 0.0, 0.0]], False),  # they cancel out
        ([[1.0, 0.0, 0.5, 0.5]], False),  # 64 + 64: just fits
        ([[0.0, 0.0, 0.0, 0.0]], False),
        ([[1.0, 0.0, 0.0, 0.0], [-1.0, -1.0, 0.0, 0.0]], True),
    ],
)
def test_two_large_weights_side_by_side_saturate(rows: list[list[float]], saturates: bool, tmp_path: Path) -> None:
    weights = np.array(rows, np.float32)
    made = model([node("MatMul", ["x", "w"], ["y"])], [floats("x", 1, 4)], [floats("y", 1, None)], {"w": weights.T})
    assert would_saturate(write(made, tmp_path / "m.onnx"), None) == (["y"] if saturates else [])
    turned = node("Gemm", ["x", "w"], ["y"], "dense", transB=1)
    made = model([turned], [floats("x", 1, 4)], [floats("y", 1, None)], {"w": weights})
    assert would_saturate(write(made, tmp_path / "m.onnx"), None) == (["dense"] if saturates else [])


def test_a_convolution_adds_over_its_whole_kernel(tmp_path: Path) -> None:
    weights = np.zeros((1, 1, 2, 2), np.float32)
    weights[0, 0, 0] = 1
    made = model(
        [node("Conv", ["x", "w"], ["y"])], [floats("x", 1, 1, 4, 4)], [floats("y", 1, 1, 3, 3)], {"w": weights}
    )
    assert would_saturate(write(made, tmp_path / "m.onnx"), None) == ["y"]


@pytest.mark.parametrize("large", ["w", "r", ""])
def test_both_weights_of_an_lstm_are_looked_at(large: str, tmp_path: Path) -> None:
    weights = {"w": np.zeros((1, 8, 4), np.float32), "r": np.zeros((1, 8, 2), np.float32)}
    if large:
        weights[large][0, 3, :2] = 1.0
    made = model([node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2)], [floats("x", 3, 1, 4)], [floats("y")], weights)
    path = write(made, tmp_path / "m.onnx")
    assert would_saturate(path, None) == (["y"] if large else [])
    assert would_saturate(path, ["MatMul", "Gemm"]) == []
