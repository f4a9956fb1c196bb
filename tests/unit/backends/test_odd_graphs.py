"""Legal graphs that are odd: no rewrite ends on them, and none answers otherwise, also where nothing is."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from artifactctl.backends.algebra import REWRITES, rewrite
from tests.unit.backends.rewriting import rewritten
from tests.unit.backends.small import floats, ints, model, node
from tests.unit.backends.test_norms import IO as NORM_IO
from tests.unit.backends.test_norms import WEIGHTS as NORM
from tests.unit.backends.test_norms import X, of_tensorflow

RNG = np.random.default_rng(13)
WEIGHTS = {"w": RNG.standard_normal((8, 4, 3, 3)).astype(np.float32), "b": np.zeros(8, np.float32)}


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_the_shape_of_a_number_is_an_empty_list() -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Max", ["s", "one"], ["m"]), node("Expand", ["x", "m"], ["y"])]
    made = model(nodes, [floats("x")], [floats("y")], {"one": np.array([1])})
    assert rewritten(made, {"x": np.array(2.5, np.float32)})[0] == {"reshapes": 1}


def test_tables_of_different_height_are_looked_up_apart() -> None:
    nodes = [
        node("Gather", ["table", "ids"], ["a"]),
        node("Gather", ["taller", "ids"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    weights = {"table": random(10, 8), "taller": random(20, 8)}
    made = model(nodes, [ints("ids", "n")], [floats("y", "n", 8)], weights)
    assert rewritten(made, {"ids": np.arange(5)})[0] == {}


def test_a_row_that_is_looked_up_by_a_number_has_one_dimension() -> None:
    """Nobody knows so, behind a branch: the constant of two dimensions gives its answer two."""
    branches = {
        f"{name}_branch": helper.make_graph([node("Identity", ["id"], [name])], name, [], [ints(name)])
        for name in ("then", "else")
    }
    nodes = [
        node("If", ["which"], ["chosen"], **branches),
        node("Gather", ["table", "chosen"], ["row"]),
        node("Add", ["row", "bias"], ["y"]),
    ]
    which = helper.make_tensor_value_info("which", TensorProto.BOOL, [])
    made = model(nodes, [ints("id"), which], [floats("y", 1, 8)], {"table": random(10, 8), "bias": random(1, 8)})
    assert rewritten(made, {"id": np.array(3), "which": np.array(True)})[0] == {}


def test_one_hot_rows_before_there_was_a_where_stay() -> None:
    nodes = [
        node("Equal", ["x", "numbers"], ["same"]),
        node("Cast", ["same"], ["hot"], to=TensorProto.FLOAT),
        node("MatMul", ["hot", "table"], ["y"]),
    ]
    weights = {"numbers": np.arange(5).reshape(1, 5), "table": random(5, 3)}
    made = model(nodes, [ints("x", "n", 1)], [floats("y", "n", 3)], weights)
    made.opset_import[0].version = 8
    assert rewritten(made, {"x": np.array([[1], [4]])})[0] == {}


@pytest.mark.parametrize(("axes", "shape"), [([-2, -1], (8, 1, 1)), ([1, 0], (1, 1, 8)), ([1, 2], (8, 1, 1))])
def test_axes_of_an_old_opset(axes: list[int], shape: tuple[int, ...]) -> None:
    nodes = [
        node("Sqrt", ["f"], ["r"]),
        node("Unsqueeze", ["r"], ["u"], axes=axes),
        node("Mul", ["x", "u"], ["y"]),
    ]
    weights = {"f": RNG.uniform(1, 4, 8).astype(np.float32)}
    made = model(nodes, [floats("x", *shape)], [floats("y", None, None, None)], weights)
    made.opset_import[0].version = 11
    assert rewritten(made, {"x": random(*shape)})[0] == {"folded": 2 if axes == [1, 2] else 1}


def test_what_a_transpose_gives_has_another_rank_under_another_name() -> None:
    nodes = [
        node("Unsqueeze", ["x", "axes"], ["wide"]),
        node("Transpose", ["wide"], ["turned"], perm=[0, 2, 3, 1, 4]),
        node("Reshape", ["turned", "flat"], ["y"]),
    ]
    weights = {"axes": np.array([1, 4]), "flat": np.array([-1, 24])}
    made = model(nodes, [floats("x", "n", 4, 6)], [floats("y", None, 24)], weights)
    made.graph.value_info.append(floats("turned", "n", 4, 6, 1, 1))
    before = {"x": random(2, 4, 6)}
    assert rewritten(made, before, names=["transposes"])[0] == {"transposes": 1}
    onnx.checker.check_model(made, full_check=True)
    assert "turned" not in {name for made_by in made.graph.node for name in made_by.output}


def test_where_there_are_no_samples_shapes_are_what_they_were() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "two"], ["leading"]),
        node("Concat", ["leading", "heads"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    weights = {"two": np.array([0, 1]), "heads": np.array([4, 8])}
    made = model(nodes, [floats("x", "n", "t", 32)], [floats("y", None, None, 4, 8)], weights)
    feeds = [{"x": np.zeros(shape, np.float32)} for shape in ((2, 3, 32), (0, 3, 32), (2, 0, 32), (0, 0, 32))]
    assert rewritten(made, *feeds)[0] == {"reshapes": 1}


def test_a_bias_before_a_reshape_that_allows_zero() -> None:
    nodes = [
        node("MatMul", ["x", "m"], ["p"]),
        node("Reshape", ["p", "to"], ["r"], allowzero=1),
        node("Add", ["r", "bias"], ["y"]),
    ]
    weights = {"m": random(4, 8), "to": np.array([4, 0, 8]), "bias": random(8)}
    made = model(nodes, [floats("x", "n", 4)], [floats("y", None, None, None)], weights)
    assert rewritten(made, {"x": np.zeros((0, 4), np.float32)})[0] == {"biases": 1}


def test_statistics_of_a_norm_have_no_channels() -> None:
    """A norm that trains gives its running mean too, behind a convolution, and of one dimension."""
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"]),
        node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n", "mean", "var"], training_mode=1),
        node("Mul", ["mean", "f"], ["1"]),
        node("Add", ["1", "h"], ["stays"]),
        node("Relu", ["n"], ["y"]),
    ]
    ones = {name: np.ones(8, np.float32) for name in ("g", "m", "v")}
    weights = WEIGHTS | ones | {"f": np.array(0.9, np.float32), "h": np.array(0.1, np.float32)}
    made = model(nodes, [floats("x", "n", 4, 6, 6)], [floats("y", None, 8, 4, 4), floats("stays", 8)], weights)
    assert rewrite(made, ["one_convolution"])["one_convolution"] == 0


@pytest.mark.parametrize(("slope", "done"), [(-0.5, {"prelu": 1}), (-9.0, {})])
def test_a_slope_far_below_zero_stays(slope: float, done: dict[str, int]) -> None:
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"]),
        node("PRelu", ["c", "s"], ["p"]),
        node("MaxPool", ["p"], ["y"], kernel_shape=[2, 2]),
    ]
    weights = WEIGHTS | {"s": np.full((8, 1, 1), slope, np.float32)}
    made = model(nodes, [floats("x", "n", 4, "h", "w")], [floats("y", None, None, None, None)], weights)
    assert rewritten(made, {"x": random(2, 4, 6, 6)})[0] == done


def test_operators_of_others_are_not_looked_at() -> None:
    """Whatever they are called, and whatever they take and give."""
    odd = [
        node("Add", ["x", "x", "x"], ["a"], domain="custom"),
        node("Mul", [], ["b"], domain="custom"),
        node("Einsum", ["x", "x"], ["c"], domain="custom"),
        node("Tanh", ["x"], ["d", "e"], domain="custom"),
        node("Transpose", ["a"], [], domain="custom"),
        node("Conv", ["b"], ["f"], domain="custom"),
        node("Concat", ["a", "b", "c", "d", "e", "f"], ["y"], domain="custom"),
    ]
    made = model(odd, [floats("x", "n", 4)], [floats("y", None)], domains=("custom",))
    before = made.SerializeToString()
    assert not any(rewrite(made, list(REWRITES)).values())
    assert made.SerializeToString() == before


def test_products_in_products_are_not_followed_for_ever() -> None:
    squares = [node("Mul", [f"v{place}", f"v{place}"], [f"v{place + 1}"]) for place in range(40)]
    nodes = [node("Identity", ["x"], ["v0"]), *squares, node("Tanh", ["v40"], ["t"]), node("Add", ["t", "x"], ["y"])]
    made = model(nodes, [floats("x", "n", 4)], [floats("y", "n", 4)])
    assert rewritten(made, {"x": random(2, 4)})[0] == {}


def test_a_layer_norm_that_loses_rows_far_from_zero_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rewritten(model(of_tensorflow(), *NORM_IO, NORM), X)[0] == {"layer_norm": 1}
    monkeypatch.setattr(ort, "__version__", "1.26.0")
    assert rewritten(model(of_tensorflow(), *NORM_IO, NORM), X)[0] == {}
