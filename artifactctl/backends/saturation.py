"""int8 layers whose sums may overflow 16 bits: unsigned activations times signed weights on x86 without VNNI.

There ONNX Runtime multiplies with VPMADDUBSW, which adds two products and cuts the sum off at 16 bits. Activations may
be anything up to 255, so two neighbouring weights whose sum is over 128 can be cut off; weights of 7 bits
(`reduce_range`) never are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from artifactctl.backends import graph
from artifactctl.backends.tensors import blocks, constant_of

LARGEST_SUM = 128  # 255 * 128 fits into 16 bits, 255 * 129 does not
# operator -> places of the activation's zero point (None: always unsigned) and of the weights
_QUANTIZED: dict[str, tuple[int | None, int]] = {
    "QLinearMatMul": (2, 3),
    "QLinearConv": (2, 3),
    "QGemm": (2, 3),
    "MatMulInteger": (2, 1),
    "ConvInteger": (2, 1),
    "MatMulIntegerToFloat": (4, 1),
    "DynamicQuantizeMatMul": (None, 1),
    "QAttention": (6, 1),
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
    tensor = _signed_weights(node, values)
    if tensor is None or not tensor.dims or 0 in tensor.dims:
        return None
    content = b"".join(blocks(tensor, home))
    rows = rows_of(node, np.frombuffer(content, np.int8).reshape(tuple(tensor.dims)))
    pairs, total = max((count(order) for order in rows), key=lambda item: item[0])
    if not pairs:
        return None
    return {"layer": node.name or node.output[0], "operator": node.op_type, "pairs": pairs, "of": total}


def _signed_weights(node: NodeProto, values: _Values) -> TensorProto | None:
    """The int8 weights that are multiplied with uint8 activations, if that is what the node does."""
    if node.op_type in _QUANTIZED:
        zero, place = _QUANTIZED[node.op_type]
        unsigned = zero is None or _is_unsigned(_input(node, zero), _input(node, 0), values)
        tensor = values.weights.get(_input(node, place))
    elif node.op_type in _PLAIN:
        activation, weights = (values.made_by.get(_input(node, place)) for place in (0, 1))
        if not _dequantizes(activation) or not _dequantizes(weights):
            return None
        assert activation is not None
        assert weights is not None
        unsigned = _is_unsigned(_input(activation, 2), _input(activation, 0), values)
        tensor = values.weights.get(_input(weights, 0))
    else:
        return None
    return tensor if unsigned and tensor is not None and tensor.data_type == TensorProto.INT8 else None


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


def rows_of(node: NodeProto, weights: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The weights of one output as the last axis, in each order in which they may be multiplied."""
    if node.op_type in _CONVOLUTIONS and weights.ndim > 1:
        # as stored, and with the channels last
        return [weights.reshape(weights.shape[0], -1), np.moveaxis(weights, 1, -1).reshape(weights.shape[0], -1)]
    transposed = any(item.name == "transB" and item.i for item in node.attribute)
    return [weights if transposed or weights.ndim < 2 else np.swapaxes(weights, -1, -2)]


def count(rows: np.ndarray[Any, Any]) -> tuple[int, int]:
    width = rows.shape[-1]
    even = np.zeros((*rows.shape[:-1], width + width % 2), np.int16)
    even[..., :width] = rows
    first, second = even[..., ::2], even[..., 1::2]
    high = np.maximum(first, 0) + np.maximum(second, 0) > LARGEST_SUM
    low = np.minimum(first, 0) + np.minimum(second, 0) < -LARGEST_SUM
    return int(np.count_nonzero(high | low)), int(first.size)
