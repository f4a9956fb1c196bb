"""How large the values around every node become on samples: what a narrow type cannot hold."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from artifactctl.backends import core, graph
from artifactctl.backends.culprit import Exposed, chunks, sizes_of
from artifactctl.backends.facts import Attention, float_weights
from artifactctl.backends.proof import read_sample

# they square their input on the way
SQUARES = {"Pow", "ReduceSumSquare", "ReduceL2", "LpNormalization", "LayerNormalization", "RMSNormalization"}
SQUARES |= {"InstanceNormalization", "GroupNormalization", "SimplifiedLayerNormalization"}


def node_extremes(path: str, samples: list[str], settings: dict[str, Any], named: str) -> list[dict[str, Any]]:
    """Of each node the largest number that goes in or comes out (None where it is not finite), and where it stands:
    before a Softmax of attention (score), or at the end (last).

    Passes know nodes by their names, so `named` is written: the same model, in which each has one of its own.
    """
    model, written = graph.load_light(Path(path)), Path(named)
    _name_nodes(model)
    written.parent.mkdir(parents=True, exist_ok=True)
    graph.save_light(model, Path(path), written)
    values = _stored(model, written.parent)
    for sample in samples:
        for name, largest in _seen(model, written, read_sample(Path(sample))["inputs"], settings).items():
            values[name] = max(values.get(name, 0.0), largest)
    scores, answers = Attention(model).scores, {value.name for value in model.graph.output}
    return [
        {"name": node.name, "operator": node.op_type, "largest": largest if math.isfinite(largest) else None}
        | {"score": not scores.isdisjoint(node.output), "last": not answers.isdisjoint(node.output)}
        for node in model.graph.node
        for largest in [_largest(node, values)]
    ]


def _largest(node: NodeProto, values: dict[str, float]) -> float:
    inside = max((values.get(name, 0.0) for name in node.input), default=0.0)
    outside = max((values.get(name, 0.0) for name in node.output), default=0.0)
    return max(inside * inside if node.op_type in SQUARES else inside, outside)


def _name_nodes(model: ModelProto) -> None:
    taken: set[str] = set()
    for position, node in enumerate(model.graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}~{position}"
        taken.add(node.name)


def _stored(model: ModelProto, home: Path) -> dict[str, float]:
    return {
        name: _size(numpy_helper.to_array(tensor, base_dir=str(home))) for name, tensor in float_weights(model).items()
    }


def _seen(model: ModelProto, file: Path, feeds: dict[str, Any], settings: dict[str, Any]) -> dict[str, float]:
    names = [name for node in model.graph.node if node.op_type != "Constant" for name in node.output if name]
    sizes = sizes_of(model, feeds)
    found = {name: _size(value) for name, value in feeds.items() if isinstance(value, np.ndarray)}
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        exposed = Exposed(model, file, Path(folder) / "exposed", core.as_written(settings), feeds)
        for part in chunks([name for name in names if sizes.get(name, 1)], sizes):
            found |= {name: _size(value) for name, value in exposed.values(part).items()}
    return found


def _size(array: np.ndarray[Any, Any]) -> float:
    """The largest absolute value of floats; NaN counts as infinite, and other types as nothing."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    largest = max(float(array.max()), -float(array.min()))  # no copy: a weight may be half of a large model
    return math.inf if math.isnan(largest) else largest
