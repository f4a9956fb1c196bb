"""Writes the small committed models: python tests/models/make.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
OPSET, IR = 18, 10


def save(name: str, nodes: list, inputs: list, outputs: list, weights: dict[str, np.ndarray]) -> None:
    stored = [numpy_helper.from_array(array, key) for key, array in weights.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    onnx.checker.check_model(model)
    (HERE / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def floats(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def mlp() -> None:
    """Two dense layers: every recipe applies."""
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["a"]),
        helper.make_node("Gemm", ["a", "w2", "b2"], ["y"]),
    ]
    weights = {
        "w1": rng.standard_normal((8, 16)).astype(np.float32),
        "b1": rng.standard_normal(16).astype(np.float32),
        "w2": rng.standard_normal((16, 4)).astype(np.float32),
        "b2": rng.standard_normal(4).astype(np.float32),
    }
    save("mlp", nodes, [floats("x", "batch", 8)], [floats("y", "batch", 4)], weights)


def cnn() -> None:
    """A convolution with batch norm that was not folded, and a dead end."""
    rng = np.random.default_rng(2)
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["a"]),
        helper.make_node("Exp", ["a"], ["unused"]),
        helper.make_node("GlobalAveragePool", ["a"], ["p"]),
        helper.make_node("Flatten", ["p"], ["scores"]),
    ]
    weights = {
        "w": rng.standard_normal((6, 3, 3, 3)).astype(np.float32),
        "scale": rng.random(6).astype(np.float32) + 0.5,
        "shift": rng.standard_normal(6).astype(np.float32),
        "mean": rng.standard_normal(6).astype(np.float32),
        "var": rng.random(6).astype(np.float32) + 0.5,
    }
    save("cnn", nodes, [floats("image", "batch", 3, "height", "width")], [floats("scores", "batch", 6)], weights)


def branch() -> None:
    """One of two paths, by the data."""
    weights = {"limit": np.array(0.6, np.float32)}
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["t"])], "then", [], [floats("t", "batch", 8)])
    other = helper.make_graph([helper.make_node("Exp", ["x"], ["e"])], "else", [], [floats("e", "batch", 8)])
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "limit"], ["large"]),
        helper.make_node("If", ["large"], ["y"], then_branch=then, else_branch=other),
    ]
    save("branch", nodes, [floats("x", "batch", 8)], [floats("y", "batch", 8)], weights)


def constant() -> None:
    """Answers the same whatever it is asked."""
    weights = {"zero": np.zeros((), np.float32), "one": np.ones((), np.float32)}
    nodes = [helper.make_node("Mul", ["x", "zero"], ["m"]), helper.make_node("Add", ["m", "one"], ["y"])]
    save("constant", nodes, [floats("x", "batch", 4)], [floats("y", "batch", 4)], weights)


def noisy() -> None:
    """Does not agree with itself."""
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    save("noisy", nodes, [floats("x", "batch", 4)], [floats("y", "batch", 4)], {})


def tokens() -> None:
    """Looks ids up in a table of 20 rows: larger ids are refused."""
    rng = np.random.default_rng(3)
    weights = {
        "table": rng.standard_normal((20, 8)).astype(np.float32),
        "w": rng.standard_normal((8, 5)).astype(np.float32),
    }
    nodes = [helper.make_node("Gather", ["table", "ids"], ["e"]), helper.make_node("MatMul", ["e", "w"], ["y"])]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "length"])
    save("tokens", nodes, [ids], [floats("y", "batch", "length", 5)], weights)


def qdq() -> None:
    """A convolution and a dense layer, quantized as QDQ with sizes that are fixed: it runs on CPU, OpenVINO and QNN.

    CPU and OpenVINO give the same answers, for weights so small that no CPU's sum of two products saturates; QNN's
    differ by a step of the last scale here and there.
    """
    rng = np.random.default_rng(7)
    weights = {
        "w": rng.integers(-60, 60, (4, 1, 3, 3)).astype(np.int8),
        "m": rng.integers(-60, 60, (64, 3)).astype(np.int8),
        "middle": np.array(128, np.uint8),
        "low": np.array(0, np.uint8),
        "even": np.array(0, np.int8),
    }
    scales = {"x": 0.031, "w": 0.0079, "c": 0.019, "m": 0.0021, "y": 0.021}
    weights |= {f"{name}_scale": np.array(scale, np.float32) for name, scale in scales.items()}
    zeros = {"x": "middle", "w": "even", "c": "low", "m": "even", "y": "middle"}

    def pair(name: str, source: str) -> list:
        about = [f"{name}_scale", zeros[name]]
        steps = [helper.make_node("QuantizeLinear", [source, *about], [f"{name}_q"], f"{name}_quantize")]
        return [
            *steps,
            helper.make_node("DequantizeLinear", [f"{name}_q", *about], [f"{name}_d"], f"{name}_dequantize"),
        ]

    def constant(name: str) -> object:
        about = [f"{name}_scale", zeros[name]]
        return helper.make_node("DequantizeLinear", [name, *about], [f"{name}_d"], f"{name}_dequantize")

    last = pair("y", "product")
    last[-1].output[0] = "y"
    nodes = [
        *pair("x", "x"),
        constant("w"),
        helper.make_node("Conv", ["x_d", "w_d"], ["c"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        *pair("c", "c"),
        helper.make_node("Flatten", ["c_d"], ["flat"], "flatten"),
        helper.make_node("QuantizeLinear", ["flat", "c_scale", "low"], ["flat_q"], "flat_quantize"),
        helper.make_node("DequantizeLinear", ["flat_q", "c_scale", "low"], ["flat_d"], "flat_dequantize"),
        constant("m"),
        helper.make_node("MatMul", ["flat_d", "m_d"], ["product"], "matmul"),
        *last,
    ]
    save("qdq", nodes, [floats("x", 1, 1, 8, 8)], [floats("y", 1, 3)], weights)


if __name__ == "__main__":
    for make in (mlp, cnn, branch, constant, noisy, tokens, qdq):
        make()
