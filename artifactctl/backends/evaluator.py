"""onnx's own interpreter for float64 graphs: priced, and with operators of its own where onnx's are slow or wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.lib.stride_tricks import sliding_window_view
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_average_pool import AveragePool_19
from onnx.reference.ops.op_conv_transpose import ConvTranspose
from onnx.reference.ops.op_resize import Resize

# What the evaluator may spend on all samples, near nanoseconds on a usual core. Counted from shapes and never taken
# from a clock: whether it runs is recorded, and must not depend on how busy the machine is.
BUDGET, NODE, ELEMENT, LOOPED, STEP = 10_000_000_000, 50_000, 10, 200_000, 100_000
LOOPS = ("Upsample", "Col2Im", "DeformConv", "MaxUnpool", "NonMaxSuppression", "LpPool")
BLOCK = 8_000_000  # values of a convolution's windows that are copied at a time

Array = np.ndarray[Any, Any]


class Costly(Exception):
    pass


class Purse:
    def __init__(self) -> None:
        self.left = BUDGET

    def pay(self, price: int) -> None:
        self.left -= price
        if self.left < 0:
            raise Costly


class Evaluator(ReferenceEvaluator):
    """onnx's own interpreter with a price on every node, in the shape of a session."""

    purse: Purse

    def _init(self) -> None:
        super()._init()
        self.rt_nodes_ = [_Priced(node, self.purse) for node in self.rt_nodes_]

    def get_inputs(self) -> list[Any]:
        return []  # none is of a type that numpy lacks

    def get_outputs(self) -> list[Any]:
        return [onnx.ValueInfoProto(name=name) for name in self.output_names]


class _Priced:
    def __init__(self, node: Any, purse: Purse) -> None:
        self._node, self._purse = node, purse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def run(self, *inputs: Any, **context: Any) -> Any:
        self._purse.pay(NODE + self._price(inputs))
        outputs = self._node.run(*inputs, **context)
        self._purse.pay(ELEMENT * sum(getattr(output, "size", 0) for output in outputs))
        return outputs

    def _price(self, inputs: Sequence[Any]) -> int:
        """Of what takes longer than to write the outputs down; known before it begins."""
        kind, node = self._node.op_type, self._node
        if kind in LOOPS:
            return int(LOOPED * inputs[0].size)
        if kind in {"LSTM", "GRU", "RNN"}:
            return int(inputs[0].shape[0] * (STEP + inputs[1].size + inputs[2].size))
        if kind not in {"Conv", "ConvTranspose", "Gemm", "MatMul"}:
            return 0
        x, w = inputs[:2]
        times = {"Conv": w.size // x.shape[1], "ConvTranspose": w[:1].size, "MatMul": w.shape[-1], "Gemm": w.size}[kind]
        if kind == "Gemm":
            times //= x.shape[0 if node.transA else 1]
        elif kind == "Conv":
            times //= math.prod(node.strides or [1])
        return int(x.size * times // 2)


def _native(operator: Any, *inputs: Any) -> list[Any]:
    """One node by ONNX Runtime."""
    node = operator.onnx_node
    feeds = {name: value for name, value in zip(node.input, inputs, strict=False) if name}
    if not hasattr(operator, "session"):
        kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in feeds.items()}
        given = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
        alone = helper.make_graph(
            [node], "one", given, [onnx.ValueInfoProto(name=name) for name in node.output if name]
        )
        opset = helper.make_opsetid("", operator.run_params["opsets"][""])
        made = helper.make_model(alone, opset_imports=[opset], ir_version=8)
        options = ort.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1  # more would spin between nodes
        operator.session = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(operator.session.run(None, feeds))


def _nearest(operator: Any, x: Array, *rest: Any) -> Array | None:
    """Resize: ONNX Runtime has no float64 kernel, but one for integers, which picks positions."""
    if operator.mode != "nearest" or operator.coordinate_transformation_mode == "tf_crop_and_resize":
        return None
    places = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    narrow = [value.astype(np.float32) if getattr(value, "dtype", None) == np.float64 else value for value in rest]
    return np.asarray(x.reshape(-1)[_native(operator, places, *narrow)[0]])


def _largest(_: Any, x: Array) -> Array:
    return np.asarray(x.max(axis=tuple(range(2, x.ndim)), keepdims=True))


def _mean(operator: Any, x: Array) -> Array | None:
    if operator.ceil_mode:
        return None
    kernel, edges = operator.kernel_shape, _edges(operator, x, operator.kernel_shape)
    counted = np.pad(np.ones((1, 1, *x.shape[2:])), edges, constant_values=float(operator.count_include_pad))
    each = (_windows(array, kernel, *_steps(operator, len(kernel))) for array in (np.pad(x, edges), counted))
    total, count = (windows.sum(axis=tuple(range(-len(kernel), 0))) for windows in each)
    return np.asarray(total / count)


def _conv(operator: Any, x: Array, w: Array, b: Array | None = None) -> Array:
    y = _convolve(np.pad(x, _edges(operator, x, w.shape[2:])), w, operator.group, *_steps(operator, x.ndim - 2))
    return y if b is None else y + b.reshape(-1, *[1] * (x.ndim - 2))


def _conv_transpose(operator: Any, x: Array, w: Array, b: Array | None = None) -> Array | None:
    if operator.output_shape or operator.auto_pad.startswith("SAME"):
        return None
    (batch, _, *sizes), (_, each, *kernel), rank = x.shape, w.shape, x.ndim - 2
    strides, dilations = _steps(operator, rank)
    pads, more = operator.pads or [0] * 2 * rank, operator.output_padding or [0] * rank
    spans = [(size - 1) * stride + 1 for size, stride in zip(sizes, strides, strict=True)]
    full = [spans[axis] + (kernel[axis] - 1) * dilations[axis] + more[axis] for axis in range(rank)]
    y = np.zeros((batch, each * operator.group, *full))
    columns = x.reshape(batch, operator.group, -1, math.prod(sizes))
    weights = w.reshape(operator.group, -1, each, *kernel).swapaxes(1, 2)
    for place in np.ndindex(*kernel):  # every value of the input is spread out over the kernel's places
        starts = [at * dilation for at, dilation in zip(place, dilations, strict=True)]
        where = (slice(start, start + span, step) for start, span, step in zip(starts, spans, strides, strict=True))
        y[:, :, *where] += (weights[:, :, :, *place] @ columns).reshape(batch, -1, *sizes)
    y = y[:, :, *(slice(pads[axis], full[axis] - pads[rank + axis]) for axis in range(rank))]
    return y if b is None else y + b.reshape(-1, *[1] * rank)


def _steps(operator: Any, rank: int) -> tuple[Sequence[int], Sequence[int]]:
    return operator.strides or [1] * rank, operator.dilations or [1] * rank


def _edges(operator: Any, x: Array, kernel: Sequence[int]) -> list[tuple[int, int]]:
    """What is padded before and after each axis."""
    rank = len(kernel)
    (strides, dilations), pads = _steps(operator, rank), operator.pads or [0] * 2 * rank
    edges = [(0, 0), (0, 0)]
    for axis, size in enumerate(x.shape[2:]):
        if operator.auto_pad.startswith("SAME"):
            stride, reach = strides[axis], (kernel[axis] - 1) * dilations[axis] + 1
            total = max(0, (-(-size // stride) - 1) * stride + reach - size)
            less, more = total // 2, total - total // 2
            edges.append((less, more) if operator.auto_pad == "SAME_UPPER" else (more, less))
        else:
            edges.append((pads[axis], pads[rank + axis]) if operator.auto_pad == "NOTSET" else (0, 0))
    return edges


def _windows(x: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """[batch, channel, *places, *kernel], a view."""
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    view = sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))
    return view[:, :, *(slice(None, None, step) for step in (*strides, *dilations))]


def _convolve(x: Array, w: Array, group: int, strides: Sequence[int], dilations: Sequence[int]) -> Array:
    rank, (batch, channels), kernel = x.ndim - 2, x.shape[:2], w.shape[2:]
    view = _windows(x, kernel, strides, dilations)
    places = view.shape[2 : 2 + rank]
    view = view.reshape(batch, group, channels // group, *view.shape[2:])
    view = view.transpose(0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank))
    weights = w.reshape(group, w.shape[0] // group, -1)
    y = np.empty((batch, *weights.shape[:2], *places))
    rows = max(1, BLOCK // max(1, batch * channels * math.prod(kernel) * math.prod(places[1:])))
    for start in range(0, places[0], rows):
        block = view[(slice(None),) * (3 + rank) + (slice(start, start + rows),)]
        columns = block.reshape(batch, group, weights.shape[2], -1)
        y[:, :, :, start : start + rows] = (weights @ columns).reshape(*y.shape[:3], *block.shape[3 + rank :])
    return y.reshape(batch, -1, *places)


def _own(name: str, function: Callable[..., Any], slow: Any = OpRun) -> type[OpRun]:
    """An operator by `function`, and where that gives None by onnx's own loops over single values."""

    def run(operator: Any, *inputs: Any, **given: Any) -> Any:
        found = function(operator, *inputs)
        if found is None:
            operator.run_params["evaluator_cls"].purse.pay(LOOPED * inputs[0].size)
            return slow._run(operator, *inputs, **given)
        return tuple(found) if isinstance(found, list) else (found,)

    return type(name, (slow,), {"_run": run})


# where onnx's implementation is slow or wrong: its BatchNormalization takes "momentum" as a sign of training, its
# GlobalMaxPool fails on one axis
OPERATORS = [
    _own("AveragePool", _mean, AveragePool_19),
    _own("Conv", _conv),
    _own("ConvTranspose", _conv_transpose, ConvTranspose),
    _own("GlobalMaxPool", _largest),
    _own("Resize", _nearest, Resize),
    *(_own(name, _native) for name in ("BatchNormalization", "GatherElements", "GatherND", "GridSample", "MaxPool")),
    *(_own(name, _native) for name in ("RoiAlign", "STFT", "ScatterElements", "ScatterND", "TopK")),
]
