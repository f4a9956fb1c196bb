from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto

from artifactctl.backends.consumers import Consumers, describe_input
from tests.conftest import MODELS

from .small import floats, ints, model, node

TABLE = np.zeros((20, 8), np.float32)


def limit(*nodes: NodeProto, **weights: np.ndarray) -> int | None:
    made = model(list(nodes), [ints("ids", "n")], [floats("y", "n", 8)], {"table": TABLE} | weights)
    found = Consumers(made).integer_limit("ids")
    return found[0] if found else None


def lookup(used: str = "ids", table: str = "table", **attributes: Any) -> NodeProto:
    return node("Gather", [table, used], ["y"], **attributes)


def test_an_index_stays_inside_its_table() -> None:
    found = Consumers(onnx.load_model(str(MODELS / "tokens.onnx"))).integer_limit("ids")
    assert found == (19, "index into 'table' with 20 rows")


def test_the_axis_decides() -> None:
    assert limit(lookup(axis=1)) == 7
    assert limit(lookup(axis=-1)) == 7
    assert limit(lookup(axis=-2)) == 19


def test_through_operators_that_hand_values_on() -> None:
    cast = node("Cast", ["ids"], ["small"], to=onnx.TensorProto.INT32)
    assert limit(cast, node("Unsqueeze", ["small", "at"], ["wide"]), lookup("wide"), at=np.array([0])) == 19


def test_not_through_operators_that_change_values() -> None:
    assert limit(node("Add", ["ids", "ids"], ["twice"]), lookup("twice")) is None


def test_the_smallest_of_several_tables() -> None:
    assert limit(lookup(), lookup(table="types"), types=np.zeros((2, 8), np.float32)) == 1


def test_a_table_that_is_a_constant_node() -> None:
    value = onnx.numpy_helper.from_array(np.zeros((5, 8), np.float32))
    assert limit(node("Constant", [], ["inner"], value=value), lookup(table="inner")) == 4


def test_one_hot() -> None:
    assert limit(node("OneHot", ["ids", "depth", "pair"], ["y"]), depth=np.array([6]), pair=np.array([0, 1])) == 5


def test_the_table_itself_is_no_index() -> None:
    made = model([lookup("at", "ids")], [ints("ids", "n")], [ints("y")], {"at": np.array(0)})
    assert Consumers(made).integer_limit("ids") is None


def test_constants_that_an_input_is_compared_with() -> None:
    nodes = [node("Equal", ["rate", "high"], ["a"]), node("Greater", ["low", "rate"], ["b"])]
    weights = {"high": np.array(16000), "low": np.array([8000]), "floats": np.array(1.5, np.float32)}
    made = model(nodes, [ints("rate")], [floats("a"), floats("b")], weights)
    consumers = Consumers(made)
    assert consumers.compared_values("rate") == [8000, 16000]
    described = describe_input({"name": "rate", "dtype": "int64", "shape": []}, consumers)
    assert described["fill"] == "values"
    assert {7999, 8000, 8001, 15999, 16000, 16001} <= set(described["values"])


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "expected"),
    [
        ("x", "float32", ["n"], {"fill": "float"}),
        ("x", "string", ["n"], {"fill": "string"}),
        ("x", "bool", ["n"], {"fill": "bool"}),
        ("x", "complex64", ["n"], {"fill": "complex"}),
        ("attention_mask", "int64", ["n", 5], {"fill": "mask"}),
        ("attention_mask", "float32", ["n", 5], {"fill": "mask"}),
        ("image", "uint8", ["n", 5], {"fill": "range", "range": [0, 255]}),
        ("image", "int8", ["n", 5], {"fill": "range", "range": [-128, 127]}),
        ("token_type_ids", "int64", ["n", 5], {"fill": "range", "range": [0, 1]}),
        ("count", "int64", [], {"fill": "range", "range": [0, 9]}),
    ],
)
def test_by_type_and_name(name: str, dtype: str, shape: list[Any], expected: dict[str, Any]) -> None:
    consumers = Consumers(model([], [], []))
    found = describe_input({"name": name, "dtype": dtype, "shape": shape}, consumers)
    assert expected.items() <= found.items()
    assert found["why"]
