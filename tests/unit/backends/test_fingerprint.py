from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from artifactctl.backends import graph
from artifactctl.backends.fingerprint import fingerprint, identity
from tests.conftest import MODELS

from .small import floats, model, node, write

NAMES = ["mlp", "cnn", "branch", "tokens"]


def digest(made: ModelProto, folder: Path) -> str:
    return fingerprint(write(made, folder / "m.onnx"))


def read(name: str) -> ModelProto:
    return onnx.load_model(str(MODELS / f"{name}.onnx"))


def find(made: ModelProto, kind: str) -> NodeProto:
    return next(item for item in graph.nodes(made) if item.op_type == kind)


def rename(body: GraphProto, kept: set[str], tag: str) -> None:
    """Another name for every node, weight and inner value; inputs and outputs of the model keep theirs."""

    def other(name: str) -> str:
        return name if name in kept or not name else f"{tag}{name}"

    for tensor in body.initializer:
        tensor.name = other(tensor.name)
    for value in (*body.value_info, *body.output):
        value.name = other(value.name)
    for item in body.node:
        item.name = f"{tag}{item.name}"
        item.input[:] = [other(name) for name in item.input]
        item.output[:] = [other(name) for name in item.output]
        for attribute in item.attribute:
            for inner in graph.inner_graphs(attribute):
                rename(inner, kept, tag)


@pytest.mark.parametrize("name", NAMES)
def test_names_do_not_matter(name: str, tmp_path: Path) -> None:
    made = read(name)
    before = digest(made, tmp_path)
    rename(made.graph, {value.name for value in (*made.graph.input, *made.graph.output)}, "new_")
    onnx.checker.check_model(made)
    assert digest(made, tmp_path) == before


def test_the_order_of_nodes_and_weights_does_not_matter(tmp_path: Path) -> None:
    made = read("cnn")
    before = digest(made, tmp_path)
    nodes, weights = list(made.graph.node), list(made.graph.initializer)
    aside = nodes.pop([item.op_type for item in nodes].index("Exp"))
    del made.graph.node[:], made.graph.initializer[:]
    made.graph.node.extend([*nodes, aside])
    made.graph.initializer.extend(reversed(weights))
    onnx.checker.check_model(made)
    assert digest(made, tmp_path) == before


def test_how_a_weight_is_stored_does_not_matter(tmp_path: Path) -> None:
    made = read("mlp")
    before = digest(made, tmp_path)
    for tensor in made.graph.initializer:
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(helper.make_tensor(tensor.name, tensor.data_type, array.shape, array.reshape(-1).tolist()))
        assert not tensor.raw_data
    assert digest(made, tmp_path) == before


def test_a_constant_is_a_weight(tmp_path: Path) -> None:
    made = read("mlp")
    before = digest(made, tmp_path)
    weight = made.graph.initializer.pop(0)
    made.graph.node.insert(0, node("Constant", [], [weight.name], value=weight))
    assert digest(made, tmp_path) == before


def nudge(made: ModelProto) -> None:
    tensor = made.graph.initializer[0]
    array = numpy_helper.to_array(tensor).copy()
    array.reshape(-1)[0] = np.nextafter(array.reshape(-1)[0], np.float32(9))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def change_operator(kind: str, other: str) -> Callable[[ModelProto], None]:
    return lambda made: setattr(find(made, kind), "op_type", other)


def change_pads(made: ModelProto) -> None:
    next(item for item in find(made, "Conv").attribute if item.name == "pads").ints[:] = [1, 1, 1, 0]


def swap_inputs(made: ModelProto) -> None:
    found = find(made, "Greater")
    found.input[:] = list(found.input)[::-1]


def swap_branches(made: ModelProto) -> None:
    one, other = find(made, "If").attribute
    one.name, other.name = other.name, one.name


CHANGES: list[tuple[str, Callable[[ModelProto], None]]] = [
    ("mlp", nudge),
    ("mlp", change_operator("Relu", "Sigmoid")),
    ("mlp", lambda made: setattr(made.opset_import[0], "version", 19)),
    ("mlp", lambda made: find(made, "Gemm").attribute.append(helper.make_attribute("alpha", 0.5))),
    ("cnn", change_pads),
    ("cnn", lambda made: made.graph.node.remove(find(made, "Exp"))),
    ("branch", change_operator("Neg", "Abs")),
    ("branch", swap_inputs),
    ("branch", swap_branches),
]


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_what_is_computed_matters(name: str, change: Callable[[ModelProto], None], tmp_path: Path) -> None:
    made = read(name)
    before = digest(made, tmp_path)
    change(made)
    assert digest(made, tmp_path) != before


def test_a_renamed_output_is_another_model(tmp_path: Path) -> None:
    made = read("mlp")
    before = digest(made, tmp_path)
    made.graph.output[0].name = find(made, "Gemm").output[0]
    assert digest(made, tmp_path) != before


def test_the_body_of_a_function_matters(tmp_path: Path) -> None:
    digests = set()
    for kind in ("Relu", "Neg"):
        made = model([node("Own", ["x"], ["y"], domain="own")], [floats("x", 2)], [floats("y", 2)], domains=("own",))
        opsets = [helper.make_opsetid("", 18)]
        made.functions.append(helper.make_function("own", "Own", ["a"], ["b"], [node(kind, ["a"], ["b"])], opsets))
        digests.add(digest(made, tmp_path))
    assert len(digests) == 2


def test_a_sparse_weight_matters(tmp_path: Path) -> None:
    digests = set()
    for value in (1.0, 2.0):
        made = model([node("Add", ["x", "w"], ["y"])], [floats("x", 4)], [floats("y", 4)])
        values = helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [value])
        indices = helper.make_tensor("w_at", onnx.TensorProto.INT64, [1], [2])
        made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
        digests.add(digest(made, tmp_path))
    assert len(digests) == 2


def test_different_models_have_different_fingerprints(tmp_path: Path) -> None:
    assert len({digest(read(name), tmp_path) for name in NAMES}) == len(NAMES)


def test_weights_that_are_inputs_make_another_model_that_computes_the_same(tmp_path: Path) -> None:
    """A runtime may fold the ones and not the others."""
    made = read("mlp")
    freed = identity(write(made, tmp_path / "freed.onnx")), digest(made, tmp_path)
    weight = made.graph.initializer[0]
    made.graph.input.append(helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims)))
    listed = identity(write(made, tmp_path / "listed.onnx")), digest(made, tmp_path)
    assert freed[0] != listed[0]
    assert freed[1] == listed[1]
