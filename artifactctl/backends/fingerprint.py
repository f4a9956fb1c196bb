"""Whether a pass changed anything: a digest of what a graph computes, blind to names and order."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from artifactctl.backends import graph


def fingerprint(path: str) -> str:
    """A digest of what the graph computes, blind to names and order: equal means that a pass changed nothing."""
    model = graph.load(Path(path))
    rows = _graph_rows(model.graph, {})
    rows += sorted(f"opset {entry.version}" for entry in model.opset_import if not entry.domain)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _graph_rows(body: GraphProto, outer: dict[str, str]) -> list[str]:
    known = dict(outer)
    initializers = {tensor.name: _tensor_digest(tensor) for tensor in body.initializer}
    known |= {value.name: f"input {value.name}" for value in body.input}
    known |= initializers
    rows = sorted(initializers.values())
    for node in body.node:
        if node.op_type == "Constant" and not node.domain:
            tensor = next((item.t for item in node.attribute if item.name == "value"), None)
            digest = _tensor_digest(tensor) if tensor is not None else _node_digest(node, known)
            known[node.output[0]] = digest
            rows.append(digest)
            continue
        digest = _node_digest(node, known)
        rows.append(digest)
        known |= {name: f"{digest}:{position}" for position, name in enumerate(node.output)}
    return sorted(rows) + [f"output {value.name} {known.get(value.name, '?')}" for value in body.output]


def _node_digest(node: NodeProto, known: dict[str, str]) -> str:
    parts = [node.domain, node.op_type, *(known.get(name, "?") for name in node.input), str(len(node.output))]
    for attribute in sorted(node.attribute, key=lambda item: item.name):
        parts.append(attribute.name)
        inner = list(graph.inner_graphs(attribute))
        if inner:
            parts += [row for each in inner for row in _graph_rows(each, known)]
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
