"""Digests of what a graph computes, blind to names and order: of all of it, or of its structure without weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from artifactctl.backends import graph
from artifactctl.backends.tensors import Digests, constant_of, listed_as_inputs

Words = Callable[[TensorProto], str]


@dataclass(frozen=True, slots=True)
class _Reading:
    tensor: Words
    weights: bool  # whether it matters what initializers and constants hold, and how many there are

    def weight(self, tensor: TensorProto) -> str:
        return self.tensor(tensor) if self.weights else "weight"

    def listed(self, words: Iterable[str]) -> list[str]:
        return sorted(words) if self.weights else []


def fingerprint(path: str) -> str:
    """A digest of what the graph computes, blind to names and order: equal means that a pass changed nothing."""
    file = Path(path)
    model = graph.load(file, with_data=False)
    opsets = sorted(f"opset {entry.version}" for entry in model.opset_import if not entry.domain)
    return _digest([digest_of(model, Digests(file.parent), weights=True), *opsets])


def identity(path: str) -> str:
    """Of all that a user of a model sees: what it computes, and the inputs that it takes."""
    model = graph.load(Path(path), with_data=False)
    listed = sorted(f"listed {list(tensor.dims)}" for tensor in listed_as_inputs(model))
    return _digest([fingerprint(path), *input_shapes(model), *listed])


def input_shapes(model: ModelProto) -> list[str]:
    """Sizes that are free count as free, whatever they are called."""
    stored = {tensor.name for tensor in model.graph.initializer}
    shapes = {
        value["name"]: value["shape"] and [size if isinstance(size, int) else None for size in value["shape"]]
        for value in graph.inspect_values(model.graph.input)
    }
    return [f"{name} {shape}" for name, shape in shapes.items() if name not in stored]


def digest_of(model: ModelProto, digests: Digests, *, weights: bool) -> str:
    """Without opsets; without `weights`, equal means the same operators, connected in the same way."""

    def words(tensor: TensorProto) -> str:
        return f"{tensor.data_type} {list(tensor.dims)} {digests.of(tensor)}"

    reading = _Reading(words, weights)
    named = {value.name: f"input {value.name}" for value in model.graph.input}
    rows = [*_graph_rows(model.graph, {}, named, reading), *(f"output {value.name}" for value in model.graph.output)]
    rows += sorted(f"function {item.domain} {item.name} {_function_digest(item, reading)}" for item in model.functions)
    return _digest(rows)


def _digest(rows: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _graph_rows(body: GraphProto, outer: dict[str, str], inputs: dict[str, str], reading: _Reading) -> list[str]:
    initializers = {tensor.name: reading.weight(tensor) for tensor in body.initializer}
    sparse = {
        item.values.name: reading.weight(item.values) + reading.weight(item.indices) for item in body.sparse_initializer
    }
    known = outer | inputs | initializers | sparse
    rows = reading.listed([*initializers.values(), *sparse.values()])
    rows += _node_rows(body.node, known, reading)
    return sorted(rows) + [f"output {known.get(value.name, '?')}" for value in body.output]


def _function_digest(function: FunctionProto, reading: _Reading) -> str:
    known = {name: f"input {position}" for position, name in enumerate(function.input)}
    rows = sorted(_node_rows(function.node, known, reading)) + [known.get(name, "?") for name in function.output]
    return _digest(rows + sorted(f"opset {entry.domain} {entry.version}" for entry in function.opset_import))


def _node_rows(nodes: Iterable[NodeProto], known: dict[str, str], reading: _Reading) -> list[str]:
    """One row a node; `known` learns what every new value is."""
    rows = []
    for node in nodes:
        tensor = constant_of(node)
        if tensor is not None:
            known[node.output[0]] = reading.weight(tensor)
            rows += reading.listed([known[node.output[0]]])
            continue
        digest = _node_digest(node, known, reading)
        rows.append(digest)
        known |= {name: f"{digest}:{position}" for position, name in enumerate(node.output)}
    return rows


def _node_digest(node: NodeProto, known: dict[str, str], reading: _Reading) -> str:
    parts = [node.domain, node.op_type, *(known.get(name, "?") for name in node.input), str(len(node.output))]
    for attribute in sorted(node.attribute, key=lambda item: item.name):
        parts.append(attribute.name)
        inner = list(graph.inner_graphs(attribute))
        if inner:
            for each in inner:
                places = {value.name: f"inner input {position}" for position, value in enumerate(each.input)}
                parts += _graph_rows(each, known, places, reading)
        elif attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
            parts.append(reading.tensor(attribute.t))
        else:
            bare = AttributeProto()
            bare.CopyFrom(attribute)
            bare.doc_string = ""
            parts.append(bare.SerializeToString(deterministic=True).hex())
    return _digest(parts)
