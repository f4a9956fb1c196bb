"""Pools that may be larger than what they pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, helper

from artifactctl.backends.sizes import Shapes
from artifactctl.backends.view import View, attribute, like

_FIRST_OPSET = 12  # where Max takes integers


def pools(view: View) -> int:
    """ONNX Runtime pools what is there; other providers refuse. With room behind the data every pool fits, and still
    takes what is there; one too many at the end, where data are left over, is cut off."""
    shapes, changed = Shapes(view), 0
    for node in view:
        if view.opset >= _FIRST_OPSET and _may_be_larger(shapes, node):
            view.swap([node], _with_room(view, node))
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
    return not odd and any(size.number is None for size in sizes[2:])


def _with_room(view: View, node: NodeProto) -> list[NodeProto]:
    kernel = list(attribute(node, "kernel_shape"))
    pooled, shape, sizes, whole, count = (view.name() for _ in range(5))
    pool = like(node, [node.input[0]], pooled)
    kept = [entry for entry in pool.attribute if entry.name not in ("pads", "auto_pad")]
    room = helper.make_attribute("pads", [0, 0, *(size - 1 for size in kernel)])
    del pool.attribute[:]
    pool.attribute.extend([*kept, room])
    return [
        pool,
        helper.make_node("Shape", [node.input[0]], [shape]),
        helper.make_node("Slice", [shape, _numbers(view, [2]), _numbers(view, [4])], [sizes]),
        helper.make_node("Div", [sizes, _numbers(view, kernel)], [whole]),
        helper.make_node("Max", [whole, _numbers(view, [1, 1])], [count]),
        helper.make_node("Slice", [pooled, _numbers(view, [0, 0]), count, _numbers(view, [2, 3])], [node.output[0]]),
    ]


def _numbers(view: View, numbers: Sequence[int]) -> str:
    return view.add(np.array(numbers, np.int64))
