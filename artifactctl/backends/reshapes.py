"""Shapes that a graph computes at every run though they are known before it, and steps that change nothing."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper

from artifactctl.backends.sizes import ONE, Shapes, as_target
from artifactctl.backends.view import View, attribute, like

_RESHAPING = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
_ALL = 10**9  # where a slice that ends there, or later, has everything


def reshapes(view: View) -> int:
    """Reshape by a constant, at once from the first of several to the last; no Slice of everything, nor Expand to the
    same size."""
    shapes, changed = Shapes(view), 0
    for node in view:
        if node.op_type in _RESHAPING:
            changed += _at_once(view, shapes, node)
        elif node.op_type in ("Slice", "Expand") and _does_nothing(shapes, node):
            view.bypass(node, node.input[0])
            changed += 1
    return changed


def _at_once(view: View, shapes: Shapes, node: NodeProto) -> bool:
    start = node.input[0]
    while (maker := view.producer.get(start)) is not None and maker.op_type in _RESHAPING:
        start = maker.input[0]
    before, after = shapes.shape(start), shapes.shape(node.output[0])
    if before is None or after is None:
        return False
    if before == after:
        view.bypass(node, start)
        return True
    known = node.op_type != "Reshape" or view.tensor(node.input[1]) is not None
    target = as_target(after, before)
    if target is None or (known and start == node.input[0]):
        return False
    constant = view.add(np.array(target, np.int64))
    view.swap([node], [helper.make_node("Reshape", [start, constant], [node.output[0]], name=node.name)])
    return True


def numbers(view: View) -> int:
    """A number that meets each value behind a reshape to [..., 1] meets it before: there ONNX Runtime takes a row at a
    time, here each value would be a row of its own."""
    shapes, changed = None, 0
    for node in view:
        sides = view.operands(node) if node.op_type in ("Add", "Sub", "Mul", "Div") else None
        number = view.number(sides[1]) if sides else None
        maker = view.producer.get(sides[0]) if sides else None
        if sides is None or number is None or maker is None or maker.op_type not in _RESHAPING:
            continue
        shapes = shapes or Shapes(view)
        before, after = shapes.shape(maker.input[0]), shapes.shape(sides[0])
        if view.only_user(sides[0]) is None or not before or not after or after[-1] != ONE or before[-1] == ONE:
            continue
        constant, value = view.add(np.array(number, np.float32)), view.name()
        inputs = [maker.input[0] if name == sides[0] else constant for name in node.input]
        last = like(maker, [value, *maker.input[1:]], node.output[0])
        shapes.shapes[value] = before
        view.swap([maker, node], [like(node, inputs, value), last])
        changed += 1
    return changed


def _does_nothing(shapes: Shapes, node: NodeProto) -> bool:
    before = shapes.shape(node.input[0])
    if before is None or node.op_type == "Expand":
        return before is not None and before == shapes.shape(node.output[0])
    given = [shapes.numbers(name) for name in node.input[1:]]
    if len(given) < 2 or any(entry is None for entry in given):
        return False
    starts, ends, *rest = (entry.ravel().tolist() for entry in given if entry is not None)
    axes, steps = rest[0] if rest else range(len(starts)), rest[1] if len(rest) > 1 else [1] * len(starts)
    sizes = [before[axis].number for axis in axes]
    reach = all(end >= (_ALL if size is None else size) for end, size in zip(ends, sizes, strict=True))
    return reach and not any(starts) and all(step == 1 for step in steps)


def transposes(view: View) -> int:
    """A dimension of 1 that is put in before a Transpose, and lost in the Reshape behind it, is never put in."""
    changed = 0
    for node in view:
        widened = view.producer.get(node.input[0]) if node.op_type == "Transpose" else None
        users = view.own_users(node.output[0])
        if widened is None or widened.op_type != "Unsqueeze" or not users:
            continue
        order, axes = attribute(node, "perm"), _axes(view, widened)
        targets = [view.constant(user.input[1]) for user in users if user.op_type == "Reshape"]
        if order is None or axes is None or len(targets) != len(users):
            continue
        if any(target is None or not target.all() for target in targets):
            continue  # a 0 counts the dimensions of what it reshapes
        kept = [axis for axis in range(len(order)) if axis not in {axis % len(order) for axis in axes}]
        if not kept:
            continue
        narrow, made = [kept.index(axis) for axis in order if axis in kept], view.name()
        new = helper.make_node("Transpose", [widened.input[0]], [made], name=node.name, perm=narrow)
        view.swap([node], [new])
        for user in users:
            view.swap([user], [like(user, [made, *user.input[1:]], user.output[0])])
        changed += 1
    return changed


def _axes(view: View, node: NodeProto) -> list[int] | None:
    if len(node.input) < 2:
        given: list[int] | None = attribute(node, "axes")
        return given
    found = view.constant(node.input[1])
    return None if found is None else [int(axis) for axis in found.ravel()]
