"""Weights that are listed as inputs, as old exporters do it: a runtime leaves them as they lie in the file.

Freed of that, ONNX Runtime lays weights of convolutions out anew, which makes runs faster and every load slower.
"""

from __future__ import annotations

import math
from fractions import Fraction

from onnx import NodeProto, TensorProto, helper

from artifactctl.backends.streams import INSIDE_BYTES
from artifactctl.backends.view import View, attribute

LIGHT = Fraction(1, 12)  # of all float32 weights, by size: so many the load can bear, for nodes were fused meanwhile
_HEAVY = INSIDE_BYTES // 4  # values: what is fewer does not lie beside the model either
_COSTLY = ("ConvTranspose",)  # whose constant weights cost a load as much as many others, and gain nothing


def list_heavy(view: View) -> int:
    """All but what gains most by being constant are inputs again: first the weights of convolutions in groups, which
    ONNX Runtime computes many times slower in the plain layout, then the lightest. Early layers have the lightest
    weights and the most places to apply them to. Biases, limits and scales are constant in any case."""
    tensors = [tensor for tensor in view.stored() if tensor.data_type == TensorProto.FLOAT]
    sizes = {tensor.name: size for tensor in tensors if (size := math.prod(tensor.dims)) >= _HEAVY}
    left, constant = LIGHT * sum(sizes.values()), set[str]()

    def rank(node: NodeProto) -> tuple[bool, int, list[str]]:
        return attribute(node, "group", 1) == 1, sum(sizes.get(name, 0) for name in node.input), list(node.output)

    for node in sorted((node for node in view.nodes() if node.op_type not in _COSTLY), key=rank):
        own = {name for name in node.input if name in sizes} - constant
        if (size := sum(sizes[name] for name in own)) <= left:
            constant, left = constant | own, left - size
    listed = [tensor for tensor in tensors if tensor.name in sizes and tensor.name not in constant]
    view.graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)) for tensor in listed
    )
    return len(listed)
