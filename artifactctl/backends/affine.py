"""Multiplications and additions of constants that a convolution beside them can do by itself.

ONNX Runtime folds them only behind a convolution, and only constants of shape [] or [1, C, 1, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from artifactctl.backends.view import View, attribute, like

Array = np.ndarray[Any, Any]
# what has as many channels as what it is made of
_SAME_CHANNELS = {"Relu", "Clip", "HardSigmoid", "Sigmoid", "Tanh", "LeakyRelu", "Identity", "PRelu", "HardSwish"}
_SAME_CHANNELS |= {"MaxPool", "AveragePool", "GlobalAveragePool", "BatchNormalization"}
LARGEST_FACTOR = 1e19  # times another one it is still a float32
_DEEPEST = 8  # operators looked back for the convolution that tells the channels


@dataclass(frozen=True, slots=True)
class Chain:
    """start · scale + shift, for each channel, as these nodes compute it."""

    start: str
    end: str
    scale: Array
    shift: Array
    nodes: tuple[NodeProto, ...]


def into_conv(view: View) -> int:
    """Into the convolution before, else into those behind."""
    changed = 0
    for node in view:
        if node.op_type not in ("Mul", "Add", "Sub", "Div"):
            continue
        chain = chain_from(view, node)
        if chain and (_into_one_before(view, chain) or _into_those_behind(view, chain)):
            changed += 1
    return changed


def one_convolution(view: View) -> int:
    """Chains that no convolution can take, as one of 1 x 1 for each channel: it keeps the layout of its neighbours."""
    changed = 0
    for node in view:
        chain = chain_from(view, node) if node.op_type in ("Mul", "Add", "Sub", "Div") else None
        if chain and len(chain.nodes) > 1:
            view.swap(chain.nodes, [each_channel(view, chain.start, chain.scale, chain.shift, chain.end)])
            changed += 1
    return changed


def chain_from(view: View, node: NodeProto) -> Chain | None:
    """The longest chain that begins with this node."""
    start = next((name for name in node.input if view.tensor(name) is None), "")
    channels = channels_of(view, start)
    if channels is None:
        return None
    scale, shift, end = np.ones(channels), np.zeros(channels), start
    nodes: list[NodeProto] = []
    step: NodeProto | None = node
    while step is not None and (taken := _step(view, step, end, channels)):
        scale, shift = scale * taken[0], shift * taken[0] + taken[1]
        nodes.append(step)
        end = step.output[0]
        step = view.only_user(end)
    fits = all((abs(values) <= LARGEST_FACTOR).all() for values in (scale, shift))
    return Chain(start, end, scale, shift, tuple(nodes)) if nodes and fits else None


def _step(view: View, node: NodeProto, value: str, channels: int) -> tuple[Array, Array] | None:
    """What a node multiplies a value by, and what it adds."""
    if node.op_type not in ("Mul", "Add", "Sub", "Div") or not (sides := view.operands(node)) or sides[0] != value:
        return None
    constant = _by_channel(view, sides[1], channels)
    if constant is None or not np.isfinite(constant).all():
        return None
    one, zero, first = np.ones(channels), np.zeros(channels), node.input[0] == value
    if node.op_type == "Mul":
        return constant, zero
    if node.op_type == "Add":
        return one, constant
    if node.op_type == "Sub":
        return (one, -constant) if first else (-one, constant)
    return (1 / constant, zero) if first and constant.all() else None


def _by_channel(view: View, name: str, channels: int) -> Array | None:
    tensor = view.tensor(name)
    if tensor is None or tensor.data_type != TensorProto.FLOAT or len(tensor.dims) > 4:
        return None
    shape = [1] * (4 - len(tensor.dims)) + list(tensor.dims)
    if shape not in ([1, 1, 1, 1], [1, channels, 1, 1]):
        return None
    return np.broadcast_to(view.array(tensor).astype(np.float64).ravel(), (channels,))


def _into_one_before(view: View, chain: Chain) -> bool:
    conv = view.producer.get(chain.start)
    if conv is None or not is_plain(view, conv) or view.only_user(chain.start) is None:
        return False
    view.swap([conv, *chain.nodes], [scaled(view, conv, chain.scale, chain.end, chain.shift)])
    return True


def _into_those_behind(view: View, chain: Chain) -> bool:
    convs = view.users(chain.end)
    if not convs or not all(is_plain(view, conv) and conv.input[0] == chain.end for conv in convs):
        return False
    if chain.shift.any() and any(_pads(conv) for conv in convs):
        return False  # zeros around it would have to be something else
    for conv in list(convs):
        weights, bias = weights_of(view, conv)
        groups, inputs = attribute(conv, "group", 1), weights.shape[1]
        first = np.arange(len(weights)) // (len(weights) // groups) * inputs
        taken = first[:, None] + np.arange(inputs)  # the channels that each output is made of
        shifted = (weights * chain.shift[taken][:, :, None, None]).reshape(len(weights), -1).sum(1)
        scaled = weights * chain.scale[taken][:, :, None, None]
        view.swap([conv], [_conv(view, conv, chain.start, scaled, bias + shifted, conv.output[0])])
    view.swap(chain.nodes, [])
    return True


def _pads(conv: NodeProto) -> bool:
    return any(attribute(conv, "pads", ())) or attribute(conv, "auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")


def is_plain(view: View, node: NodeProto) -> bool:
    """A convolution of two dimensions with constant float32 weights."""
    if node.op_type != "Conv" or node.domain not in ("", "ai.onnx"):
        return False
    weights = view.tensor(node.input[1])
    constant = all(view.tensor(name) is not None for name in node.input[2:] if name)
    return constant and weights is not None and len(weights.dims) == 4 and weights.data_type == TensorProto.FLOAT


def weights_of(view: View, conv: NodeProto) -> tuple[Array, Array]:
    """In float64, so that folding rounds once."""
    weights = view.constant(conv.input[1])
    assert weights is not None
    bias = view.constant(conv.input[2]) if len(conv.input) > 2 and conv.input[2] else None
    return weights.astype(np.float64), np.zeros(len(weights)) if bias is None else bias.astype(np.float64)


def scaled(view: View, conv: NodeProto, scale: Array, target: str, shift: Array | float = 0.0) -> NodeProto:
    """The convolution that gives its values · scale + shift, for each channel."""
    weights, bias = weights_of(view, conv)
    return _conv(view, conv, conv.input[0], weights * scale.reshape(-1, 1, 1, 1), bias * scale + shift, target)


def _conv(view: View, conv: NodeProto, source: str, weights: Array, bias: Array, target: str) -> NodeProto:
    constants = [view.add(values.astype(np.float32)) for values in (weights, bias)]
    return like(conv, [source, *constants], target)


def each_channel(view: View, source: str, scale: Array, shift: Array, target: str) -> NodeProto:
    """source · scale + shift for each channel, as a convolution."""
    given = (scale.reshape(-1, 1, 1, 1), shift) if shift.any() else (scale.reshape(-1, 1, 1, 1),)
    constants = [view.add(values.astype(np.float32)) for values in given]
    return helper.make_node("Conv", [source, *constants], [target], kernel_shape=[1, 1], group=len(scale))


def channels_of(view: View, name: str, deepest: int = _DEEPEST) -> int | None:
    """Of a value that surely has the shape [N, C, H, W]: as the convolution that it comes from tells."""
    node = view.producer.get(name)
    if node is None or not deepest or node.output[0] != name:  # statistics of a norm have another shape
        return None
    if is_plain(view, node):
        weights = view.tensor(node.input[1])
        return weights.dims[0] if weights is not None else None
    if node.op_type in _SAME_CHANNELS:
        return channels_of(view, node.input[0], deepest - 1)
    if node.op_type in ("Mul", "Add", "Sub", "Div", "Max", "Min"):
        return _common_channels(view, node.input, deepest)
    return None


def _common_channels(view: View, names: Sequence[str], deepest: int) -> int | None:
    """Constants that keep the shape aside, all must agree: one of them may be [N, 1, H, W]."""
    found: set[int | None] = set()
    for name in names:
        constant = view.tensor(name)
        if constant is None:
            found.add(channels_of(view, name, deepest - 1))
        elif len(constant.dims) > 4 or any(size != 1 for size in constant.dims):
            return None
    return found.pop() if len(found) == 1 else None
