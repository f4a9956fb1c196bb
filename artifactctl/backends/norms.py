"""Layer normalization and GELU as their frameworks write them in pieces, in the pieces that ONNX Runtime knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper

from artifactctl.backends import runtime
from artifactctl.backends.sizes import Shapes
from artifactctl.backends.view import View, attribute

_SOUND = (1, 27)  # before it ONNX Runtime took E[x²] - E[x]² for the variance, which may come out negative: no number
_CUBIC, _ROOT = 0.044715, 0.7978845608  # of the tanh form of GELU; the second is sqrt(2 / pi)
_DEEPEST = 4  # products in products that a factor of it may be made of


def layer_norm(view: View) -> int:
    """TensorFlow's x · s + (b - mean · s), where s = g / sqrt(var + e), as (x - mean) / sqrt(var + e) · g + b."""
    shapes, changed = Shapes(view), 0
    for node in view if runtime.version() >= _SOUND else ():
        if node.op_type == "Add" and (new := _normalized(view, shapes, node)):
            view.swap([node], new)
            changed += 1
    return changed


def _normalized(view: View, shapes: Shapes, last: NodeProto) -> list[NodeProto] | None:
    for one, other in (last.input, reversed(last.input)):
        scaled, shift = _made(view, one, "Mul"), _made(view, other, "Sub")
        moved = _made(view, shift.input[1], "Mul") if shift is not None else None
        if scaled is None or shift is None or moved is None:
            continue
        for value, scale in (scaled.input, reversed(scaled.input)):
            rest = [name for name in moved.input if name != scale]
            if len(rest) == 1 and _averaged(view, shapes, rest[0]) == value:
                return _norm(view, shapes, value, rest[0], scale, shift.input[0], last.output[0])
    return None


def _norm(
    view: View, shapes: Shapes, value: str, mean: str, scale: str, beta: str, target: str
) -> list[NodeProto] | None:
    found = _made(view, scale, "Mul")
    sides = view.operands(found) if found is not None else None
    inverse = _made(view, sides[0], "Reciprocal") if sides else None
    root = _made(view, inverse.input[0], "Sqrt") if inverse is not None else None
    added = _made(view, root.input[0], "Add") if root is not None else None
    variance = view.operands(added) if added is not None else None
    if sides is None or variance is None or (epsilon := view.number(variance[1])) is None:
        return None
    square = view.producer.get(_averaged(view, shapes, variance[0]) or "")
    if square is None or not _is_square(view, square):
        return None
    difference = _made(view, square.input[0], "Sub")
    if difference is None or list(difference.input) != [value, mean]:
        return None
    size = (shapes.shape(value) or ())[-1:]
    if not all(_is_row(view, name, size[0].number if size else None) for name in (sides[1], beta)):
        return None
    return _norm_nodes(view, value, sides[1], beta, epsilon, target)


def _norm_nodes(view: View, value: str, gamma: str, beta: str, epsilon: float, target: str) -> list[NodeProto]:
    if view.opset >= 17:
        return [helper.make_node("LayerNormalization", [value, gamma, beta], [target], axis=-1, epsilon=epsilon)]
    mean, apart, square, variance, safe, root, whole, scaled = (view.name() for _ in range(8))
    two, small = (view.add(np.array(number, np.float32)) for number in (2.0, epsilon))
    return [
        helper.make_node("ReduceMean", [value], [mean], axes=[-1]),
        helper.make_node("Sub", [value, mean], [apart]),
        helper.make_node("Pow", [apart, two], [square]),
        helper.make_node("ReduceMean", [square], [variance], axes=[-1]),
        helper.make_node("Add", [variance, small], [safe]),
        helper.make_node("Sqrt", [safe], [root]),
        helper.make_node("Div", [apart, root], [whole]),
        helper.make_node("Mul", [whole, gamma], [scaled]),
        helper.make_node("Add", [scaled, beta], [target]),
    ]


def _made(view: View, name: str, operator: str) -> NodeProto | None:
    node = view.producer.get(name)
    return node if node is not None and node.op_type == operator and not node.domain else None


def _averaged(view: View, shapes: Shapes, name: str) -> str | None:
    """What a value is the mean of, over the last dimension, which is kept."""
    node = view.producer.get(name)
    sizes = shapes.shape(node.input[0]) if node is not None and node.input else None
    if node is None or sizes is None:
        return None
    if node.op_type == "GlobalAveragePool":
        return node.input[0] if len(sizes) == 3 else None
    axes = attribute(node, "axes") if view.opset < 18 else shapes.value(node.input[1]) if node.input[1:] else None
    last = [getattr(axis, "number", axis) for axis in axes or ()] in ([-1], [len(sizes) - 1])
    return node.input[0] if node.op_type == "ReduceMean" and last and attribute(node, "keepdims", 1) else None


def _is_square(view: View, node: NodeProto) -> bool:
    if node.op_type == "Mul":
        return bool(node.input[0] == node.input[1])
    return node.op_type == "Pow" and view.number(node.input[1]) == 2.0


def _is_row(view: View, name: str, size: int | None) -> bool:
    tensor = view.tensor(name)
    return tensor is not None and tensor.data_type == TensorProto.FLOAT and list(tensor.dims) == [size]


def gelu(view: View) -> int:
    """x / 2 · (1 + tanh(sqrt(2 / pi) · (x + 0.044715 · x³))), however its factors are ordered, in one order."""
    shapes, done = Shapes(view), set[str]()
    for node in view:
        if node.op_type != "Tanh" or (value := _inner(view, node)) is None or value in done:
            continue
        whole, rank = view.only_user(node.output[0]), len(shapes.shape(value) or ())
        if not rank or whole is None or whole.op_type != "Add" or not _adds_one(view, whole, rank):
            continue  # a number (shape []) beside a constant of shape [1] is a row, and would stay a number
        last = _outer(view, whole, value)
        if last is not None:
            view.swap([last], _gelu_nodes(view, value, last.output[0]))
            done.add(value)
    return len(done)


def _adds_one(view: View, node: NodeProto, rank: int) -> bool:
    """Whatever the shape of the one, if it adds no dimension to what it meets."""
    sides = view.operands(node)
    one = view.constant(sides[1]) if sides else None
    return one is not None and one.dtype == np.float32 and one.size == 1 and one.ndim <= rank and one.item() == 1.0


def _factors(view: View, name: str, deepest: int = _DEEPEST) -> tuple[float, list[str]]:
    """A value as a number times values, as far as it is made of products."""
    number = view.number(name)
    if number is not None:
        return number, []
    node = view.producer.get(name)
    if node is None or node.op_type != "Mul" or not deepest:
        power = node is not None and node.op_type == "Pow" and view.number(node.input[1]) == 3.0
        return 1.0, [node.input[0]] * 3 if power and node is not None else [name]
    (one, first), (other, second) = (_factors(view, entry, deepest - 1) for entry in node.input)
    return one * other, first + second


def _inner(view: View, tanh: NodeProto) -> str | None:
    """The x that a tanh is of, if it is that of a GELU."""
    factor, rest = _factors(view, tanh.input[0])
    added = view.producer.get(rest[0]) if len(rest) == 1 and _near(factor, _ROOT) else None
    if added is None or added.op_type != "Add":
        return None
    for value, cubic in (added.input, reversed(added.input)):
        if (found := _factors(view, cubic))[1] == [value] * 3 and _near(found[0], _CUBIC):
            return str(value)
    return None


def _near(number: float, wanted: float) -> bool:
    return abs(number - wanted) < 1e-6


def _outer(view: View, whole: NodeProto, value: str) -> NodeProto | None:
    """The product that ends it."""
    node: NodeProto | None = whole
    for _ in range(3):
        node = view.only_user(node.output[0]) if node is not None else None
        if node is None or node.op_type != "Mul":
            return None
        factor, rest = _factors(view, node.output[0])
        if factor == 0.5 and sorted(rest) == sorted((value, whole.output[0])):
            return node
    return None


def _gelu_nodes(view: View, value: str, target: str) -> Sequence[NodeProto]:
    cube, part, inside, scaled, bent, whole, half = (view.name() for _ in range(7))
    three, cubic, root, one, two = (view.add(np.array(number, np.float32)) for number in (3.0, _CUBIC, _ROOT, 1.0, 0.5))
    return [
        helper.make_node("Pow", [value, three], [cube]),
        helper.make_node("Mul", [cube, cubic], [part]),
        helper.make_node("Add", [value, part], [inside]),
        helper.make_node("Mul", [inside, root], [scaled]),
        helper.make_node("Tanh", [scaled], [bent]),
        helper.make_node("Add", [bent, one], [whole]),
        helper.make_node("Mul", [value, two], [half]),
        helper.make_node("Mul", [half, whole], [target]),
    ]
