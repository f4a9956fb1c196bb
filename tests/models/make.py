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


def encoder() -> None:
    """One layer of a text encoder as PyTorch exports it, with a mask of -3.4e38 before the Softmax."""
    rng = np.random.default_rng(11)
    hidden, heads = 16, 2
    shapes = dict.fromkeys(("wq", "wk", "wv", "wo"), (hidden, hidden)) | {
        "w1": (hidden, 2 * hidden), "w2": (2 * hidden, hidden), "table": (30, hidden),
    }  # fmt: skip
    weights = {name: (0.2 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    biases = {"bq": hidden, "bk": hidden, "bv": hidden, "bo": hidden, "b1": 2 * hidden, "b2": hidden}
    weights |= {name: (0.1 * rng.standard_normal(size)).astype(np.float32) for name, size in biases.items()}
    for name in ("first", "second", "third"):
        weights |= {f"gamma_{name}": np.ones(hidden, np.float32), f"beta_{name}": np.zeros(hidden, np.float32)}
    weights |= {
        "split": np.array([0, 0, heads, hidden // heads], np.int64), "joined": np.array([0, 0, hidden], np.int64),
        "one": np.ones((), np.float32), "lowest": np.array(np.finfo(np.float32).min),
        "axis_1": np.array([1], np.int64), "axis_2": np.array([2], np.int64),
        "root": np.array(np.sqrt(hidden / heads), np.float32), "two": np.array(np.sqrt(2.0), np.float32),
        "half": np.array(0.5, np.float32),
    }  # fmt: skip
    nodes: list = []

    def add(kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], f"node_{output}", **attributes))
        return output

    def dense(source: str, letter: str, output: str) -> str:
        return add("Add", [f"b{letter}", add("MatMul", [source, f"w{letter}"], f"{output}_product")], output)

    def norm(source: str, name: str) -> str:
        return add("LayerNormalization", [source, f"gamma_{name}", f"beta_{name}"], name, axis=-1, epsilon=1e-12)

    def turned(source: str, letter: str, order: list[int]) -> str:
        apart = add("Reshape", [dense(source, letter, f"dense_{letter}"), "split"], f"apart_{letter}")
        return add("Transpose", [apart], f"heads_{letter}", perm=order)

    wide = add("Unsqueeze", [add("Unsqueeze", ["mask", "axis_1"], "mask_wide"), "axis_2"], "mask_wider")
    wide = add("Cast", [wide], "mask_float", to=TensorProto.FLOAT)
    bias = add("Mul", [add("Sub", ["one", wide], "mask_off"), "lowest"], "mask_bias")
    x = norm(add("Gather", ["table", "ids"], "words"), "first")
    query, value = turned(x, "q", [0, 2, 1, 3]), turned(x, "v", [0, 2, 1, 3])
    scores = add("Div", [add("MatMul", [query, turned(x, "k", [0, 2, 3, 1])], "scores"), "root"], "scores_scaled")
    shares = add("Softmax", [add("Add", [scores, bias], "scores_masked")], "shares", axis=-1)
    back = add("Transpose", [add("MatMul", [shares, value], "context")], "context_back", perm=[0, 2, 1, 3])
    x = norm(
        add("Add", [dense(add("Reshape", [back, "joined"], "context_joined"), "o", "mixed"), x], "sum_1"), "second"
    )
    inner = dense(x, "1", "inner")
    erf = add("Add", [add("Erf", [add("Div", [inner, "two"], "erf_in")], "erf_out"), "one"], "erf_sum")
    gelu = add("Mul", [add("Mul", [inner, erf], "gelu_double"), "half"], "gelu")
    norm(add("Add", [dense(gelu, "2", "outer"), x], "sum_2"), "third")
    tokens = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in ("ids", "mask")]
    save("encoder", nodes, tokens, [floats("third", "batch", "length", hidden)], weights)


def loud() -> None:
    """Numbers on the way that float16 cannot hold, in three of its five nodes; its answers are small."""
    rng = np.random.default_rng(12)
    weights = {
        "w1": (0.05 * rng.standard_normal((8, 8))).astype(np.float32),
        "w2": (0.05 * rng.standard_normal((8, 4))).astype(np.float32),
        "large": np.array(3e6, np.float32),
        "shift": np.array(2e5, np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"]),
        helper.make_node("Mul", ["h", "large"], ["up"]),
        helper.make_node("Add", ["up", "shift"], ["shifted"]),
        helper.make_node("Div", ["shifted", "large"], ["down"]),
        helper.make_node("MatMul", ["down", "w2"], ["y"]),
    ]
    save("loud", nodes, [floats("x", "batch", 8)], [floats("y", "batch", 4)], weights)


def fragile() -> None:
    """Three layers, of which the second has one channel 3000 times larger: int8 has no steps for the others."""
    rng = np.random.default_rng(13)
    spread = np.ones((1, 32, 1, 1))
    spread[0, 5] = 3000.0
    weights = {
        "w1": 0.1 * rng.standard_normal((32, 16, 3, 3)),
        "b1": 0.2 * rng.standard_normal(32),
        "spread": spread,
        "w2": 0.1 * rng.standard_normal((16, 32, 3, 3)) / spread,
        "w3": 0.1 * rng.standard_normal((16, 5)),
    }
    padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "first", **padded),
        helper.make_node("Relu", ["c1"], ["r1"], "relu"),
        helper.make_node("Mul", ["r1", "spread"], ["m"], "mul"),
        helper.make_node("Conv", ["m", "w2"], ["c2"], "fragile", **padded),
        helper.make_node("MaxPool", ["c2"], ["p"], "pool", kernel_shape=[8, 8]),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "w3"], ["y"], "last"),
    ]
    stored = {name: array.astype(np.float32) for name, array in weights.items()}
    save("fragile", nodes, [floats("x", "batch", 16, 8, 8)], [floats("y", "batch", 5)], stored)


def rare() -> None:
    """Four layers side by side: two are harmless, `coarse` is far too large for int8 where z is below -1, and `rare`
    a little where z is above 1."""
    rng = np.random.default_rng(17)
    sizes = {"plain": 32, "rare": 64, "small": 32, "coarse": 32}
    weights = {name: 0.1 * rng.standard_normal((size, 16, 3, 3)) for name, size in sizes.items()}
    weights |= {"one": np.array(1.0), "slightly": np.array(0.5), "wildly": np.array(60.0)}
    nodes = [helper.make_node("Neg", ["z"], ["n"], "negated")]
    for side, start, factor in (("rare", "z", "slightly"), ("coarse", "n", "wildly")):
        nodes += [
            helper.make_node("Sub", [start, "one"], [f"{side}_over"], f"{side}_over"),
            helper.make_node("Relu", [f"{side}_over"], [f"{side}_relu"], f"{side}_relu"),
            helper.make_node("Mul", [f"{side}_relu", factor], [f"{side}_more"], f"{side}_more"),
            helper.make_node("Add", [f"{side}_more", "one"], [f"{side}_times"], f"{side}_times"),
            helper.make_node("Mul", ["x", f"{side}_times"], [f"{side}_in"], f"{side}_in"),
        ]
    for side in sizes:
        start = "x" if side in ("plain", "small") else f"{side}_in"
        padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        nodes += [
            helper.make_node("Conv", [start, side], [f"{side}_c"], side, **padded),
            helper.make_node("Relu", [f"{side}_c"], [f"{side}_r"], f"{side}_last"),
            helper.make_node("GlobalAveragePool", [f"{side}_r"], [f"{side}_p"], f"{side}_pool"),
        ]
    nodes.append(helper.make_node("Concat", [f"{side}_p" for side in sizes], ["y"], "all", axis=1))
    stored = {name: array.astype(np.float32) for name, array in weights.items()}
    inputs = [floats("x", "batch", 16, 8, 8), floats("z", "batch", 1, 1, 1)]
    save("rare", nodes, inputs, [floats("y", "batch", 160, 1, 1)], stored)


if __name__ == "__main__":
    for make in (mlp, cnn, branch, constant, noisy, tokens, qdq, encoder, loud, fragile, rare):
        make()
