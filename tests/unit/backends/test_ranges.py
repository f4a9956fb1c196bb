from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from artifactctl.backends import core, graph
from artifactctl.backends.consumers import GUESSED, Consumers, describe_input

from .small import floats, ints, model, node

DRAWS = 20
TABLE = np.zeros((20, 8), np.float32)
ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"


def inputs_of(made: ModelProto) -> list[dict[str, Any]]:
    consumers, stored = Consumers(made), {tensor.name for tensor in made.graph.initializer}
    values = [value for value in graph.inspect_values(made.graph.input) if value["name"] not in stored]
    for value in values:
        if value["dtype"].startswith("sequence("):
            value |= {"dtype": value["dtype"][9:-1], "sequence": True}
    return [value | describe_input(value, consumers) for value in values]


def describe(made: ModelProto, name: str) -> dict[str, Any]:
    return next(spec for spec in inputs_of(made) if spec["name"] == name)


def open_model(made: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def draw(inputs: list[dict[str, Any]], number: int, kind: str = "normal") -> dict[str, Any]:
    plan = {"inputs": inputs, "sets": [{"kind": kind, "dims": {"n": 4, "m": 3}, "draw": number}]}
    feeds: dict[str, Any] = core.make_inputs(plan, [7], 0)
    return feeds


def tensor(name: str, kind: int, *shape: int | str | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def lookup(used: str = "ids", table: str = "table", out: str = "y", **attributes: Any) -> NodeProto:
    return node("Gather", [table, used], [out], **attributes)


@dataclass(frozen=True)
class Case:
    """A graph whose input `ids` gets these numbers; `tight`: the next higher number is refused."""

    id: str
    nodes: list[NodeProto]
    expected: Any
    ids: ValueInfoProto = field(default_factory=lambda: ints("ids", "n"))
    others: tuple[ValueInfoProto, ...] = ()
    weights: dict[str, Any] = field(default_factory=dict)
    output: int = TensorProto.FLOAT
    tight: bool = False
    domains: tuple[str, ...] = ()
    local: tuple[onnx.FunctionProto, ...] = ()

    def make(self) -> ModelProto:
        weights = {name: np.asarray(array) for name, array in self.weights.items()} | {"table": TABLE}
        made = model(self.nodes, [self.ids, *self.others], [tensor("y", self.output, None)], weights, self.domains)
        made.graph.output[0].type.tensor_type.ClearField("shape")
        made.functions.extend(self.local)
        for entry in made.opset_import:
            entry.version = 3 if entry.domain == ML else entry.version
        return made


X34, X8 = floats("x", 3, 4), floats("x", 8)
ONE, SCALAR = ints("ids", 1), ints("ids")
I64 = TensorProto.INT64

LOOKUPS = [
    Case("table", [lookup()], [0, 19], tight=True),
    Case("last axis", [lookup(axis=-1)], [0, 7], tight=True),
    Case("first axis", [lookup(axis=-2)], [0, 19], tight=True),
    Case("smallest table", [lookup(out="a"), lookup(table="t2", out="b"), node("Add", ["a", "b"], ["y"])], [0, 1],
         weights={"t2": np.zeros((2, 8), np.float32)}, tight=True),
    Case("constant node", [node("Constant", [], ["inner"], value=onnx.numpy_helper.from_array(TABLE[:5])),
                           lookup(table="inner")], [0, 4], tight=True),
    Case("large table", [lookup(table="big")], [0, 39999], weights={"big": np.zeros((40000, 1), np.float32)},
         tight=True),
    Case("computed table", [node("Concat", ["table", "table"], ["t"], axis=0), lookup(table="t")], [0, 39], tight=True),
    Case("quantized table", [node("DequantizeLinear", ["q", "s"], ["t"], domain=MICROSOFT), lookup(table="t")], [0, 4],
         weights={"q": np.zeros((5, 2), np.uint8), "s": np.float32(0.1)}, tight=True, domains=(MICROSOFT,)),
    Case("table is an input", [lookup(table="x")], [0, 2], others=(X34,), tight=True),
    Case("free table", [lookup(table="x")], [-1, 0], others=(floats("x", "m", 2),)),
    Case("GatherElements", [node("GatherElements", ["x", "ids"], ["y"], axis=1)], [0, 3], ints("ids", 3, 2), (X34,),
         tight=True),
    Case("GatherND", [node("GatherND", ["x", "ids"], ["y"])], [0, 2], ints("ids", "n", 2), (X34,), tight=True),
    Case("GatherND, one axis", [node("GatherND", ["x", "ids"], ["y"])], [0, 3], ints("ids", "n", 1),
         (floats("x", 4, 2),), tight=True),
    Case("GatherND, batch", [node("GatherND", ["x", "ids"], ["y"], batch_dims=1)], [0, 3], ints("ids", 3, 1), (X34,),
         tight=True),
    Case("ScatterElements", [node("ScatterElements", ["x", "ids", "x"], ["y"], axis=1)], [0, 3], ints("ids", 3, 4),
         (X34,), tight=True),
    Case("ScatterND", [node("ScatterND", ["x", "ids", "u"], ["y"])], [0, 2], ints("ids", 2, 1),
         (X34, floats("u", 2, 4)), tight=True),
    Case("OneHot", [node("OneHot", ["ids", "depth", "pair"], ["y"])], [0, 5],
         weights={"depth": [6], "pair": np.array([0, 1], np.float32)}),
    Case("written-out one-hot", [node("Unsqueeze", ["ids", "at"], ["c"]), node("Equal", ["c", "iota"], ["y"])], [0, 4],
         weights={"at": [1], "iota": np.arange(5)}, output=TensorProto.BOOL),
    Case("ArrayFeatureExtractor", [node("ArrayFeatureExtractor", ["x", "ids"], ["y"], domain=ML)], [0, 3],
         others=(X34,), tight=True, domains=(ML,)),
    Case("class", [node("NegativeLogLikelihoodLoss", ["x", "ids"], ["y"])], [0, 3], ints("ids", 3), (X34,)),
    Case("EmbedLayerNormalization",
         [node("EmbedLayerNormalization", ["ids", "", "table", "p", "", "g", "g"], ["y", "m"], domain=MICROSOFT)],
         [0, 19], tensor("ids", TensorProto.INT32, 2, 3), tight=True, domains=(MICROSOFT,),
         weights={"p": np.zeros((6, 8), np.float32), "g": np.ones(8, np.float32)}),
    Case("segments",
         [node("EmbedLayerNormalization", ["w", "ids", "table", "p", "s", "g", "g"], ["y", "m"], domain=MICROSOFT)],
         [0, 2], tensor("ids", TensorProto.INT32, 2, 3), (tensor("w", TensorProto.INT32, 2, 3),), tight=True,
         weights={name: np.zeros((rows, 8), np.float32) for name, rows in (("p", 6), ("s", 3))}
         | {"g": np.ones(8, np.float32)}, domains=(MICROSOFT,)),
]  # fmt: skip

PATHS = [
    Case("Cast, Unsqueeze", [node("Cast", ["ids"], ["s"], to=TensorProto.INT32), node("Unsqueeze", ["s", "at"], ["w"]),
                             lookup("w")], [0, 19], weights={"at": [0]}, tight=True),
    Case("Add", [node("Add", ["ids", "c"], ["s"]), lookup("s")], [-2, 17], weights={"c": 2}, tight=True),
    Case("Sub", [node("Sub", ["ids", "c"], ["s"]), lookup("s")], [2, 21], weights={"c": 2}, tight=True),
    Case("Sub from", [node("Sub", ["c", "ids"], ["s"]), lookup("s")], [6, 25], weights={"c": 25}),
    Case("Mul", [node("Mul", ["ids", "c"], ["s"]), lookup("s")], [0, 6], weights={"c": 3}, tight=True),
    Case("Mul by several", [node("Mul", ["ids", "c"], ["s"]), lookup("s")], [0, 4], ints("ids", 2),
         weights={"c": [3, 4]}, tight=True),
    Case("Div", [node("Div", ["ids", "c"], ["s"]), lookup("s")], [0, 57], weights={"c": 3}),
    Case("Clip inside", [node("Clip", ["ids", "a", "b"], ["s"]), lookup("s")], [-2, 21], weights={"a": 0, "b": 19}),
    Case("Clip too wide", [node("Clip", ["ids", "a", "b"], ["s"]), lookup("s")], [-2, 19], weights={"a": 0, "b": 30},
         tight=True),
    Case("Max", [node("Max", ["ids", "a"], ["s"]), lookup("s")], [-1, 19], weights={"a": 0}, tight=True),
    Case("Mod", [node("Mod", ["ids", "c"], ["s"]), lookup("s")], [0, 39], weights={"c": 20}),
    Case("Where", [node("Where", ["c", "ids", "z"], ["s"]), lookup("s")], [0, 19], weights={"c": [True], "z": [0]},
         tight=True),
    Case("Slice, Concat", [node("Slice", ["ids", "a", "b"], ["s"]), node("Concat", ["s", "s"], ["t"], axis=0),
                           lookup("t")], [0, 19], weights={"a": [0], "b": [2]}, tight=True),
    Case("Split", [node("Split", ["ids"], ["s", "t"], num_outputs=2), lookup("t")], [0, 19], tight=True),
]  # fmt: skip

COUNTS = [
    Case("Slice start", [node("Slice", ["x", "ids", "e"], ["y"])], [0, 4], ONE, (X8,), {"e": [5]}),
    Case("Slice end", [node("Slice", ["x", "s", "ids"], ["y"])], [3, 8], ONE, (X8,), {"s": [2]}),
    Case("Slice axes", [node("Slice", ["x", "s", "e", "ids"], ["y"])], [0, 1], ONE, (X34,), {"s": [0], "e": [2]},
         tight=True),
    Case("Slice steps", [node("Slice", ["x", "s", "e", "s", "ids"], ["y"])], [1, 2], ONE, (X8,), {"s": [0], "e": [8]}),
    Case("TopK", [node("TopK", ["x", "ids"], ["y", "at"])], [1, 4], ONE, (X34,), tight=True),
    Case("Tile", [node("Tile", ["x", "ids"], ["y"])], [1, 3], ints("ids", 2), (X34,)),
    Case("Reshape to one", [node("Reshape", ["x", "ids"], ["y"])], {"values": [-1]}, ONE, (X34,)),
    Case("Reshape, same rank", [node("Reshape", ["x", "ids"], ["y"])], {"values": [0]}, ints("ids", 2), (X34,)),
    Case("Reshape, a square", [node("Reshape", ["x", "ids"], ["y"])], [2, 2], ints("ids", 3), (X8,)),
    Case("Reshape, a part", [node("Concat", ["ids", "r"], ["s"], axis=0), node("Reshape", ["x", "s"], ["y"])],
         {"values": [-1]}, ONE, (X34,), {"r": [4]}),
    Case("Reshape, the other part", [node("Concat", ["ids", "r"], ["s"], axis=0), node("Reshape", ["x", "s"], ["y"])],
         [1, 1], ONE, (X34,), {"r": [-1]}),
    Case("Expand", [node("Expand", ["x", "ids"], ["y"])], [1, 1], ints("ids", 2), (X34,)),
    Case("Expand one", [node("Expand", ["x", "ids"], ["y"])], [1, 4], ints("ids", 2), (floats("x", 1, 1),)),
    Case("ConstantOfShape", [node("ConstantOfShape", ["ids"], ["y"])], [1, 4], ints("ids", 3)),
    Case("Range", [node("Range", ["a", "ids", "c"], ["y"])], [3, 9], SCALAR, (ints("a"), ints("c")), output=I64),
    Case("Range step", [node("Range", ["a", "b", "ids"], ["y"])], [1, 2], SCALAR, (ints("a"), ints("b")), output=I64),
    Case("Resize", [node("Resize", ["x", "", "", "ids"], ["y"])], [1, 8], ints("ids", 4), (floats("x", 1, 3, 4, 4),)),
    Case("Pad", [node("Pad", ["x", "ids"], ["y"])], [0, 2], ints("ids", 4), (X34,)),
    Case("Pad, reflect", [node("Pad", ["x", "ids"], ["y"], mode="reflect")], [0, 1], ints("ids", 4),
         (floats("x", 2, 4),)),
    Case("Unsqueeze", [node("Unsqueeze", ["x", "ids"], ["y"])], [0, 2], ONE, (X34,), tight=True),
    Case("Squeeze", [node("Squeeze", ["x", "ids"], ["y"])], {"values": [1, 3]}, ONE, (floats("x", 3, 1, 4, 1),)),
    Case("CumSum", [node("CumSum", ["x", "ids"], ["y"])], [0, 1], SCALAR, (X34,), tight=True),
    Case("ReduceSum", [node("ReduceSum", ["x", "ids"], ["y"])], [0, 1], ONE, (X34,), tight=True),
    Case("Split", [node("Split", ["x", "ids"], ["y", "z"])], [4, 4], ints("ids", 2), (X8,), tight=True),
    Case("ReverseSequence", [node("ReverseSequence", ["x", "ids"], ["y"])], [1, 3],
         ints("ids", 4), (X34,), tight=True),
    Case("LSTM", [node("LSTM", ["x", "w", "r", "", "ids"], ["y"], hidden_size=1)], [1, 5],
         tensor("ids", TensorProto.INT32, 2), (floats("x", 5, 2, 1),),
         {"w": np.ones((1, 4, 1), np.float32), "r": np.ones((1, 4, 1), np.float32)}, tight=True),
    Case("BitShift", [node("BitShift", ["w", "ids"], ["y"], direction="LEFT")], [0, 7],
         tensor("ids", TensorProto.UINT8, 4), weights={"w": np.ones(4, np.uint8)}, output=TensorProto.UINT8),
    Case("Div", [node("Div", ["c", "ids"], ["y"])], [1, 9], weights={"c": 7}, output=I64),
    Case("Mod", [node("Mod", ["c", "ids"], ["y"])], [1, 9], weights={"c": 7}, output=I64),
]  # fmt: skip

KEYS = [
    Case("LabelEncoder", [node("LabelEncoder", ["ids"], ["y"], domain=ML, keys_int64s=[3, 50], values_floats=[0.0, 1])],
         {"values": [3, 50]}, domains=(ML,)),
    Case("OneHotEncoder", [node("OneHotEncoder", ["ids"], ["y"], domain=ML, cats_int64s=[4, 9], zeros=0)],
         {"values": [4, 9]}, domains=(ML,)),
    Case("strings", [node("LabelEncoder", ["ids"], ["y"], domain=ML, keys_strings=["a", "b"], values_int64s=[1, 2])],
         {"values": ["a", "b", "a key that the model does not know"]}, tensor("ids", TensorProto.STRING, "n"),
         output=I64, domains=(ML,)),
    Case("known strings only", [node("OneHotEncoder", ["ids"], ["y"], domain=ML, cats_strings=["a", "b"], zeros=0)],
         {"values": ["a", "b"]}, tensor("ids", TensorProto.STRING, "n"), domains=(ML,)),
    Case("CategoryMapper", [node("CategoryMapper", ["ids"], ["y"], domain=ML, cats_int64s=[7, 8],
                                 cats_strings=["p", "q"])],
         {"values": [7, 8]}, output=TensorProto.STRING, domains=(ML,)),
    Case("numbers in words", [node("Cast", ["ids"], ["y"], to=TensorProto.FLOAT)],
         {"values": ["0", "1", "2", "7", "42"]}, tensor("ids", TensorProto.STRING, "n")),
]  # fmt: skip


def body(nodes: list[NodeProto], inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> onnx.GraphProto:
    return helper.make_graph(nodes, "body", inputs, outputs)


def branch(name: str, table: str, out: str) -> onnx.GraphProto:
    """Both sides call their own names the same."""
    return body([node("Identity", ["ids"], [name]), lookup(name, table, out)], [], [floats(out, None, 8)])


def handed_on(out: str) -> onnx.GraphProto:
    return body([node("Identity", ["ids"], [out])], [], [ints(out)])


LOOP = body(
    [lookup("state", out="row"), node("Identity", ["more"], ["go"]), node("Identity", ["state"], ["next"])],
    [ints("i"), tensor("more", TensorProto.BOOL), ints("state", "n")],
    [tensor("go", TensorProto.BOOL), ints("next", "n"), floats("row", "n", 8)],
)
COUNTED = body(
    [node("Identity", ["more"], ["go"]), node("Identity", ["i"], ["at"])],
    [ints("i"), tensor("more", TensorProto.BOOL)],
    [tensor("go", TensorProto.BOOL), ints("at")],
)
OWN = helper.make_function(
    "own", "Look", ["a", "b"], ["c"], [node("Gather", ["b", "a"], ["c"])], [helper.make_opsetid("", 18)]
)

INNER = [
    Case("If", [node("If", ["c"], ["y"], then_branch=branch("k", "table", "p"), else_branch=branch("k", "short", "q"))],
         [0, 4], weights={"c": True, "short": TABLE[:5]}),
    Case("out of an If", [node("If", ["c"], ["same"], then_branch=handed_on("p"), else_branch=handed_on("q")),
                          lookup("same")],
         [0, 19], SCALAR, weights={"c": True}, tight=True),
    Case("Loop", [node("Loop", ["two", "c", "ids"], ["last", "y"], body=LOOP)], [0, 19],
         weights={"two": 2, "c": True}, tight=True),
    Case("rounds of a Loop", [node("Loop", ["ids", "c"], ["y"], body=COUNTED)], [1, 4], SCALAR, weights={"c": True},
         output=I64),
    Case("local function", [node("Look", ["ids", "table"], ["y"], domain="own")], [0, 19], tight=True, domains=("own",),
         local=(OWN,)),
]  # fmt: skip

CASES = [*LOOKUPS, *PATHS, *COUNTS, *KEYS, *INNER]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_draw_is_accepted(case: Case) -> None:
    made = case.make()
    found = describe(made, "ids")
    expected = case.expected if isinstance(case.expected, dict) else {"range": case.expected}
    assert expected.items() <= found.items()
    assert found["fill"] in expected
    assert found["why"] != GUESSED
    session, inputs = open_model(made), inputs_of(made)
    for number in range(DRAWS):
        session.run(None, draw(inputs, number))


@pytest.mark.parametrize("case", [case for case in CASES if case.tight], ids=lambda case: case.id)
def test_one_more_is_refused(case: Case) -> None:
    """The range is no narrower than it must be, and the test above can fail."""
    made = case.make()
    feeds = draw(inputs_of(made), 0)
    feeds["ids"] = np.full_like(feeds["ids"], describe(made, "ids")["range"][1] + 1)
    with pytest.raises(core.runtime_errors()):
        open_model(made).run(None, feeds)
