"""Sizes that are not what they look like, and numbers that are none: no rewrite answers otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.unit.backends.rewriting import rewritten
from tests.unit.backends.small import floats, ints, model, node
from tests.unit.backends.test_odd_graphs import WEIGHTS, random

ROWS = {"place": np.array([0]), "one": np.array([1])}
SWISH = {name: np.array(value, np.float32) for name, value in (("three", [3]), ("zero", 0), ("six", 6), ("sixth", [6]))}


@pytest.mark.parametrize(
    ("equation", "taken", "weights", "shape", "done"),
    [
        ("ab,bc->ac", ("n", 6), (6, 5), (3, 6), {"einsum": 1}),
        ("ab,bc->ac", ("n", "k"), (6, 5), (12, 1), {}),  # a size of 1 meets all of the other's
        ("abd,dc->abc", ("n", 2, 1), (6, 5), (3, 2, 1), {}),
        ("ab,bc->ac", ("n", 6), (1, 5), (3, 6), {}),
        ("ab,bc->ac", ("n", 0), (0, 5), (3, 0), {}),
    ],
)
def test_an_einsum_sums_over_what_both_have(
    equation: str, taken: tuple[str | int, ...], weights: tuple[int, ...], shape: tuple[int, ...], done: dict[str, int]
) -> None:
    made = model(
        [node("Einsum", ["x", "w"], ["y"], equation=equation)],
        [floats("x", *taken)],
        [floats("y", *[None] * len(taken))],
        {"w": random(*weights)},
    )
    assert rewritten(made, {"x": random(*shape)}, names=["einsum"])[0] == done


@pytest.mark.parametrize("opset", [10, 11, 13])
def test_what_is_cut_has_another_size(opset: int) -> None:
    """Also at opset 10, where ONNX leaves a free size its name."""
    nodes = [
        node("Slice", ["x", "place", "one", "place"], ["a"]),
        node("Shape", ["x"], ["s"]),
        node("Expand", ["a", "s"], ["y"]),
    ]
    made = model(nodes, [floats("x", "n", 4)], [floats("y", None, None)], ROWS)
    made.opset_import[0].version = opset
    assert rewritten(made, {"x": random(3, 4)}, names=["reshapes"])[0] == {}


@pytest.mark.parametrize(("size", "kernel", "pads"), [(6, 1, [0] * 4), (24, 2, [0, 0, 1, 1]), (7, 2, [0] * 4)])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_a_pool_that_rounds_up_leaves_out_a_window_behind_the_data(
    kind: str, size: int, kernel: int, pads: list[int]
) -> None:
    nodes = [
        node(kind, ["x"], ["p"], kernel_shape=[kernel, kernel], strides=[2, 2], ceil_mode=1, pads=pads),
        node("Shape", ["p"], ["s"]),
        node("Slice", ["s", "three", "four"], ["columns"]),
        node("Concat", ["all", "columns"], ["t"], axis=0),
        node("Reshape", ["p", "t"], ["y"]),
    ]
    numbers = {"three": np.array([3]), "four": np.array([4]), "all": np.array([-1])}
    made = model(nodes, [floats("x", "n", 4, size, size)], [floats("y", None, None)], numbers)
    assert rewritten(made, {"x": random(2, 4, size, size)}, names=["reshapes"])[0] == {"reshapes": 1}


@pytest.mark.parametrize(("size", "more"), [("h", {}), (6, {"auto_pad": "VALID"})])
def test_what_a_pool_rounds_up_to_is_not_known_of_every_size(size: str | int, more: dict[str, str]) -> None:
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1, **more),
        node("Shape", ["p"], ["s"]),
        node("Expand", ["one", "s"], ["y"]),
    ]
    made = model(nodes, [floats("x", 2, 4, size, size)], [floats("y", *[None] * 4)], {"one": np.ones(1, np.float32)})
    assert rewritten(made, {"x": random(2, 4, 6, 6)}, names=["reshapes"])[0] == {}


@pytest.mark.parametrize("shape", [(), (4,)])
def test_a_number_that_meets_a_row_of_one_becomes_one(shape: tuple[int, ...]) -> None:
    nodes = [
        node("Add", ["x", "three"], ["a"]),
        node("Clip", ["a", "zero", "six"], ["c"]),
        node("Mul", ["x", "c"], ["p"]),
        node("Div", ["p", "sixth"], ["y"]),
    ]
    made = model(nodes, [floats("x", *shape)], [floats("y", None)], SWISH)
    assert rewritten(made, {"x": random(*shape)}, names=["hard_swish"])[0] == ({"hard_swish": 1} if shape else {})


def test_a_table_with_infinite_rows_is_no_table() -> None:
    nodes = [
        node("Equal", ["x", "numbers"], ["same"]),
        node("Cast", ["same"], ["hot"], to=1),
        node("MatMul", ["hot", "table"], ["y"]),
    ]
    table = random(5, 3)
    table[2, 1] = np.inf
    made = model(nodes, [ints("x", "n", 1)], [floats("y", None, None)], {"table": table, "numbers": np.arange(5)})
    assert rewritten(made, {"x": np.array([[1], [3]])}, names=["one_hot"])[0] == {}


@pytest.mark.parametrize(
    ("kind", "factor", "done"),
    [("Mul", np.inf, {}), ("Mul", 1e37, {}), ("Div", 1e-45, {}), ("Div", 2.0, {"into_conv": 1})],
)
def test_a_factor_that_no_weight_can_hold_stays(kind: str, factor: float, done: dict[str, int]) -> None:
    nodes = [node("Conv", ["x", "w", "b"], ["c"]), node(kind, ["c", "k"], ["y"])]
    weights = WEIGHTS | {"k": np.array(factor, np.float32)}
    made = model(nodes, [floats("x", "n", 4, "h", "w")], [floats("y", *[None] * 4)], weights)
    assert rewritten(made, {"x": random(1, 4, 6, 6)}, names=["into_conv"])[0] == done


@pytest.mark.parametrize("theirs", ["Add", "Mul", "Div"])
def test_operators_of_others_are_no_part_of_what_is_looked_for(theirs: str) -> None:
    """They have the names of ONNX's own, and do something else."""
    nodes = [
        node("Add", ["x", "three"], ["a"]),
        node("Clip", ["a", "zero", "six"], ["c"]),
        node("Mul", ["x", "c"], ["p"]),
        node("Div", ["p", "six"], ["y"]),
    ]
    for entry in nodes:
        entry.domain = "custom" if entry.op_type == theirs else ""
    made = model(nodes, [floats("x", "n", 4)], [floats("y", None, None)], SWISH, domains=("custom",))
    body = [node("Sum", ["a", "b"], ["t"]), node("Neg", ["t"], ["y"])]
    made.functions.append(
        helper.make_function("custom", theirs, ["a", "b"], ["y"], body, [helper.make_opsetid("", 18)])
    )
    expected = {"hard_swish": 1} if theirs == "Div" else {}
    assert rewritten(made, {"x": random(2, 4)}, names=["hard_swish"])[0] == expected
