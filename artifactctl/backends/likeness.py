"""Where two files of what should be one model differ: operators by count, weights by digest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from onnx import ModelProto

from artifactctl.backends import graph
from artifactctl.backends.fingerprint import fingerprint
from artifactctl.backends.tensors import Digests

MOST_NAMES = 10


def graph_differences(recorded: str, rebuilt: str) -> dict[str, Any]:
    """`same`: they compute the same, whatever their names and order."""
    sides = [graph.load(Path(path)) for path in (recorded, rebuilt)]
    kinds = [Counter(f"{node.domain or 'ai.onnx'}:{node.op_type}" for node in graph.nodes(side)) for side in sides]
    weights = [_weights(side, Path(path).parent) for side, path in zip(sides, (recorded, rebuilt), strict=True)]
    values = [Counter(digest for _, digest in side.elements()) for side in weights]
    lost, made = values[0] - values[1], values[1] - values[0]
    names = sorted({name for name, digest in (*weights[0], *weights[1]) if digest in lost or digest in made})
    return {
        "same": fingerprint(recorded) == fingerprint(rebuilt),
        "operators": [
            {"operator": kind, "recorded": kinds[0][kind], "rebuilt": kinds[1][kind]}
            for kind in sorted(kinds[0].keys() | kinds[1].keys())
            if kinds[0][kind] != kinds[1][kind]
        ],
        "weights": {"recorded": lost.total(), "rebuilt": made.total(), "names": names[:MOST_NAMES]},
    }


def _weights(model: ModelProto, home: Path) -> Counter[tuple[str, str]]:
    digests = Digests(home)
    found = ((tensor, digests.of(tensor)) for tensor in graph.tensors(model))
    return Counter((tensor.name, f"{tensor.data_type} {list(tensor.dims)} {digest}") for tensor, digest in found)
