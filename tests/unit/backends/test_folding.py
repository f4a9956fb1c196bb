"""What fusions leave behind of weights is a constant again, and no file grows by it."""

from __future__ import annotations

import numpy as np
import onnx

from tests.unit.backends.rewriting import rewritten
from tests.unit.backends.small import floats, model, node

RNG = np.random.default_rng(11)
X, Y = floats("x", "n", 4, None, None), floats("y", "n", 8, None, None)
IMAGE = {"x": RNG.standard_normal((2, 4, 6, 6)).astype(np.float32)}
WEIGHTS = {
    "w": RNG.standard_normal((8, 4, 3, 3)).astype(np.float32),
    "f": RNG.uniform(0.5, 2, 8).astype(np.float32),
    "axes": np.array([1, 2, 3], np.int64),
}


def test_weights_that_a_fusion_scaled() -> None:
    nodes = [
        node("Cast", ["w"], ["wide"], to=onnx.TensorProto.DOUBLE),
        node("Cast", ["f"], ["factor"], to=onnx.TensorProto.DOUBLE),
        node("Sqrt", ["factor"], ["root"]),
        node("Unsqueeze", ["root", "axes"], ["by_channel"]),
        node("Mul", ["wide", "by_channel"], ["scaled"]),
        node("Cast", ["scaled"], ["weights"], to=onnx.TensorProto.FLOAT),
        node("Conv", ["x", "weights"], ["y"]),
    ]
    done, left = rewritten(model(nodes, [X], [Y], WEIGHTS), IMAGE)
    assert done == {"folded": 6}
    assert left == {"Conv": 1}


def test_what_would_make_a_file_larger_stays() -> None:
    nodes = [node("Add", ["row", "column"], ["table"]), node("MatMul", ["z", "table"], ["y"])]
    weights = {
        name: RNG.standard_normal(shape).astype(np.float32) for name, shape in (("row", (1, 8)), ("column", (8, 1)))
    }
    made = model(nodes, [floats("z", "n", 8)], [floats("y", "n", 8)], weights)
    assert rewritten(made, {"z": np.ones((3, 8), np.float32)}) == ({}, {"Add": 1, "MatMul": 1})


def test_a_constant_that_is_an_output_keeps_its_name() -> None:
    nodes = [node("Sqrt", ["f"], ["root"]), node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["y"])]
    made = model(nodes, [X], [Y, floats("root", 8)], WEIGHTS)
    assert rewritten(made, IMAGE)[0] == {"folded": 1}
    assert [output.name for output in made.graph.output] == ["y", "root"]


def test_a_weight_that_many_scale_stays_one() -> None:
    weights = {name: np.array(value, np.float32) for name, value in (("half", 0.5), ("two", 2.0))}
    weights["w"] = RNG.standard_normal((32, 32)).astype(np.float32)
    nodes = [
        node("Mul", ["w", "half"], ["u"]),
        node("Mul", ["w", "two"], ["v"]),
        node("MatMul", ["z", "u"], ["m"]),
        node("MatMul", ["m", "v"], ["y"]),
    ]
    made = model(nodes, [floats("z", "n", 32)], [floats("y", "n", 32)], weights)
    assert rewritten(made, {"z": np.ones((3, 32), np.float32)})[0] == {}
    made.graph.node[1].input[0] = "half"
    made.graph.node[3].CopyFrom(node("Mul", ["m", "v"], ["y"]))
    assert rewritten(made, {"z": np.ones((3, 32), np.float32)})[0] == {"folded": 2}


def test_what_is_used_as_it_is_too_stays() -> None:
    weights = {"w": np.ones((1024, 1), np.float32), "to": np.array([1, 1024], np.int64)}
    nodes = [node("Reshape", ["w", "to"], ["r"]), node("MatMul", ["z", "r"], ["m"]), node("MatMul", ["m", "w"], ["y"])]
    made = model(nodes, [floats("z", "n", 1)], [floats("y", "n", 1)], weights)
    assert rewritten(made, {"z": np.ones((3, 1), np.float32)})[0] == {}
