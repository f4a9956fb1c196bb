from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from artifactctl.backends.consumers import GUESSED, Consumers, describe_input
from tests.conftest import MODELS

from .small import floats, ints, model, node
from .test_ranges import TABLE, Case, describe, draw, inputs_of, lookup, open_model, tensor

I64 = TensorProto.INT64


def test_a_place_in_a_sequence() -> None:
    items = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    made = model([node("SequenceAt", ["s", "ids"], ["y"])], [items, ints("ids")], [floats("y", 2)])
    assert describe(made, "ids")["range"] == [0, 0]
    open_model(made).run(None, draw(inputs_of(made), 0))


def test_not_through_operators_that_change_values() -> None:
    made = Case("", [node("Add", ["ids", "ids"], ["twice"]), lookup("twice")], None).make()
    assert describe(made, "ids")["why"] == GUESSED


def test_the_table_itself_is_no_index() -> None:
    made = model([lookup("at", "ids")], [ints("ids", "n")], [ints("y")], {"at": np.array(0)})
    assert describe(made, "ids")["why"] == GUESSED


def test_a_namesake_of_another_domain_says_nothing() -> None:
    made = model(
        [node("Gather", ["table", "ids"], ["y"], domain="other")], [ints("ids", "n")], [floats("y")], {"table": TABLE}
    )
    assert describe(made, "ids")["why"] == GUESSED


def test_an_unsigned_type_gets_no_negative_numbers() -> None:
    nodes = [node("Cast", ["ids"], ["s"], to=I64), node("Add", ["s", "c"], ["t"]), lookup("t")]
    made = Case("", nodes, None, tensor("ids", TensorProto.UINT8, 4), weights={"c": 2}).make()
    assert describe(made, "ids")["range"] == [0, 17]


def test_the_reason_names_the_table() -> None:
    found = describe(onnx.load_model(str(MODELS / "tokens.onnx")), "ids")
    assert (found["range"], found["why"]) == ([0, 19], "index into 'table' with 20 rows")


def test_tables_whose_data_are_elsewhere() -> None:
    made = Case("", [lookup()], None).make()
    stored = next(item for item in made.graph.initializer if item.name == "table")
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    assert describe(made, "ids")["range"] == [0, 19]


def test_an_axis_far_outside_does_not_end_the_process() -> None:
    """onnx's own inference reads past its arrays there."""
    normal = node("LayerNormalization", ["x", "w"], ["z"], axis=10**18)
    made = model([lookup(), normal], [ints("ids", "n"), floats("x", 3, 4)], [floats("y")], {"table": TABLE, "w": TABLE})
    assert describe(made, "ids")["range"] == [0, 19]


def test_constants_that_an_input_is_compared_with() -> None:
    nodes = [node("Equal", ["rate", "high"], ["a"]), node("Greater", ["low", "rate"], ["b"])]
    weights = {"high": np.array(16000), "low": np.array([8000]), "floats": np.array(1.5, np.float32)}
    made = model(nodes, [ints("rate")], [floats("a"), floats("b")], weights)
    assert Consumers(made).compared_values("rate") == [8000, 16000]
    described = describe(made, "rate")
    assert described["fill"] == "values"
    assert {7999, 8000, 8001, 15999, 16000, 16001} <= set(described["values"])


def test_a_mask_that_is_used_as_an_index_is_no_mask() -> None:
    made = model([lookup("masked_positions")], [ints("masked_positions", "n", 5)], [floats("y")], {"table": TABLE})
    assert describe(made, "masked_positions")["range"] == [0, 19]


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "expected"),
    [
        ("x", "float32", ["n"], {"fill": "float"}),
        ("x", "bfloat16", ["n"], {"fill": "float"}),
        ("x", "string", ["n"], {"fill": "string"}),
        ("x", "bool", ["n"], {"fill": "bool"}),
        ("x", "complex64", ["n"], {"fill": "complex"}),
        ("attention_mask", "int64", ["n", 5], {"fill": "mask"}),
        ("attention_mask", "float32", ["n", 5], {"fill": "mask"}),
        ("attention_mask", "bool", ["n", 5], {"fill": "mask"}),
        ("attention_mask", "bool", ["n"], {"fill": "bool"}),
        ("attention_mask", "int64", ["n"], {"fill": "range"}),
        ("image", "uint8", ["n", 5], {"fill": "range", "range": [0, 255]}),
        ("image", "int8", ["n", 5], {"fill": "range", "range": [-128, 127]}),
        ("x", "uint4", ["n", 5], {"fill": "range", "range": [0, 15]}),
        ("token_type_ids", "int64", ["n", 5], {"fill": "range", "range": [0, 1]}),
        ("count", "int64", [], {"fill": "range", "range": [0, 9]}),
        ("count", "int64", None, {"fill": "range", "range": [0, 9]}),
    ],
)
def test_by_type_and_name(name: str, dtype: str, shape: list[Any] | None, expected: dict[str, Any]) -> None:
    consumers = Consumers(model([], [], []))
    found = describe_input({"name": name, "dtype": dtype, "shape": shape}, consumers)
    assert expected.items() <= found.items()
    assert found["why"]
