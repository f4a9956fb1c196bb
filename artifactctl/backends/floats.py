"""What a float input may be: the first rule that knows something decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from artifactctl.backends.flow import Flow, Reach
from artifactctl.backends.lookups import find_keys
from artifactctl.backends.passing import Allowed, Array, clip_bounds
from artifactctl.backends.ranges import INDEX_RULES, find_allowed

WIDEST = 1e6
HALF_LIMIT = 65504  # a Clip this far out guards float16 and says nothing about the data
CHANNELS = (1, 3, 4)
SMALLEST_SIDE = 8
# https://onnx.ai/onnx/repo-docs/MetadataProps.html; nothing there, or anywhere else, is said of a single input
NOMINAL_RANGES = {
    "nominalrange_0_255": (0.0, 255.0),
    "normalized_0_1": (0.0, 1.0),
    "normalized_1_1": (-1.0, 1.0),
    "nominalrange_16_235": (16.0, 235.0),
}
PIXEL_SCALES = (255.0, 127.5)
POSITIVE = (0.01, 10.0)
# where each operand is defined; at the ends of Atanh and Log themselves the answer is infinite
DOMAINS: dict[str, dict[int, tuple[float, float]]] = {
    "Log": {0: POSITIVE},
    "Sqrt": {0: POSITIVE},
    "Acos": {0: (-1.0, 1.0)},
    "Asin": {0: (-1.0, 1.0)},
    "Atanh": {0: (-0.99, 0.99)},
    "Acosh": {0: (1.0, 10.0)},
    "BatchNormalization": {4: POSITIVE},  # a variance
    "QuantizeLinear": {1: POSITIVE},
    "DequantizeLinear": {1: POSITIVE},
    "Bernoulli": {0: (0.0, 1.0)},
    "Dropout": {1: (0.0, 0.5)},
    "GridSample": {1: (-1.0, 1.0)},
    "NonMaxSuppression": {3: (0.0, 1.0), 4: (0.0, 1.0)},
    "MelWeightMatrix": {3: (0.0, 100.0), 4: (2000.0, 4000.0)},
    "Range": {0: (0.0, 2.0), 1: (3.0, 9.0), 2: (0.5, 2.0)},
}
_QUANTIZED_TYPES: dict[int, tuple[int, int]] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767),
}
Value = dict[str, Any]


def describe_float(value: Value, flow: Flow) -> dict[str, Any]:
    """A range with its reason, or plain floats; `image` when the shape is that of an image.

    A range that an operator needs is kept to; one that is only likely (`soft`) is tried beside the rest.
    """
    image = {"image": True} if looks_like_image(value) else {}
    for rule in (*NEEDED, *LIKELY):
        for allowed in rule(value, flow):
            if allowed.values:
                return {"fill": "values", "values": list(allowed.values), "why": allowed.why} | image
            if _is_sane(allowed):
                ends = [allowed.low, allowed.high]
                how = {"fill": "range", "range": ends} if rule in NEEDED else {"fill": "float", "soft": ends}
                return how | {"why": allowed.why} | image
    return {"fill": "float", "why": "an image by its shape" if image else "floats"} | image


def _is_sane(allowed: Allowed) -> bool:
    ends = (allowed.low, allowed.high)
    return all(map(math.isfinite, ends)) and 0 < allowed.high - allowed.low <= WIDEST


def looks_like_image(value: Value) -> bool:
    shape = value["shape"] or []
    if len(shape) != 4 or any(word in value["name"].lower() for word in ("past", "cache")):
        return False
    layouts = ((shape[1], shape[2:]), (shape[3], shape[1:3]))
    return any(
        channels in CHANNELS and all(not isinstance(side, int) or side >= SMALLEST_SIDE for side in sides)
        for channels, sides in layouts
    )


def _looked_up(value: Value, flow: Flow) -> Iterator[Allowed]:
    """Floats that the model itself turns into keys or indices."""
    if keys := find_keys(flow, value["name"], float):
        yield keys
    if allowed := find_allowed(flow, value["name"], (INDEX_RULES,)):
        yield allowed._replace(values=(allowed.low,)) if allowed.low == allowed.high else allowed


def _by_metadata(value: Value, flow: Flow) -> Iterator[Allowed]:
    """The metadata speaks of the inputs that are denoted as images; where none is, of those that look like one."""
    ends = NOMINAL_RANGES.get(flow.metadata.get("image.nominalpixelrange", ""))
    if ends and (value["name"] in flow.images if flow.images else looks_like_image(value)):
        yield Allowed(*ends, "pixels, by Image.NominalPixelRange of the model")


def _by_quantization(value: Value, flow: Flow) -> Iterator[Allowed]:
    for reach in flow.follow(value["name"]):
        if reach.step.op == "QuantizeLinear" and reach.position == 0:
            scale, zero = flow.scalar(reach.step.input(1)), flow.constant(reach.step.input(2))
            kind = reach.step.attribute("output_dtype", 0) if zero is None else _onnx_type(zero)
            least, most = _QUANTIZED_TYPES.get(kind or TensorProto.UINT8, (0, 0))
            offset = 0.0 if not reach.step.input(2) else flow.scalar(reach.step.input(2))
            if scale is not None and offset is not None:
                yield _pulled(
                    reach, ((least - offset) * scale, (most - offset) * scale), "the range it is quantized to"
                )


def _onnx_type(array: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def _by_clip(value: Value, flow: Flow) -> Iterator[Allowed]:
    """A tenth more on both sides, so that clipping itself is tried."""
    for reach in flow.follow(value["name"]):
        if reach.step.op == "Clip" and reach.position == 0 and reach.unchanged:
            low, high = clip_bounds(reach.step, flow.constant)
            if max(abs(low), abs(high)) < HALF_LIMIT:
                more = (high - low) / 10
                yield Allowed(low - more, high + more, f"clipped to {low:g}..{high:g}")


def _by_pixel_scale(value: Value, flow: Flow) -> Iterator[Allowed]:
    for reach in flow.follow(value["name"]):
        if reach.unchanged and reach.step.op in ("Div", "Mul") and len(reach.step.inputs) == 2:
            other = flow.constant(reach.step.input(1 - reach.position))
            if (
                other is None
                or not other.size
                or other.dtype.kind != "f"
                or (reach.step.op, reach.position) == ("Div", 1)
            ):
                continue
            for scale in PIXEL_SCALES:
                factor = scale if reach.step.op == "Div" else 1 / scale
                if np.allclose(other.astype(np.float64), factor, rtol=1e-3, atol=0):
                    yield Allowed(0.0, 255.0, f"pixels: divided by {scale:g}")


def _by_domain(value: Value, flow: Flow) -> Iterator[Allowed]:
    """The narrowest part where every operator is defined."""
    found = []
    for reach in flow.follow(value["name"]):
        ends = DOMAINS.get(reach.step.op, {}).get(reach.position)
        if reach.step.op == "Pow" and reach.position == 0:
            ends = None if _is_whole(flow.constant(reach.step.input(1))) else POSITIVE
        if ends:
            found.append(_pulled(reach, ends, f"where {reach.step.op} is defined"))
    if found := [item for item in found if _is_sane(item)]:
        low, high = max(item.low for item in found), min(item.high for item in found)
        first = min(found, key=lambda item: item.high - item.low)
        yield first._replace(low=low, high=high)
        yield first


def _is_whole(exponent: Array | None) -> bool:
    """Negative numbers have whole powers only; an exponent that is not a constant may be anything."""
    return exponent is not None and (exponent.dtype.kind != "f" or bool((exponent == np.round(exponent)).all()))


def _by_scales(value: Value, flow: Flow) -> Iterator[Allowed]:
    """Only "nearest" scales batch and channels too; where others must not, a scale of 1 fits every axis."""
    for reach in flow.follow(value["name"]):
        if (reach.step.op, reach.position) in (("Resize", 2), ("Upsample", 1)):
            free = reach.step.attribute("mode", b"nearest") == b"nearest" or reach.step.attribute("axes")
            flat = len(flow.shape(reach.step.input(0)) or ()) == 2
            yield Allowed(1.0, 2.0, f"scales of {reach.step.op}", () if free or flat else (1.0,))


def _pulled(reach: Reach, ends: tuple[float, float], why: str) -> Allowed:
    return Allowed(*reach.pull(ends), why)


Rules = tuple[Callable[[Value, Flow], Iterator[Allowed]], ...]
NEEDED: Rules = (_looked_up, _by_scales, _by_domain)
LIKELY: Rules = (_by_metadata, _by_quantization, _by_clip, _by_pixel_scale)
