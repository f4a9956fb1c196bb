"""Shapes that are known before a run are constants, and what changes nothing is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from artifactctl.backends.sizes import ONE, Shapes, Size, as_target
from artifactctl.backends.view import View
from tests.unit.backends.rewriting import rewritten
from tests.unit.backends.small import floats, model, node

RNG = np.random.default_rng(5)
N, M = Size(1, ("n",)), Size(1, ("m",))


def whole(**numbers: list[int] | int) -> dict[str, np.ndarray]:
    return {name: np.array(value, np.int64) for name, value in numbers.items()}


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def batches(*shape: int, name: str = "x") -> list[dict[str, np.ndarray]]:
    """Of one, two and five rows."""
    return [{name: random(rows, *shape)} for rows in (1, 2, 5)]


def test_sizes_multiply_and_divide() -> None:
    assert Size(8).times(N) == N.times(Size(8)) == Size(8, ("n",))
    assert N.times(M) == M.times(N)
    assert Size(8, ("n",)).over(N) == Size(8)
    assert Size(8, ("n",)).over(Size(4)) == Size(2, ("n",))
    assert [Size(8).over(other) for other in (Size(3), N, Size(0))] == [None] * 3
    assert (ONE.number, N.number) == (1, None)


@pytest.mark.parametrize(
    ("after", "before", "target"),
    [
        ([Size(2), Size(3)], [Size(6)], [2, 3]),
        ([N, Size(3)], [Size(3, ("n",))], [-1, 3]),
        ([N, M], [N, M, ONE], [0, 0]),
        ([N, Size(4), Size(8)], [N, Size(32)], [0, 4, 8]),  # also where n is 0
        ([N, Size(8, ("m",)), Size(4)], [N, M, Size(32)], None),  # a 0 that is none leaves nothing to work out
        ([Size(2), Size(8, ("m",)), Size(4)], [Size(2), M, Size(32)], [2, -1, 4]),
        ([N, M], [Size(1, ("m", "n"))], None),
        ([N, Size(0)], [N, Size(0), ONE], None),
    ],
)
def test_the_constant_that_reshapes_in_every_run(
    after: list[Size], before: list[Size], target: list[int] | None
) -> None:
    assert as_target(after, before) == target


def shape_computed(*last: str) -> list[onnx.NodeProto]:
    """As TensorFlow's exporter writes x.reshape(batch * 4, …): from the product of what a shape says."""
    return [
        node("Shape", ["x"], ["s"]),
        node("Cast", ["s"], ["s32"], to=onnx.TensorProto.INT32),
        node("Gather", ["s32", "first"], ["some"]),
        node("ReduceProd", ["some"], ["count"], keepdims=1),
        node("Concat", ["count", *last], ["t32"], axis=0),
        node("Cast", ["t32"], ["t"], to=onnx.TensorProto.INT64),
        node("Reshape", ["x", "t"], ["y"]),
    ]


def test_a_shape_that_is_computed_at_every_run_is_a_constant() -> None:
    weights = {"six": np.array([6], np.int32), **whole(first=[0, 1])}
    made = model(shape_computed("six"), [floats("x", "n", 4, 6)], [floats("y", None, None)], weights)
    assert rewritten(made, *batches(4, 6)) == ({"reshapes": 1}, {"Reshape": 1})


def test_two_free_sizes_that_stand_apart_stay_computed() -> None:
    weights = {"six": np.array([6], np.int32), **whole(first=[0, 1])}
    made = model(shape_computed("six"), [floats("x", "n", "m", 6)], [floats("y", None, None)], weights)
    done, left = rewritten(made, {"x": random(2, 3, 6)}, {"x": random(1, 5, 6)})
    assert (done, left["Reshape"]) == ({"reshapes": 1}, 1)  # [n, m, 6] as [n · m, 6]: one size is worked out
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "first"], ["some"]),
        node("Concat", ["four", "some"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    apart = model(nodes, [floats("x", "n", "m", 4)], [floats("y", None, None, None)], whole(first=[0, 1], four=[4]))
    done, left = rewritten(apart, {"x": random(2, 3, 4)})
    assert (done, left["Shape"]) == ({}, 1)


def test_sizes_of_one_name_may_differ() -> None:
    """ONNX Runtime does not hold two inputs to it."""
    nodes = [node("Shape", ["b"], ["s"]), node("Reshape", ["a", "s"], ["y"])]
    made = model(nodes, [floats("a", "n", "m"), floats("b", "n", "m")], [floats("y", None, None)])
    assert rewritten(made, {"a": random(2, 6), "b": random(3, 4)})[0] == {}


@pytest.mark.parametrize("last", ["Squeeze", "Flatten"])
def test_several_reshapes_are_one(last: str) -> None:
    inputs, more = (["b", "third"], {}) if last == "Squeeze" else (["b"], {"axis": 1})
    nodes = [
        node("Reshape", ["x", "flat"], ["a"]),
        node("Unsqueeze", ["a", "third"], ["b"]),
        node(last, inputs, ["c"], **more),
        node("Relu", ["c"], ["y"]),
    ]
    made = model(nodes, [floats("x", "n", 4, 6)], [floats("y", None, None)], whole(flat=[-1, 24], third=[2]))
    assert rewritten(made, *batches(4, 6)) == ({"reshapes": 2}, {"Reshape": 1, "Relu": 1})


def test_a_way_there_and_back_is_none() -> None:
    nodes = [
        node("Unsqueeze", ["x", "third"], ["a"]),
        node("Squeeze", ["a", "third"], ["b"]),
        node("Relu", ["b"], ["y"]),
    ]
    made = model(nodes, [floats("x", "n", 4)], [floats("y", None, None)], whole(third=[2]))
    assert rewritten(made, *batches(4)) == ({"reshapes": 1}, {"Relu": 1})


def test_an_output_that_changes_nothing_keeps_its_name() -> None:
    made = model(
        [node("Expand", ["x", "one"], ["y"])], [floats("x", "n", 4)], [floats("y", None, None)], whole(one=[1])
    )
    assert rewritten(made, *batches(4)) == ({"reshapes": 1}, {"Identity": 1})


@pytest.mark.parametrize(
    ("starts", "ends", "steps", "left"),
    [
        ([0, 0], [2**31 - 1, 4], [1, 1], 0),
        ([0, 0], [10**9, 9], [1, 1], 0),
        ([0, 0], [5, 4], [1, 1], 1),  # the first size is free
        ([0, 1], [2**31 - 1, 4], [1, 1], 1),
        ([0, 0], [2**31 - 1, 3], [1, 1], 1),
        ([0, 0], [2**31 - 1, 4], [1, 2], 1),
        ([-1, -1], [-(2**31), -(2**31)], [-1, -1], 1),
    ],
)
def test_a_slice_of_everything(starts: list[int], ends: list[int], steps: list[int], left: int) -> None:
    nodes = [node("Slice", ["x", "starts", "ends", "axes", "steps"], ["a"]), node("Relu", ["a"], ["y"])]
    weights = whole(starts=starts, ends=ends, axes=[0, 1], steps=steps)
    made = model(nodes, [floats("x", "n", 4)], [floats("y", None, None)], weights)
    assert rewritten(made, *batches(4))[1]["Slice"] == left


def test_a_dimension_of_one_around_a_transpose() -> None:
    nodes = [
        node("Unsqueeze", ["x", "axes"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[0, 3, 2, 1, 4]),
        node("Reshape", ["b", "flat"], ["y"]),
    ]
    inputs, outputs = [floats("x", "n", 4, 6)], [floats("y", None, None)]
    done, left = rewritten(model(nodes, inputs, outputs, whole(axes=[1, -1], flat=[-1, 4])), *batches(4, 6))
    assert (done, left) == ({"transposes": 1}, {"Transpose": 1, "Reshape": 1})
    counted = model(nodes, inputs, outputs, whole(axes=[1, -1], flat=[0, -1]))  # a 0 counts dimensions
    assert rewritten(counted, *batches(4, 6))[1]["Unsqueeze"] == 1


def dense(target: str, **more: Any) -> onnx.NodeProto:
    return node("Gemm", ["x", "w"], [target], **more)


@pytest.mark.parametrize("product", [dense("p"), dense("p", transB=1, alpha=0.5), node("MatMul", ["x", "w"], ["p"])])
@pytest.mark.parametrize("bias", [(2, 3), (1, 1, 3), (1,), ()])
def test_what_is_added_behind_a_reshape_is_a_bias(product: onnx.NodeProto, bias: tuple[int, ...]) -> None:
    nodes = [product, node("Reshape", ["p", "t"], ["r"]), node("Add", ["bias", "r"], ["y"])]
    weights = {"w": random(6, 6), "bias": random(*bias), **whole(t=[-1, 2, 3])}
    made = model(nodes, [floats("x", "n", 6)], [floats("y", None, None, None)], weights)
    assert rewritten(made, *batches(6)) == ({"biases": 1}, {"Gemm": 1, "Reshape": 1})


@pytest.mark.parametrize("bias", [(3, 1, 1), (2, 1, 1, 1)])
def test_what_differs_by_row_is_no_bias(bias: tuple[int, ...]) -> None:
    nodes = [dense("p"), node("Reshape", ["p", "t"], ["r"]), node("Add", ["r", "bias"], ["y"])]
    weights = {"w": random(6, 6), "bias": random(*bias), **whole(t=[-1, 2, 3])}
    made = model(nodes, [floats("x", "n", 6)], [floats("y", *[None] * max(3, len(bias)))], weights)
    assert rewritten(made, {"x": random(3, 6)})[0] == {}


@pytest.mark.parametrize(
    ("equation", "rank", "weights", "changed"),
    [
        ("abc,cd->abd", 3, (6, 5), True),
        ("abcd,cde->abe", 4, (4, 6, 5), True),
        ("abc,cde->abde", 3, (6, 2, 5), True),
        ("abc,dc->abd", 3, (5, 6), False),
        ("abc,bcd->acd", 3, (4, 6, 5), False),
        ("aab,bc->ac", 3, (6, 5), False),
    ],
)
def test_a_layer_as_einsum_is_a_product(equation: str, rank: int, weights: tuple[int, ...], changed: bool) -> None:
    shape = (3, 4, 6) if rank == 4 else (4, 6) if not equation.startswith("aa") else (1, 6)
    left = equation.partition("->")[2]
    made = model(
        [node("Einsum", ["x", "w"], ["y"], equation=equation)],
        [floats("x", "n", *shape)],
        [floats("y", *[None] * len(left))],
        {"w": random(*weights)},
    )
    done, _ = rewritten(made, *(batches(*shape) if not equation.startswith("aa") else batches(*shape)[:1]))
    assert bool(done.get("einsum")) is changed


def test_what_the_shapes_of_a_graph_are() -> None:
    nodes = [
        node("Reshape", ["x", "t"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[0, 2, 1]),
        node("NonZero", ["b"], ["c"]),
        node("Own", ["b"], ["d"], domain="somebody"),
    ]
    made = model(nodes, [floats("x", "n", 24)], [floats("b", None, None, None)], whole(t=[-1, 2, 6]), ("somebody",))
    shapes = Shapes(View(made))
    free = shapes.shapes["x"][0]
    assert shapes.shape("b") == (free.times(Size(2)), Size(6), Size(2))
    assert shapes.shape("t") == (Size(3),)
    assert shapes.shape("d") is None
    rank, count = shapes.shape("c") or ()
    assert rank == Size(3)
    assert count not in shapes.shapes["b"]


def test_numbers_in_two_dimensions_are_nobodys_shape() -> None:
    """Pads, as PyTorch's exporter writes them: taken row by row, not one by one."""
    nodes = [
        node("Reshape", ["pairs", "two"], ["table"]),
        node("Gather", ["table", "second"], ["row"], axis=0),
        node("Reshape", ["x", "row"], ["y"]),
    ]
    weights = whole(pairs=[4, 3, 6, 2], two=[-1, 2], second=1)
    made = model(nodes, [floats("x", "n", 4)], [floats("y", None, None)], weights)
    rewritten(made, {"x": random(3, 4)})


def test_what_an_inner_graph_makes_is_not_known() -> None:
    body = onnx.helper.make_graph([node("Relu", ["x"], ["inner"])], "body", [], [floats("inner", 7, 7)])
    branch = node("If", ["which"], ["a"], then_branch=body, else_branch=body)
    which = onnx.helper.make_tensor_value_info("which", onnx.TensorProto.BOOL, [])
    made = model([branch], [which, floats("x", "n", 4)], [floats("a", None, None)])
    assert Shapes(View(made)).shape("a") is None


@pytest.mark.parametrize("between", [True, False])
def test_scores_that_are_turned_are_made_turned(between: bool) -> None:
    nodes = [
        node("Transpose", ["b"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["a", "t"], ["p"]),
        *([node("Reshape", ["p", "apart"], ["r"])] if between else []),
        node("Transpose", ["r" if between else "p"], ["y"], perm=[0, 1, 3, 2] if between else [0, 2, 1]),
    ]
    rank = 4 if between else 3
    inputs = [floats("a", "n", 5, 6), floats("b", "m", 7, 6)]
    made = model(nodes, inputs, [floats("y", *[None] * rank)], whole(apart=[-1, 2, 5, 7]))
    done, left = rewritten(made, {"a": random(4, 5, 6), "b": random(4, 7, 6)})
    assert (done["scores"], left["Transpose"]) == (1, 1)


def test_scores_that_somebody_takes_as_they_are_stay() -> None:
    nodes = [
        node("Transpose", ["b"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["a", "t"], ["p"]),
        node("Transpose", ["p"], ["y"], perm=[0, 2, 1]),
    ]
    inputs = [floats("a", "n", 5, 6), floats("b", "n", 7, 6)]
    outputs = [floats("y", None, None, None), floats("p", None, None, None)]
    feeds = {"a": random(4, 5, 6), "b": random(4, 7, 6)}
    assert "scores" not in rewritten(model(nodes, inputs, outputs), feeds)[0]
    nodes[:2] = [node("MatMul", ["a", "u"], ["p"])]
    made = model(nodes, [inputs[0], floats("u", "n", 6, 7)], outputs[:1])  # nothing would be saved
    assert "scores" not in rewritten(made, {"a": feeds["a"], "u": random(4, 6, 7)})[0]


def numbered(*nodes: onnx.NodeProto, shape: tuple[int | str, ...] = ("n", 5)) -> onnx.ModelProto:
    weights = {"two": np.array([2.5], np.float32), "three": np.array(3, np.float32), **whole(last=[-1], flat=[0, 5, 1])}
    return model([*nodes], [floats("x", *shape)], [floats("y", *[None] * (len(shape) + 1))], weights)


@pytest.mark.parametrize("apart", [node("Unsqueeze", ["x", "last"], ["u"]), node("Reshape", ["x", "flat"], ["u"])])
def test_numbers_meet_values_before_they_are_rows_of_one(apart: onnx.NodeProto) -> None:
    made = numbered(apart, node("Mul", ["u", "two"], ["m"]), node("Sub", ["three", "m"], ["y"]))
    assert rewritten(made, *batches(5))[0] == {"numbers": 2}
    assert [entry.op_type for entry in made.graph.node] == ["Mul", "Sub", apart.op_type]


def test_a_number_of_a_dimension_more_than_its_value_stays() -> None:
    made = numbered(node("Squeeze", ["x"], ["s"]), node("Mul", ["s", "two"], ["y"]), shape=("n",))
    del made.graph.output[0].type.tensor_type.shape.dim[:]
    made.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 1
    assert rewritten(made, {"x": random(1)})[0] == {}


def test_numbers_stay_where_rows_are_longer_or_others_see_the_value() -> None:
    first = numbered(node("Unsqueeze", ["x", "zero"], ["u"]), node("Mul", ["u", "two"], ["y"]))
    first.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0], np.int64), "zero"))
    assert rewritten(first, *batches(5))[0] == {}
    apart = node("Unsqueeze", ["x", "last"], ["u"])
    both = numbered(apart, node("Mul", ["u", "two"], ["m"]), node("Add", ["u", "m"], ["y"]))
    assert rewritten(both, *batches(5))[0] == {}


def test_what_follows_a_value_of_unknown_type_is_not_known() -> None:
    """As behind an If: what its branches give is not looked at."""
    bodies = {
        f"{name}_branch": onnx.helper.make_graph([node("Neg", ["x"], [name])], name, [], [floats(name, None, None)])
        for name in ("then", "else")
    }
    nodes = [node("If", ["which"], ["z"], **bodies), node("Unsqueeze", ["z", "last"], ["y"])]
    which = onnx.helper.make_tensor_value_info("which", onnx.TensorProto.BOOL, [])
    made = model(nodes, [floats("x", "n", 5), which], [floats("y", None, None, None)], whole(last=[-1]))
    assert rewritten(made, {"x": random(2, 5), "which": np.array(True)})[0] == {}
