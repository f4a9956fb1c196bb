"""int8 layers whose sums may overflow 16 bits: unsigned activations times signed weights on x86 without VNNI.

There ONNX Runtime multiplies with VPMADDUBSW, which adds two products and cuts the sum off at 16 bits. Activations may
be anything up to 255, so two neighbouring weights whose sum is over 128 can be cut off; weights of 7 bits
(`reduce_range`) never are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from artifactctl.backends import graph
from artifactctl.backends.tensors import blocks, constant_of

Array = np.ndarray[Any, Any]

LARGEST_SUM = 128  # 255 * 128 fits into 16 bits, 255 * 129 does not
BLOCK = 1 << 22  # weights that are looked at together: a large one is not held several times over
# operator -> places of the activation's zero point (None: always unsigned) and of the weights
_QUANTIZED: dict[str, tuple[int | None, tuple[int, ...]]] = {
    "QLinearMatMul": (2, (3,)),
    "QLinearConv": (2, (3,)),
    "QGemm": (2, (3,)),
    "MatMulInteger": (2, (1,)),
    "ConvInteger": (2, (1,)),
    "MatMulIntegerToFloat": (4, (1,)),
    "DynamicQuantizeMatMul": (None, (1,)),
    "DynamicQuantizeLSTM": (None, (1, 2)),
    "QAttention": (6, (1,)),
}
_PLAIN = ("MatMul", "Gemm", "Conv", "FusedConv", "FusedMatMul")
_CONVOLUTIONS = ("Conv", "FusedConv", "QLinearConv", "ConvInteger")


@dataclass(slots=True)
class _Values:
    """What is known inside a graph, and in those around it."""

    weights: dict[str, TensorProto]
    made_by: dict[str, NodeProto]

    def inside(self, body: GraphProto) -> _Values:
        found = _Values(dict(self.weights), dict(self.made_by))
        found.weights |= {tensor.name: tensor for tensor in body.initializer}
        for node in body.node:
            tensor = constant_of(node)
            if tensor is not None:
                found.weights[node.output[0]] = tensor
            found.made_by |= dict.fromkeys(node.output, node)
        return found


def saturating_layers(path: str) -> list[dict[str, Any]]:
    """Each layer where it can happen, and in how many of its pairs of weights."""
    file = Path(path)
    return _layers(graph.load(file, with_data=False), file.parent)


def _layers(model: ModelProto, home: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    waiting = [(model.graph, _Values({}, {}))]
    while waiting:
        body, outer = waiting.pop()
        values = outer.inside(body)
        for node in body.node:
            if layer := _layer(node, values, home):
                found.append(layer)
            waiting += [(inner, values) for attribute in node.attribute for inner in graph.inner_graphs(attribute)]
    return found


def _layer(node: NodeProto, values: _Values, home: Path) -> dict[str, Any] | None:
    pairs = total = 0
    for tensor in _signed_weights(node, values):
        if not tensor.dims or 0 in tensor.dims:
            continue
        content = b"".join(blocks(tensor, home))
        rows = rows_of(node, np.frombuffer(content, np.int8).reshape(tuple(tensor.dims)))
        worst, of = max((count(order) for order in rows), key=lambda item: item[0])
        pairs, total = pairs + worst, total + of
    if not pairs:
        return None
    return {"layer": node.name or node.output[0], "operator": node.op_type, "pairs": pairs, "of": total}


def _signed_weights(node: NodeProto, values: _Values) -> list[TensorProto]:
    """The int8 weights that are multiplied with uint8 activations, if that is what the node does."""
    if node.op_type in _QUANTIZED:
        zero, places = _QUANTIZED[node.op_type]
        unsigned = zero is None or _is_unsigned(_input(node, zero), _input(node, 0), values)
        names = [_input(node, place) for place in places]
    elif node.op_type in _PLAIN:
        activation, weights = (values.made_by.get(_input(node, place)) for place in (0, 1))
        if not _dequantizes(activation) or not _dequantizes(weights):
            return []
        assert activation is not None
        assert weights is not None
        unsigned = _is_unsigned(_input(activation, 2), _input(activation, 0), values)
        names = [_input(weights, 0)]
    else:
        return []
    tensors = [values.weights[name] for name in names if name in values.weights]
    return [tensor for tensor in tensors if unsigned and tensor.data_type == TensorProto.INT8]


def _dequantizes(node: NodeProto | None) -> bool:
    return node is not None and node.op_type == "DequantizeLinear"


def _is_unsigned(zero_point: str, value: str, values: _Values) -> bool:
    """By the zero point; where it is computed or left out, by what made the value. What is not known counts as so."""
    if zero := values.weights.get(zero_point):
        return zero.data_type == TensorProto.UINT8
    maker = values.made_by.get(value)
    if maker is None or maker.op_type != "QuantizeLinear":
        return True
    if zero := values.weights.get(_input(maker, 2)):
        return zero.data_type == TensorProto.UINT8
    asked = next((item.i for item in maker.attribute if item.name == "output_dtype"), 0)
    return asked in (0, TensorProto.UINT8)


def _input(node: NodeProto, place: int) -> str:
    return node.input[place] if len(node.input) > place else ""


def rows_of(node: NodeProto, weights: Array) -> list[Array]:
    """The weights of one output as the last axis, in each order in which they may be multiplied."""
    if node.op_type in _CONVOLUTIONS and weights.ndim > 1:
        # as stored, and with the channels last
        return [weights.reshape(weights.shape[0], -1), np.moveaxis(weights, 1, -1).reshape(weights.shape[0], -1)]
    transposed = node.op_type == "LSTM" or any(item.name == "transB" and item.i for item in node.attribute)
    return [weights if transposed or weights.ndim < 2 else np.swapaxes(weights, -1, -2)]


def count(rows: Array, steps: Callable[[Array], Array] = lambda part: part) -> tuple[int, int]:
    """Pairs that can be cut off, and all of them; `steps` makes int8 of a block of rows."""
    rows = rows.reshape(-1, rows.shape[-1])
    width, together = rows.shape[-1], max(1, BLOCK // max(1, rows.shape[-1]))
    found = total = 0
    for start in range(0, len(rows), together):
        part = steps(rows[start : start + together])
        even = np.zeros((len(part), width + width % 2), np.int16)
        even[:, :width] = part
        first, second = even[:, ::2], even[:, 1::2]
        high = np.maximum(first, 0) + np.maximum(second, 0) > LARGEST_SUM
        low = np.minimum(first, 0) + np.minimum(second, 0) < -LARGEST_SUM
        found, total = found + int(np.count_nonzero(high | low)), total + first.size
    return found, total
