"""Weights that are listed as inputs, as old exporters do it: a runtime leaves them as they lie in the file.

Freed of that, ONNX Runtime lays weights of convolutions out anew, which makes runs faster and every load slower.
"""

from __future__ import annotations

import math
from fractions import Fraction

from onnx import TensorProto, helper

from artifactctl.backends.view import View

LIGHT = Fraction(1, 12)  # of all float32 weights, by size: so many the load can bear, for nodes were fused meanwhile


def list_heavy(view: View) -> int:
    """All but the lightest are inputs again. Early layers have the lightest weights and the most places to apply them
    to: most of the gain is there, and little of the work at each load."""
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in view.stored() if tensor.data_type == TensorProto.FLOAT}
    light, listed = LIGHT * sum(sizes.values()), list[str]()
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        light -= sizes[name]
        if light < 0:
            listed.append(name)
    view.graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        for tensor in view.stored()
        if tensor.name in listed
    )
    return len(listed)
