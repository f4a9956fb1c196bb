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
from artifactctl.passes import CARRIERS, LAYERS

FLOAT_BYTES = 4
# ONNX Runtime moves a conversion in front of a MaxPool, whose int8 kernel takes as long as this many conversions unless
# an int8 Conv stands before it
SLOW_POOL = 16


def weighted_layers(path: str, sample: str, settings: dict[str, Any], spared: list[str]) -> list[dict[str, Any]]:
    """In the order of the graph, without those in `spared`. Multiplications are counted from the sizes of one sample,
    never timed: the same inputs must give the same choice."""
    file, feeds = Path(path), read_sample(Path(sample))["inputs"]
    model = graph.load_light(file)
    stored, weights = {tensor.name for tensor in model.graph.initializer}, float_weights(model)
    found: dict[str, tuple[NodeProto, list[int]]] = {}
    for node in model.graph.node:
        weight = weight_of(node, weights)
        if node.op_type in LAYERS and weight and weight in stored and node.name not in spared and _plain(node, stored):
            found[node.name] = (node, list(weights[weight].dims))
    pools = {name: _pooled(model, node) for name, (node, _) in found.items()}
    ends = [value for name, (node, _) in found.items() for value in (node.input[0], node.output[0], pools[name])]
    elements = _elements(model, file, [value for value in dict.fromkeys(ends) if value], feeds, settings)
    between = _between(model, {name: node for name, (node, _) in found.items()}, spared)
    return [
        {"name": name, "operator": node.op_type, "multiplications": out * _depth(node, dims)}
        | {"reads": elements.get(node.input[0], 0) + SLOW_POOL * elements.get(pools[name], 0)}
        | {"writes": out if node.op_type == "Conv" else 0}
        | between[name]
        for name, (node, dims) in found.items()
        for out in [elements.get(node.output[0], 0)]
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


def _pooled(model: ModelProto, layer: NodeProto) -> str:
    """What goes into the MaxPool that a layer reads from, through nodes that carry it on; empty where there is none."""
    makers = {output: node for node in model.graph.node for output in node.output}
    node = makers.get(layer.input[0])
    while node is not None and node.op_type in CARRIERS:
        if node.op_type == "MaxPool":
            return str(node.input[0])
        node = makers.get(node.input[0])
    return ""


def _elements(
    model: ModelProto, file: Path, names: list[str], feeds: dict[str, Any], settings: dict[str, Any]
) -> dict[str, int]:
    """Of these values for these inputs; those whose sizes cannot be inferred are looked at."""
    sizes = sizes_of(model, feeds)
    found = {name: int(feeds[name].size) for name in names if name in feeds}
    found |= {name: sizes[name] // FLOAT_BYTES for name in names if sizes.get(name)}
    unknown = [name for name in names if name not in found]
    if unknown:
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            exposed = Exposed(model, file, Path(folder) / "exposed", core.as_written(settings), feeds)
            found |= {name: int(value.size) for name, value in exposed.values(unknown).items()}
    return found


def _between(model: ModelProto, layers: dict[str, NodeProto], spared: list[str]) -> dict[str, dict[str, Any]]:
    """By layer: the nodes that carry its int8 on, the layer behind which it stands, and what reads it (None: floats).

    Only a Conv gives int8: the outputs of the others are left as float, which their kernels give too.
    """
    found: dict[str, dict[str, Any]] = {name: {"carries": [], "behind": None, "followers": []} for name in layers}
    origin: dict[str, str] = {}  # of a value that is int8: the layer that made it
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            if name not in origin:
                continue
            if not place and node.name in layers:
                found[origin[name]]["followers"].append(node.name)
                found[node.name]["behind"] = origin[name]
            elif not place and node.op_type in CARRIERS and node.name not in spared:
                found[origin[name]]["carries"].append(node.name)
                origin[node.output[0]] = origin[name]
            else:
                found[origin[name]]["followers"].append(None)
        if node.name in layers and node.op_type == "Conv":
            origin[node.output[0]] = node.name
    for value in model.graph.output:
        if value.name in origin:
            found[origin[value.name]]["followers"].append(None)
    return found
