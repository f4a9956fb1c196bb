"""Activations that exporters write in pieces, or that leave the layout of the convolutions around them."""

from __future__ import annotations

import math

import numpy as np
from onnx import NodeProto, helper

from artifactctl.backends import runtime
from artifactctl.backends.affine import LARGEST_FACTOR, Array, channels_of, each_channel, is_plain, scaled
from artifactctl.backends.sizes import Shapes, Sizes
from artifactctl.backends.view import View, attribute, like

_FUSES_HARD_SWISH = (1, 30)
_BLOCK = 16  # channels that lie together in the layout of convolutions: others are filled up at each step
_SMALL = 8192  # values of one sample
_STEEPEST = -8
_IN_LAYOUT = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "Add", "Mul", "Concat", "Relu")


def hard_swish(view: View) -> int:
    """x · Clip(x + 3, 0, 6) / 6 as HardSwish, which ONNX Runtime makes part of a convolution before it."""
    changed, shapes = 0, None
    for clip in view:
        if clip.op_type != "Clip" or _limits(view, clip) != (0.0, 6.0):
            continue
        add, product = view.producer.get(clip.input[0]), view.only_user(clip.output[0])
        if add is None or product is None or view.only_user(add.output[0]) is None:
            continue
        sides = view.operands(add) if add.op_type == "Add" else None
        if not sides or view.number(sides[1]) != 3.0 or product.op_type != "Mul":
            continue
        if sorted(product.input) != sorted((sides[0], clip.output[0])):
            continue
        old, factor = [add, clip, product], 6.0
        scaled = view.only_user(product.output[0])
        if scaled is not None and (found := _factor(view, scaled)) is not None:
            old, factor = [*old, scaled], 6.0 * found
        shapes = shapes or Shapes(view)
        if not shapes.shape(sides[0]) or abs(factor) > LARGEST_FACTOR:
            continue  # a number (shape []) beside a constant of shape [1] is a row, and would stay a number
        view.swap(old, _hard_swish(view, sides[0], factor, old[-1].output[0]))
        changed += 1
    return changed


def gates(view: View) -> int:
    """x · HardSigmoid(x) behind a convolution, which ONNX Runtime makes part of it from 1.30 on. Before that it leaves
    the layout; but a convolution of 1 x 1 for each channel that changes nothing may have HardSigmoid in it."""
    changed = 0
    for node in view if runtime.version() < _FUSES_HARD_SWISH else ():
        channels = channels_of(view, node.input[0]) if node.op_type in ("HardSwish", "HardSigmoid") else None
        if channels is None or channels % _BLOCK:
            continue
        if node.op_type == "HardSigmoid":
            product = view.only_user(node.output[0])
            if product is None or product.op_type != "Mul" or node.input[0] not in product.input:
                continue
        same, value = view.name(), node.input[0]
        kept = each_channel(view, value, np.ones(channels), np.zeros(channels), same)
        whole = node.op_type == "HardSwish"
        new = _gated(view, value, same, node.output[0]) if whole else [like(node, [same], node.output[0])]
        view.swap([node], [kept, *new])
        changed += 1
    return changed


def _gated(view: View, value: str, same: str, target: str) -> list[NodeProto]:
    gate = view.name()
    return [
        helper.make_node("HardSigmoid", [same], [gate], alpha=1 / 6, beta=0.5),
        helper.make_node("Mul", [value, gate], [target]),
    ]


def _hard_swish(view: View, value: str, factor: float, target: str) -> list[NodeProto]:
    alone = abs(factor - 1) < 1e-6
    whole = target if alone else view.name()
    named = view.opset >= 14
    new = [helper.make_node("HardSwish", [value], [whole])] if named else _gated(view, value, value, whole)
    if alone:
        return new
    return [*new, helper.make_node("Mul", [whole, view.add(np.array(factor, np.float32))], [target])]


def _factor(view: View, node: NodeProto) -> float | None:
    """What a node multiplies its value by, if that is all it does."""
    sides = view.operands(node)
    number = view.number(sides[1]) if sides else None
    if sides is None or number is None:
        return None
    if node.op_type == "Mul":
        return number
    return 1 / number if node.op_type == "Div" and node.input[0] == sides[0] and number else None


def _limits(view: View, clip: NodeProto) -> tuple[float | None, float | None]:
    if view.opset < 11:
        return attribute(clip, "min"), attribute(clip, "max")
    if len(clip.input) != 3:
        return None, None
    return view.number(clip.input[1]), view.number(clip.input[2])


def _stays(view: View, name: str) -> bool:
    """Whether what takes a value takes it in the layout of convolutions: else it is laid out anew in any case."""
    return any(user.op_type in _IN_LAYOUT for user in view.users(name) or ())


def prelu(view: View) -> int:
    """Behind a convolution that gives z = (1 - slope) · x in place of x: Relu(z) + z · slope / (1 - slope), the second
    a convolution of 1 x 1 for each channel. All of it keeps the layout, and no graph level has to fuse it at a load."""
    changed, sizes = 0, None
    for node in view:
        slopes = _slopes(view, node) if node.op_type == "PRelu" else None
        if slopes is None or not _stays(view, node.output[0]):
            continue
        sizes = sizes or Shapes(view)
        if _is_small(sizes.shape(node.output[0])):
            continue
        conv, value, positive, part = view.producer[node.input[0]], view.name(), view.name(), view.name()
        new = [
            scaled(view, conv, 1 - slopes, value),
            helper.make_node("Relu", [value], [positive]),
            each_channel(view, value, slopes / (1 - slopes), np.zeros(len(slopes)), part),
            helper.make_node("Add", [part, positive], [node.output[0]]),
        ]
        view.swap([conv, node], new)
        changed += 1
    return changed


def _slopes(view: View, node: NodeProto) -> Array | None:
    """One for each channel of a convolution whose values nobody else takes. None is 0, which times infinity is no
    number, nor far below it, where two large parts would cancel out; of one below it infinity gives no number."""
    conv, slope = view.producer.get(node.input[0]), view.constant(node.input[1])
    if conv is None or slope is None or slope.dtype != np.float32 or not is_plain(view, conv):
        return None
    channels, shape = channels_of(view, node.input[0]), (1,) * (4 - slope.ndim) + slope.shape
    fits = channels is not None and (slope.size == 1 or shape == (1, channels, 1, 1))
    if (
        not fits
        or view.only_user(node.input[0]) is None
        or not ((slope > _STEEPEST) & (slope < 1) & (slope != 0)).all()
    ):
        return None
    return np.broadcast_to(slope.astype(np.float64).ravel(), (channels or 0,))


def _is_small(shape: Sizes | None) -> bool:
    """Known to be: to lay out so few values anew takes less than to load three operators in place of one."""
    numbers = [size.number for size in shape[1:]] if shape else [None]
    return None not in numbers and math.prod(number or 0 for number in numbers) < _SMALL
