"""Numbers next to zero, which many CPUs compute with in microcode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto

from artifactctl.backends import core, graph
from artifactctl.backends.again import open_model
from artifactctl.backends.proof import read_sample
from artifactctl.backends.tensors import blocks

_KINDS: dict[int, str] = {TensorProto.FLOAT: "<f4", TensorProto.DOUBLE: "<f8"}


def count_denormals(path: str, settings: dict[str, Any], inputs: str | None) -> dict[str, int]:
    """Of the weights, and of what goes into and comes out of one run."""
    feeds = read_sample(Path(inputs))["inputs"] if inputs else {}
    answers = core.run(open_model(path, settings), feeds)
    model = graph.load(Path(path), with_data=False)
    stored = (tensor for tensor in graph.tensors(model) if tensor.data_type in _KINDS)
    return {
        "weights": sum(
            _count(np.frombuffer(block, _KINDS[tensor.data_type]))
            for tensor in stored
            for block in blocks(tensor, Path(path).parent)
        ),
        "inputs": sum(map(_count, feeds.values())),
        "outputs": sum(map(_count, answers.values())),
    }


def _count(values: Any) -> int:
    if not isinstance(values, np.ndarray) or values.dtype not in (np.float32, np.float64):
        return 0
    size = np.abs(values)
    return int(np.count_nonzero((size > 0) & (size < np.finfo(values.dtype).tiny)))
