"""Whether a pass changed anything: a digest of what a graph computes, blind to names and order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto

from artifactctl.backends import graph


def fingerprint(path: str) -> str:
    """A digest of what the graph computes, blind to names and order: equal means that a pass changed nothing."""
    model = graph.load(Path(path))
    named = {value.name: f"input {value.name}" for value in model.graph.input}
    rows = [*_graph_rows(model.graph, {}, named), *(f"output {value.name}" for value in model.graph.output)]
    rows += sorted(f"function {item.domain} {item.name} {_function_digest(item)}" for item in model.functions)
    rows += sorted(f"opset {entry.version}" for entry in model.opset_import if not entry.domain)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _graph_rows(body: GraphProto, outer: dict[str, str], inputs: dict[str, str]) -> list[str]:
    known = outer | inputs
    initializers = {tensor.name: _tensor_digest(tensor) for tensor in body.initializer}
    known |= initializers
    sparse = {
        item.values.name: _tensor_digest(item.values) + _tensor_digest(item.indices) for item in body.sparse_initializer
    }
    known |= sparse
    rows = sorted([*initializers.values(), *sparse.values()])
    rows += _node_rows(body.node, known)
    return sorted(rows) + [f"output {known.get(value.name, '?')}" for value in body.output]


def _function_digest(function: FunctionProto) -> str:
    known = {name: f"input {position}" for position, name in enumerate(function.input)}
    rows = sorted(_node_rows(function.node, known)) + [known.get(name, "?") for name in function.output]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _node_rows(nodes: Iterable[NodeProto], known: dict[str, str]) -> list[str]:
    """One row a node; `known` learns what every new value is."""
    rows = []
    for node in nodes:
        if node.op_type == "Constant" and not node.domain:
            tensor = next((item.t for item in node.attribute if item.name == "value"), None)
            digest = _tensor_digest(tensor) if tensor is not None else _node_digest(node, known)
            known[node.output[0]] = digest
            rows.append(digest)
            continue
        digest = _node_digest(node, known)
        rows.append(digest)
        known |= {name: f"{digest}:{position}" for position, name in enumerate(node.output)}
    return rows


def _node_digest(node: NodeProto, known: dict[str, str]) -> str:
    parts = [node.domain, node.op_type, *(known.get(name, "?") for name in node.input), str(len(node.output))]
    for attribute in sorted(node.attribute, key=lambda item: item.name):
        parts.append(attribute.name)
        inner = list(graph.inner_graphs(attribute))
        if inner:
            for each in inner:
                places = {value.name: f"inner input {position}" for position, value in enumerate(each.input)}
                parts += _graph_rows(each, known, places)
        elif attribute.type == AttributeProto.TENSOR:
            parts.append(_tensor_digest(attribute.t))
        else:
            bare = AttributeProto()
            bare.CopyFrom(attribute)
            bare.doc_string = ""
            parts.append(bare.SerializeToString(deterministic=True).hex())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _tensor_digest(tensor: TensorProto) -> str:
    digest = hashlib.sha256(f"{tensor.data_type} {list(tensor.dims)}".encode())
    if tensor.data_type == TensorProto.STRING:
        digest.update(b"\0".join(tensor.string_data))
    else:
        digest.update(onnx.numpy_helper.to_array(tensor).tobytes())
    return digest.hexdigest()
