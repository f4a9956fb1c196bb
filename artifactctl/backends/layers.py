"""The layers that int8 may make faster, what each multiplies, and the nodes behind it that pass int8 on."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from onnx import ModelProto, NodeProto

from artifactctl.backends import core, graph
from artifactctl.backends.culprit import Exposed, sizes_of
from artifactctl.backends.facts import float_weights, weight_of
from artifactctl.backends.proof import read_sample
from artifactctl.recipes import CARRIERS, LAYERS

FLOAT_BYTES = 4


def weighted_layers(path: str, sample: str, settings: dict[str, Any], spared: list[str]) -> list[dict[str, Any]]:
    """In the order of the graph, without those in `spared`. Multiplications are counted from the sizes of one sample,
    never timed: the same inputs must give the same choice."""
    model, feeds = graph.load(Path(path)), read_sample(Path(sample))["inputs"]
    stored, weights = {tensor.name for tensor in model.graph.initializer}, float_weights(model)
    found = []
    for node in model.graph.node:
        weight = weight_of(node, weights)
        if node.op_type in LAYERS and weight in stored and node.name not in spared and _plain(node, stored):
            found.append((node, list(weights[weight].dims)))
    elements = _elements(model, [node.output[0] for node, _ in found], feeds, settings)
    return [
        {"name": node.name, "operator": node.op_type, "carries": _carries(model, node, spared)}
        | {"multiplications": elements.get(node.output[0], 0) * _depth(node, dims)}
        for node, dims in found
    ]


def _plain(node: NodeProto, stored: set[str]) -> bool:
    """A bias that is computed stays float, and with it the layer."""
    return len(node.input) < 3 or not node.input[2] or node.input[2] in stored


def _depth(node: NodeProto, dims: list[int]) -> int:
    """Multiplications for each element that comes out."""
    if node.op_type == "Conv":
        return math.prod(dims[1:])
    turned = node.op_type == "Gemm" and any(item.name == "transB" and item.i for item in node.attribute)
    return dims[-1] if turned or len(dims) < 2 else dims[-2]


def _elements(model: ModelProto, names: list[str], feeds: dict[str, Any], settings: dict[str, Any]) -> dict[str, int]:
    """Of these values for these inputs; those whose sizes cannot be inferred are looked at."""
    sizes = sizes_of(model, feeds)
    found = {name: sizes[name] // FLOAT_BYTES for name in names if sizes.get(name)}
    unknown = [name for name in names if name not in found]
    if unknown:
        with tempfile.TemporaryDirectory() as folder:
            exposed = Exposed(model, Path(folder) / "exposed.onnx", core.as_written(settings), feeds)
            found |= {name: int(value.size) for name, value in exposed.values(unknown).items()}
    return found


def _carries(model: ModelProto, layer: NodeProto, spared: list[str]) -> list[str]:
    """Only behind a Conv: the outputs of the others are left as float, which their int8 kernels give too."""
    if layer.op_type != "Conv":
        return []
    reached, found = {layer.output[0]}, []
    for node in model.graph.node:
        if node.op_type in CARRIERS and node.input[0] in reached and node.name not in spared:
            reached.add(node.output[0])
            found.append(node.name)
    return found
