"""Wrong models made on purpose: one small function a fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from artifactctl.backends import graph
from artifactctl.backends.patch import FLOATS, INTEGERS, Edit, Host, Patch, rename_uses
from artifactctl.backends.reality import NO_EFFECT, harmless, peaks_of

TRIES = 8  # places that one fault is tried in

Array = np.ndarray[Any, Any]


def _values(host: Host, edit: Edit) -> Iterator[Patch]:
    """A changed value of the model itself; then, if that has no effect, of its twin."""
    for site, output in ((host.site, host.value), (host.twin, host.twin)):
        if site and output:
            patch = Patch(host.model, f"output {site!r}" if site == output else f"{site!r}, before ZipMap")
            patch.change(site, edit, host.peaks.get(output, 1.0))
            yield patch


def nan(host: Host) -> Iterator[Patch]:
    return _values(host, lambda p, x, _: _put(p, x, np.nan))


def infinity(host: Host) -> Iterator[Patch]:
    return _values(host, lambda p, x, _: _put(p, x, np.inf))


def _put(p: Patch, x: str, value: float) -> str:
    return p.op("Where", p.op("Cast", p.spot(x, largest=True), to=TensorProto.BOOL), p.number(value), x)


def bias(host: Host) -> Iterator[Patch]:
    return _values(host, lambda p, x, _: p.op("Add", x, p.op("Mul", _size(p, x), p.number(2e-3))))


def _size(p: Patch, x: str) -> str:
    return p.op("Max", p.op("Abs", x), p.number(1.0))


def scaled_output(host: Host) -> Iterator[Patch]:
    return _values(host, lambda p, x, _: p.op("Mul", x, p.number(1.01)))


def clipped_output(host: Host) -> Iterator[Patch]:
    def clip(p: Patch, x: str, peak: float) -> str:
        return p.op("Max", p.op("Min", x, p.number(0.9 * peak)), p.number(-0.9 * peak))

    return _values(host, clip)


def coarse_output(host: Host) -> Iterator[Patch]:
    """Rounded to 8 bits, as a careless quantization does."""

    def rounded(p: Patch, x: str, peak: float) -> str:
        step = p.number(peak / 127 or 1.0)
        return p.op("Mul", p.op("Floor", p.op("Add", p.op("Div", x, step), p.number(0.5))), step)

    return _values(host, rounded)


def reordered_rows(host: Host) -> Iterator[Patch]:
    """The last row first: one row alone does not show it."""

    def turned(p: Patch, x: str, _: float) -> str:
        rows = p.op("Reshape", p.op("Gather", p.op("Shape", x), p.constant(0)), p.constant([1]))
        ones = p.op("ConstantOfShape", rows, value=helper.make_tensor("one", TensorProto.INT64, [1], [1]))
        upward = p.op("Reshape", p.op("NonZero", ones), p.constant([-1]))
        return p.op("Gather", x, p.op("Sub", p.op("Sub", rows, p.constant([1])), upward), axis=0)

    return _values(host, turned)


def only_second_size(host: Host) -> Iterator[Patch]:
    """Right at the first size of a free dimension, wrong at every other; the batch comes last."""
    base = host.plan["sets"][0]["dims"] if host.plan["sets"] else {}
    free = [
        (axis == 0, size, spec["name"], axis)
        for spec in host.plan["inputs"] if not spec.get("sequence")
        for axis, size in enumerate(spec["shape"]) if isinstance(size, str) and size in base
    ]  # fmt: skip
    for _, symbol, name, axis in sorted(free):

        def late(p: Patch, x: str, _: float, name: str = name, axis: int = axis, symbol: str = symbol) -> str:
            size = p.op("Gather", p.op("Shape", name), p.constant(axis))
            other = p.op("Cast", p.op("Sub", size, p.constant(base[symbol])), to=TensorProto.BOOL)
            return p.op("Add", x, p.op("Mul", p.op("Cast", other, to=p.wide), _size(p, x)))

        for patch in _values(host, late):
            patch.where += f", where {name!r} is not {base[symbol]} along axis {axis}"
            yield patch


def dropped_output(host: Host) -> Iterator[Patch]:
    if len(host.model.graph.output) > 1:
        patch = Patch(host.model, f"output {host.own[0]!r}")
        del patch.model.graph.output[0]
        yield patch


def renamed_output(host: Host) -> Iterator[Patch]:
    old = host.own[0]
    patch = Patch(host.model, f"output {old!r}")
    if any(old in node.output for node in patch.model.graph.node):
        patch.model.graph.output[0].name = patch.detach(old)
        yield patch


def swapped_outputs(host: Host) -> Iterator[Patch]:
    if host.value and host.twin:
        patch = Patch(host.model, f"outputs {host.value!r} and {host.twin!r}")
        one, other = patch.detach(host.value), patch.detach(host.twin)
        patch.op("Identity", other, output=host.value)
        patch.op("Identity", one, output=host.twin)
        yield patch


def wrong_dtype(host: Host) -> Iterator[Patch]:
    if host.value:
        patch = Patch(host.model, f"output {host.value!r}")
        double = patch.element(host.value) == TensorProto.DOUBLE
        to = TensorProto.FLOAT16 if double else TensorProto.DOUBLE
        patch.op("Cast", patch.detach(host.value), to=to, output=host.value)
        patch.declare(host.value, to)
        yield patch


def broadcast_shape(host: Host) -> Iterator[Patch]:
    """One more axis of 1 in front, which a careless comparison broadcasts away."""
    if host.value:
        patch = Patch(host.model, f"output {host.value!r}")
        element, raw = patch.element(host.value), patch.detach(host.value)
        patch.op("Reshape", raw, patch.lifted_shape(raw), output=host.value)
        patch.declare(host.value, element)
        yield patch


def flipped_boolean(host: Host) -> Iterator[Patch]:
    for name in host.outputs({TensorProto.BOOL}, host.flag):
        patch = Patch(host.model, f"output {name!r}")
        raw = patch.detach(name)
        one = patch.op("Cast", patch.spot(raw, largest=False), to=TensorProto.BOOL)
        patch.op("Xor", raw, one, output=name)
        yield patch


def changed_integer(host: Host) -> Iterator[Patch]:
    for name in host.outputs(INTEGERS, host.count):
        patch = Patch(host.model, f"output {name!r}")
        element, raw = patch.element(name), patch.detach(name)
        wide = patch.op("Cast", raw, to=TensorProto.INT64)
        one = patch.op("Cast", patch.spot(raw, largest=False), to=TensorProto.INT64)
        patch.op("Cast", patch.op("Add", wide, one), to=element, output=name)
        yield patch


def wrong_label(host: Host) -> Iterator[Patch]:
    """The names of the classes in another order; a model without classes has a text changed."""
    for position, node in enumerate(host.model.graph.node):
        for index, attribute in enumerate(node.attribute):
            if attribute.name in ("classlabels_strings", "values_strings") and len(set(attribute.strings)) > 1:
                patch = Patch(host.model, f"{attribute.name} of {node.op_type}")
                labels = patch.model.graph.node[position].attribute[index].strings
                labels[:] = list(labels)[::-1]
                yield patch
    if host.text:
        patch = Patch(host.model, f"output {host.text!r}")
        text = patch.detach(host.text)
        more = patch.op(
            "Add", host.count or "", patch.op("Cast", patch.spot(text, largest=False), to=TensorProto.INT64)
        )
        patch.op("Cast", more, to=TensorProto.STRING, output=host.text)
        yield patch


def transposed_weight(host: Host) -> Iterator[Patch]:
    """Square ones first: their shape gives nothing away. Of trees and the like, a list of numbers turned round."""
    stored = list(enumerate(graph.tensors(host.model)))
    likely = [
        (position, tensor) for position, tensor in stored
        if tensor.data_type in FLOATS and len(tensor.dims) > 1 and min(tensor.dims[-2:]) > 1
    ]  # fmt: skip
    likely.sort(key=lambda item: (item[1].dims[-1] != item[1].dims[-2], -np.prod(item[1].dims)))
    for position, tensor in likely:
        array = numpy_helper.to_array(tensor)
        patch = Patch(host.model, f"weight {tensor.name!r} {list(tensor.dims)}")
        turned = np.ascontiguousarray(np.swapaxes(array, -1, -2)).reshape(array.shape)
        list(graph.tensors(patch.model))[position].CopyFrom(numpy_helper.from_array(turned, tensor.name))
        yield patch
    lists = [
        (len(attribute.floats), position, index)
        for position, node in enumerate(graph.nodes(host.model))
        for index, attribute in enumerate(node.attribute) if len(set(attribute.floats)) > 1
    ]  # fmt: skip
    for _, position, index in sorted(lists, reverse=True):
        patch = Patch(host.model)
        node = list(graph.nodes(patch.model))[position]
        patch.where = f"{node.attribute[index].name} of {node.op_type}"
        node.attribute[index].floats[:] = list(node.attribute[index].floats)[::-1]
        yield patch


def stale_input(host: Host) -> Iterator[Patch]:
    """An input that is not looked at: zeros take its place."""
    stored = {tensor.name for tensor in host.model.graph.initializer}
    order = [*FLOATS, *INTEGERS]
    inputs = [value for value in host.model.graph.input if value.name not in stored]
    inputs = [value for value in inputs if value.type.tensor_type.elem_type in order]
    for value in sorted(inputs, key=lambda value: order.index(value.type.tensor_type.elem_type)):
        patch = Patch(host.model, f"input {value.name!r}")
        zeros = patch.fresh("selftest_stale")
        rename_uses(patch.model.graph.node[: host.nodes], value.name, zeros)
        patch.model.graph.node.insert(0, helper.make_node("Sub", [value.name, value.name], [zeros]))
        yield patch


def truncated_external_data(host: Host) -> Iterator[Patch]:
    """Of the weights; a model that has none gets a data file with the numbers of its twin."""
    patch = Patch(host.model, "the data file beside the model")
    inner = patch.model.graph
    weights = {tensor.name for tensor in inner.initializer if tensor.data_type in FLOATS and len(tensor.dims) > 1}
    if not weights:
        for node in [node for node in inner.node[host.nodes :] if node.op_type == "Constant"]:
            if node.attribute[0].t.data_type in FLOATS:
                inner.initializer.append(node.attribute[0].t)
                inner.initializer[-1].name = node.output[0]
                inner.node.remove(node)
                weights.add(node.output[0])
    patch.outside = weights
    if weights:
        yield patch


def one_ulp(host: Host) -> Iterator[Patch]:
    """No fault: as little as arithmetic may differ by."""
    return _values(host, lambda p, x, _: p.op("Mul", x, p.number(1 + 2**-23)))


FAULTS: dict[str, Callable[[Host], Iterator[Patch]]] = {
    made.__name__: made
    for made in (
        nan, infinity, bias, scaled_output, clipped_output, coarse_output, reordered_rows, only_second_size,
        dropped_output, renamed_output, swapped_outputs, wrong_dtype, broadcast_shape, flipped_boolean,
        changed_integer, wrong_label, transposed_weight, stale_input, truncated_external_data,
    )
}  # fmt: skip
CONTROLS = {"one_ulp": one_ulp}


def inject(
    fault: str, host: str, info: dict[str, Any], plan: dict[str, Any], samples: str, target: str
) -> dict[str, Any]:
    """Write the host with one fault; a fault that changes no answer is none, and the next place is tried."""
    places = {key: info[key] for key in ("site", "value", "twin", "flag", "count", "text") if key in info}
    outputs = tuple(places[key] for key in ("value", "twin") if key in places)
    asked = json.dumps(plan)
    peaks = peaks_of(host, asked, samples, outputs)
    made = Host(graph.load(Path(host)), info["own"], info["nodes"], plan, peaks, **places)
    why = "the model has nothing that it could be put into"
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    for patch in islice((FAULTS | CONTROLS)[fault](made), TRIES):
        reason = harmless(host, asked, patch, path)
        if reason is None or (fault in CONTROLS and reason == NO_EFFECT):
            return {"applicable": True, "where": patch.where, "why": ""}
        why = f"{patch.where}: {reason}"
    return {"applicable": False, "where": "", "why": why}
