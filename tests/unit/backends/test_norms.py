"""Norms and activations in pieces."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.unit.backends.rewriting import rewritten
from tests.unit.backends.small import floats, model, node

RNG = np.random.default_rng(6)
X = {"x": RNG.standard_normal((2, 5, 8)).astype(np.float32) * 3}
IO = ([floats("x", "n", 5, 8)], [floats("y", None, None, None)])
WEIGHTS = {
    "gamma": RNG.standard_normal(8).astype(np.float32),
    "beta": RNG.standard_normal(8).astype(np.float32),
    "wide": RNG.standard_normal((5, 8)).astype(np.float32),
    "small": np.array(1e-3, np.float32),
    "two": np.array(2.0, np.float32),
    "last": np.array([-1]),
    "middle": np.array([1]),
}


def of_tensorflow(mean: str = "GlobalAveragePool", gamma: str = "gamma", axes: str = "last") -> list[onnx.NodeProto]:
    more = [axes] if mean == "ReduceMean" else []
    return [
        node(mean, ["x", *more], ["mean"]),
        node("Sub", ["x", "mean"], ["apart"]),
        node("Mul", ["apart", "apart"], ["square"]),
        node(mean, ["square", *more], ["variance"]),
        node("Add", ["variance", "small"], ["safe"]),
        node("Sqrt", ["safe"], ["root"]),
        node("Reciprocal", ["root"], ["inverse"]),
        node("Mul", ["inverse", gamma], ["scale"]),
        node("Mul", ["x", "scale"], ["scaled"]),
        node("Mul", ["mean", "scale"], ["moved"]),
        node("Sub", ["beta", "moved"], ["shift"]),
        node("Add", ["scaled", "shift"], ["y"]),
    ]


@pytest.mark.parametrize("mean", ["GlobalAveragePool", "ReduceMean"])
def test_a_layer_norm_of_tensorflow(mean: str) -> None:
    made = model(of_tensorflow(mean), *IO, WEIGHTS)
    assert rewritten(made, X) == ({"layer_norm": 1}, {"LayerNormalization": 1})


def test_a_layer_norm_before_it_had_a_name() -> None:
    made = model(of_tensorflow(), *IO, WEIGHTS)
    made.opset_import[0].version = 14
    done, left = rewritten(made, X)
    assert (done, left["ReduceMean"], left["GlobalAveragePool"]) == ({"layer_norm": 1}, 2, 0)


def test_what_is_no_layer_norm_stays() -> None:
    for nodes in (of_tensorflow(gamma="wide"), of_tensorflow("ReduceMean", axes="middle")):
        assert "layer_norm" not in rewritten(model(nodes, *IO, WEIGHTS), X)[0]
    images = [floats("x", "n", 3, 5, 8)], [floats("y", None, None, None, None)]  # the mean is of two dimensions
    feeds = {"x": RNG.standard_normal((2, 3, 5, 8)).astype(np.float32)}
    assert "layer_norm" not in rewritten(model(of_tensorflow(), *images, WEIGHTS), feeds)[0]
    other = of_tensorflow()
    other[2] = node("Mul", ["apart", "x"], ["square"])
    feeds = {"x": np.abs(X["x"])}
    assert "layer_norm" not in rewritten(model(other, *IO, WEIGHTS), feeds)[0]


NUMBERS = {"cubic": 0.044715, "root": 0.7978845608, "one": 1.0, "half": 0.5, "three": 3.0, "tenth": 0.1}
SCALARS = {name: np.array(value, np.float32) for name, value in NUMBERS.items()}


def of_jax(cubic: str = "cubic") -> list[onnx.NodeProto]:
    return [
        node("Mul", [cubic, "x"], ["a"]),
        node("Mul", ["x", "a"], ["b"]),
        node("Mul", ["x", "b"], ["c"]),
        node("Add", ["x", "c"], ["d"]),
        node("Mul", ["root", "d"], ["e"]),
        node("Tanh", ["e"], ["f"]),
        node("Add", ["one", "f"], ["g"]),
        node("Mul", ["half", "g"], ["h"]),
        node("Mul", ["x", "h"], ["y"]),
    ]


def test_a_gelu_of_jax() -> None:
    done, left = rewritten(model(of_jax(), *IO, SCALARS), X)
    assert (done, left["Pow"], left["Mul"]) == ({"gelu": 1}, 1, 4)


def test_a_tanh_that_is_no_gelu_stays() -> None:
    assert rewritten(model(of_jax("tenth"), *IO, SCALARS), X)[0] == {}
    nodes = [*of_jax(), node("Add", ["y", "g"], ["z"])]  # somebody else takes what is inside
    assert rewritten(model(nodes, IO[0], [floats("z", None, None, None)], SCALARS), X)[0] == {}
