"""What `artifactctl diff` reads of a model: graph, weights by digest, and how far two weights lie apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from artifactctl.backends import graph
from artifactctl.backends.fingerprint import digest_of
from artifactctl.backends.tensors import Digests, blocks, constant_of

BLOCK_ELEMENTS = 1 << 18
_FLOATS = {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ,
}  # fmt: skip
Weight = tuple[str, str, TensorProto]  # name, how it is stored, the tensor


def describe_for_diff(path: str) -> dict[str, Any]:
    """The model is not run, and of external data only a block at a time is in memory."""
    file = Path(path)
    model = graph.load(file, with_data=False)
    digests = Digests(file.parent)
    found = graph.summary(model, file)
    own = [node for node in graph.nodes(model) if constant_of(node) is None]
    operators = Counter((node.domain or "ai.onnx", node.op_type) for node in own)
    used = {domain for domain, _ in operators}
    kept = ("ir_version", "precision", "portability", "inputs", "outputs", "parameters", "size_bytes", "external_data")
    return {key: found[key] for key in kept} | {
        "opsets": {domain: version for domain, version in sorted(found["opsets"].items()) if domain in used},
        "operators": [
            {"domain": domain, "operator": kind, "count": count} for (domain, kind), count in sorted(operators.items())
        ],
        "weights": [
            {
                "name": name,
                "stored": stored,
                "dtype": graph.dtype_name(tensor.data_type),
                "shape": list(tensor.dims),
                "sha256": digests.of(tensor),
                "float": tensor.data_type in _FLOATS,
            }
            for name, stored, tensor in weights(model)
        ],
        "structure": digest_of(model, digests, weights=False),
        "content": digest_of(model, digests, weights=True),
    }


def weights(model: ModelProto) -> Iterator[Weight]:
    """Every initializer and Constant, in inner graphs and functions too, each under a name of its own."""
    seen: Counter[str] = Counter()
    for name, stored, tensor in _all_weights(model):
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), stored, tensor


def _all_weights(model: ModelProto) -> Iterator[Weight]:
    waiting: list[tuple[str, GraphProto | FunctionProto]] = [("", model.graph)]
    waiting += [(f"{item.domain}.{item.name}/", item) for item in model.functions]
    while waiting:
        place, body = waiting.pop()
        if isinstance(body, GraphProto):
            yield from ((place + tensor.name, "initializer", tensor) for tensor in body.initializer)
            for sparse in body.sparse_initializer:
                yield place + sparse.values.name, "sparse", sparse.values
                yield f"{place}{sparse.values.name}/indices", "sparse", sparse.indices
        for node in body.node:
            if (tensor := constant_of(node)) is not None:
                yield place + (node.output[0] if node.output else node.name), "constant", tensor
        waiting += reversed(list(_inner(place, body.node)))


def _inner(place: str, nodes: Iterable[NodeProto]) -> Iterator[tuple[str, GraphProto]]:
    for node in nodes:
        outer = node.name or next(iter(node.output), node.op_type)
        for attribute in node.attribute:
            for inner in graph.inner_graphs(attribute):
                yield f"{place}{outer}.{attribute.name}/", inner


def weight_changes(before: str, after: str, names: list[str]) -> dict[str, dict[str, Any]]:
    """By name, how far float weights of equal shape lie apart; null where one is not finite and the other differs."""
    sides = []
    for path in (before, after):
        model = graph.load(Path(path), with_data=False)
        sides.append({name: tensor for name, _, tensor in weights(model) if name in set(names)})
    homes = Path(before).parent, Path(after).parent
    return {name: _apart((sides[0][name], sides[1][name]), homes) for name in names}


def _apart(pair: tuple[TensorProto, TensorProto], homes: tuple[Path, Path]) -> dict[str, Any]:
    """`max_rel` is in units of the weight's largest value: single values near zero would say nothing."""
    count, largest, scale, finite = 0, 0.0, 0.0, True
    with np.errstate(all="ignore"):
        for one, other in zip(*map(_arrays, pair, homes), strict=True):
            differs = (one != other) & ~(np.isnan(one) & np.isnan(other))
            count += int(differs.sum())
            gap = np.abs(other[differs] - one[differs])
            finite = finite and bool(np.isfinite(gap).all())
            largest = max(largest, float(gap.max(initial=0.0))) if finite else largest
            scale = max(scale, float(np.abs(one[np.isfinite(one)]).max(initial=0.0)))
    relative = largest / scale if finite and scale else None
    return {
        "elements_changed": count,
        "max_abs": largest if finite and math.isfinite(largest) else None,
        "max_rel": relative if relative is not None and math.isfinite(relative) else None,
    }


def _arrays(tensor: TensorProto, home: Path) -> Iterator[np.ndarray[Any, np.dtype[np.float64]]]:
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type).newbyteorder("<")
    for block in blocks(tensor, home, BLOCK_ELEMENTS * dtype.itemsize):
        yield np.frombuffer(block, dtype).astype(np.float64)
