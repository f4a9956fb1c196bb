"""Convolutions of few channels, which leave most lanes of a vector unit idle.

ONNX Runtime's convolutions compute sixteen output channels at a time with AVX-512, else eight: one of a single channel
takes as long as one of sixteen. Here the neighbours along an axis become channels too, of one convolution with a longer
kernel (zeros beside the weights) and a longer stride, and are laid side by side again behind it. What is infinite meets
those zeros, so that more of the values around it are no numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from artifactctl.backends.affine import Array, is_plain, weights_of
from artifactctl.backends.sizes import Shapes
from artifactctl.backends.view import View, attribute, like

LANES = (16, 8)  # a file is for both
_FACTORS = (2, 4, 8, 16)
_WORTH = 0.6  # of the time before, by the count of products
_LEAST = 1 << 20  # products of one sample, idle lanes included: less is not worth three operators more
_LARGEST = 1 << 18  # weights that a kernel may become
_OPSET = 10  # Slice by inputs
_SPATIAL = (2, 3)
_ACTIVATIONS = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Clip")  # ONNX Runtime makes them part of it


@dataclass(frozen=True, slots=True)
class Split:
    """`factor` neighbours along an axis as channels, where the axis has `size` values, and the other one `other`."""

    axis: int
    factor: int
    size: int
    other: int
    cost: float

    @property
    def full(self) -> int:
        """Values that are computed: a last group that is not full is filled up."""
        return -(-self.size // self.factor) * self.factor


def lanes(view: View) -> int:
    changed, sizes = 0, None
    for node in view if view.opset >= _OPSET else ():
        if not is_plain(view, node) or attribute(node, "group", 1) != 1 or not _is_explicit(node):
            continue
        weights = view.tensor(node.input[1])
        if weights is None or weights.dims[0] > max(LANES) // 2:
            continue
        sizes = sizes or Shapes(view)
        split = _best(view, node, sizes)
        if split is not None:
            _apply(view, node, split, sizes)
            changed += 1
    return changed


def _is_explicit(conv: NodeProto) -> bool:
    padded = attribute(conv, "auto_pad", b"NOTSET") == b"NOTSET"
    return padded and set(attribute(conv, "dilations", [1, 1])) == {1}


def _best(view: View, conv: NodeProto, sizes: Shapes) -> Split | None:
    found = min(_splits(view, conv, sizes), key=lambda split: split.cost, default=None)
    return found if found is not None and found.cost <= _WORTH else None


def _splits(view: View, conv: NodeProto, sizes: Shapes) -> Iterator[Split]:
    made, taken = sizes.shape(conv.output[0]), sizes.shape(conv.input[0])
    weights = view.tensor(conv.input[1])
    if made is None or taken is None or weights is None:
        return
    channels, strides = weights.dims[0], attribute(conv, "strides", [1, 1])
    for axis in _SPATIAL:
        size, other = made[axis].number, made[5 - axis].number
        if size is None or other is None or taken[axis].number is None:
            continue  # a Reshape cannot tell it where there are no samples at all
        if size * other * math.prod(weights.dims[1:]) * max(LANES) < _LEAST:
            continue
        for factor in _FACTORS:
            kernel = weights.dims[axis] + (factor - 1) * strides[axis - 2]
            if factor > size or math.prod(weights.dims) // weights.dims[axis] * kernel * factor > _LARGEST:
                continue
            longer = kernel * -(-size // factor) / (weights.dims[axis] * size)
            cost = max(longer * -(-channels * factor // width) / -(-channels // width) for width in LANES)
            yield Split(axis, factor, size, other, cost)


def _apply(view: View, conv: NodeProto, split: Split, sizes: Shapes) -> None:
    axis, factor = split.axis, split.factor
    weights, bias = weights_of(view, conv)
    strides, pads = list(attribute(conv, "strides", [1, 1])), list(attribute(conv, "pads", [0] * 4))
    spread = _spread(weights, axis, factor, strides[axis - 2])
    strides[axis - 2] *= factor
    taken = sizes.shape(conv.input[0])
    assert taken is not None
    covered = (split.full // factor - 1) * strides[axis - 2] + spread.shape[axis]
    pads[axis] += max(0, covered - taken[axis].factor - pads[axis - 2] - pads[axis])
    constants = [view.add(values.astype(np.float32)) for values in (spread, np.repeat(bias, factor))]
    value, end = view.name(), conv.output[0]
    made = helper.make_node("Conv", [conv.input[0], *constants], [value], name=conv.name, strides=strides, pads=pads)
    old, new = [conv], [made]
    after = view.only_user(end)
    if after is not None and after.op_type in _ACTIVATIONS and after.input[0] == end:
        old, new, end = [conv, after], [*new, like(after, [value, *after.input[1:]], view.name())], after.output[0]
    view.swap(old, [*new, *_side_by_side(view, new[-1].output[0], end, len(weights), split)])


def _spread(weights: Array, axis: int, factor: int, stride: int) -> Array:
    """A kernel for each neighbour, each a stride further along."""
    shape = list(weights.shape)
    shape[axis] += (factor - 1) * stride
    spread = np.zeros((len(weights), factor, *shape[1:]))
    for number in range(factor):
        place = [slice(None)] * 4
        place[axis] = slice(number * stride, number * stride + weights.shape[axis])
        spread[:, number][tuple(place)] = weights
    return spread.reshape(-1, *shape[1:])


def _side_by_side(view: View, value: str, target: str, channels: int, split: Split) -> list[NodeProto]:
    """[N, C · factor, ...] to [N, C, ...], and what was filled up is cut off."""
    rows = split.axis == _SPATIAL[0]
    groups, other = split.full // split.factor, split.other
    apart = [0, channels, split.factor, *((groups, other) if rows else (other, groups))]
    whole = [0, channels, *((split.full, other) if rows else (other, split.full))]
    filled = split.full > split.size
    names = [view.name(), view.name(), view.name() if filled else target]
    new = [
        helper.make_node("Reshape", [value, view.add(np.array(apart, np.int64))], [names[0]]),
        helper.make_node("Transpose", [names[0]], [names[1]], perm=[0, 1, 3, 2, 4] if rows else [0, 1, 3, 4, 2]),
        helper.make_node("Reshape", [names[1], view.add(np.array(whole, np.int64))], [names[2]]),
    ]
    if filled:
        limits = [view.add(np.array([number], np.int64)) for number in (0, split.size, split.axis)]
        new.append(helper.make_node("Slice", [names[2], *limits], [target]))
    return new
