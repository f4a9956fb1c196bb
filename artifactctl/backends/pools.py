"""Pools that may be larger than what they pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper

from artifactctl.backends.sizes import Shapes
from artifactctl.backends.view import View, attribute, like

_FIRST_OPSET = 11  # where Pad is told at run time how much to add


def pools(view: View) -> int:
    """ONNX Runtime pools what is there; other providers refuse. So data are filled up to the pool's size, and a mean is
    taken of as many as there were. Where there are enough, nothing is added, and the mean is multiplied by one."""
    shapes, changed = Shapes(view), 0
    for node in view:
        if view.opset >= _FIRST_OPSET and _may_be_larger(shapes, node):
            view.swap([node], _filled_up(view, node))
            changed += 1
    return changed


def _may_be_larger(shapes: Shapes, node: NodeProto) -> bool:
    """Pools of two dimensions that step by their own size, over data that are free in one of them."""
    if node.op_type not in ("AveragePool", "MaxPool") or len(node.output) != 1:
        return False
    kernel, sizes = attribute(node, "kernel_shape"), shapes.shape(node.input[0])
    if sizes is None or len(sizes) != 4 or list(attribute(node, "strides", ())) != list(kernel):
        return False
    odd = any(attribute(node, name, 0) for name in ("ceil_mode", "count_include_pad", "storage_order"))
    odd |= any(attribute(node, "pads", ())) or attribute(node, "auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
    odd |= any(step != 1 for step in attribute(node, "dilations", ()))
    known = shapes.type_of(node.input[0]) == TensorProto.FLOAT
    return known and not odd and any(size.number is None for size in sizes[2:])


def _filled_up(view: View, node: NodeProto) -> list[NodeProto]:
    kernel = attribute(node, "kernel_shape")
    shape, sizes, short, missing, pads, data = (view.name() for _ in range(6))
    mean = node.op_type == "AveragePool"
    fill = view.add(np.array(0.0 if mean else np.finfo(np.float32).min, np.float32))
    pooled = view.name() if mean else node.output[0]
    new = [
        helper.make_node("Shape", [node.input[0]], [shape]),
        helper.make_node("Slice", [shape, _whole(view, [2]), _whole(view, [4])], [sizes]),
        helper.make_node("Sub", [_whole(view, kernel), sizes], [short]),
        helper.make_node("Max", [short, _whole(view, [0, 0])], [missing]),
        helper.make_node("Concat", [_whole(view, [0] * 6), missing], [pads], axis=0),
        helper.make_node("Pad", [node.input[0], pads, fill], [data], mode="constant"),
        like(node, [data], pooled),
    ]
    return [*new, *_mean_of_what_was_there(view, kernel, sizes, pooled, node.output[0])] if mean else new


def _mean_of_what_was_there(view: View, kernel: Sequence[int], sizes: str, pooled: str, target: str) -> list[NodeProto]:
    counts, shares, factors, factor = (view.name() for _ in range(4))
    given, ones = (view.add(np.array(numbers, np.float32)) for numbers in (kernel, [1, 1]))
    return [
        helper.make_node("Cast", [sizes], [counts], to=TensorProto.FLOAT),
        helper.make_node("Div", [given, counts], [shares]),
        helper.make_node("Max", [shares, ones], [factors]),
        helper.make_node("ReduceProd", [factors], [factor], keepdims=1),
        helper.make_node("Mul", [pooled, factor], [target]),
    ]


def _whole(view: View, numbers: Sequence[int]) -> str:
    return view.add(np.array(numbers, np.int64))
