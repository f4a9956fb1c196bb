"""What an input of a model may be: by the operators that use it, then by its name, then by its type."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from artifactctl.backends.floats import describe_float
from artifactctl.backends.flow import Flow, Reach, as_text
from artifactctl.backends.lookups import find_keys
from artifactctl.backends.passing import FREE, Allowed
from artifactctl.backends.ranges import INDEX_RULES, NUMBER_RULES, find_allowed

DECLARED = "declared in source.inputs"
GUESSED = "integers; nothing in the graph says which"
NUMERALS = ["0", "1", "2", "7", "42"]
_COMPARED = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
_TYPE_LIMITS = {
    f"{sign}int{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for sign in ("", "u")
    for bits in (2, 4, 8, 16, 32, 64)
}
_WIDE = (-(2**31), -70_000, -300, -1, 0, 7, 300, 70_000, 2**31 - 1, 2**31, 2**40)  # where nothing says which
_MOST_EDGES, _LARGEST_CONSTANT, _FARTHEST_EDGE = 64, 100_000, 1e30
_OPEN_WIDTH = 20  # how far to go where the graph gives one end only


class Consumers(Flow):
    """The model, prepared once for any number of `describe_input`."""

    def edges(self, name: str) -> list[float]:
        """Numbers at which a float input changes what the model does with it: tests, limits, the nodes of trees."""
        found: set[float] = set()
        for reach in self.follow(name):
            if reach.step.op in (*_COMPARED, "Min", "Max", "Clip", "ThresholdedRelu"):
                for position in range(len(reach.step.inputs)):
                    array = self.constant(reach.step.input(position)) if position != reach.position else None
                    found |= self._pulled_back(reach, array)
            elif reach.step.op.startswith("TreeEnsemble"):
                found |= self._pulled_back(reach, np.array(reach.step.attribute("nodes_values", []), np.float64))
        ordered = sorted(found)
        step = max(1, -(-len(ordered) // _MOST_EDGES))
        return ordered[::step]

    def _pulled_back(self, reach: Reach, array: Any) -> set[float]:
        if array is None or not array.size or array.size > _LARGEST_CONSTANT or array.dtype.kind not in "fiu":
            return set()
        ends = {reach.pull((float(item), float(item)))[0] for item in array.reshape(-1)}
        return {float(f"{item:.9g}") for item in ends if abs(item) < _FARTHEST_EDGE}

    def compared_values(self, name: str) -> list[Any]:
        """Constants that this input is compared with: both sides of such a test should be tried."""
        values = set()
        for reach in self.follow(name):
            if reach.step.op in _COMPARED and reach.unchanged:
                array = self.constant(reach.step.input(1 - reach.position))
                if array is not None and array.size == 1 and array.dtype.kind in "iuOSU":
                    [found] = array.reshape(-1).tolist()
                    values.add(found if isinstance(found, int) else as_text(found))
        return sorted(values, key=str) if any(isinstance(item, str) for item in values) else sorted(values)


def describe_input(value: dict[str, Any], consumers: Consumers) -> dict[str, Any]:
    """How to fill one input: `fill` with its range or values, and why."""
    dtype = value["dtype"]
    if dtype == "string":
        return _describe_string(value, consumers)
    if dtype.startswith("complex"):
        return {"fill": "complex", "why": "complex numbers"}
    if dtype == "bool":
        return _mask(value) or {"fill": "bool", "why": "booleans"}
    if dtype.startswith(("float", "bfloat")):
        edges = consumers.edges(value["name"])
        return (_mask(value) or describe_float(value, consumers)) | ({"edges": edges} if edges else {})
    return _describe_integer(value, consumers)


def _mask(value: dict[str, Any]) -> dict[str, Any] | None:
    if "mask" in value["name"].lower() and len(value["shape"] or ()) >= 2:
        return {"fill": "mask", "why": "a mask by its name: ones, then padding"}
    return None


def _describe_string(value: dict[str, Any], consumers: Consumers) -> dict[str, Any]:
    if known := find_keys(consumers, value["name"], str):
        return {"fill": "values", "values": list(known.values), "why": known.why}
    if words := [item for item in consumers.compared_values(value["name"]) if isinstance(item, str)]:
        return {"fill": "values", "values": [*words, "another word"], "why": "compared with constants"}
    for reach in consumers.follow(value["name"]):
        if reach.step.op == "Cast" and reach.step.attribute("to") != TensorProto.STRING:
            return {"fill": "values", "values": NUMERALS, "why": "strings that are read as numbers"}
    return {"fill": "string", "why": "strings"}


def _describe_integer(value: dict[str, Any], consumers: Consumers) -> dict[str, Any]:
    name, dtype = value["name"], value["dtype"]
    allowed = find_allowed(consumers, name, (INDEX_RULES, NUMBER_RULES))
    known = find_keys(consumers, name, int)
    if known is not None and (described := _offered(known, dtype)):
        return described
    if allowed is not None and (described := _offered(allowed, dtype)):
        return described
    if described := _mask(value):
        return described
    if values := [item for item in consumers.compared_values(name) if isinstance(item, int)]:
        both = sorted({near for item in values for near in (item - 1, item, item + 1, item // 2)})
        if described := _offered(Allowed(*FREE, "compared with constants", tuple(both)), dtype):
            return described
    if any(word in name.lower() for word in ("token_type", "segment", "type_id")):
        return {"fill": "range", "range": [0, 1], "why": "a type id by its name"}
    few = len(value["shape"] or ()) < 2  # a vector may be a shape, and a large one would fill the memory
    small = {kind: list(_TYPE_LIMITS[kind]) for kind in ("uint2", "int2", "uint4", "int4", "uint8", "int8")}
    least, most = _TYPE_LIMITS.get(dtype, _TYPE_LIMITS["int64"])
    wide = [item for item in _WIDE if least <= item <= most]
    more = {} if dtype in small else {"wide": wide}
    return {"fill": "range", "range": small.get(dtype, [0, 9] if few else [0, 255]), "why": GUESSED} | more


def _offered(allowed: Allowed, dtype: str) -> dict[str, Any] | None:
    """The part of what is allowed that the type can hold."""
    least, most = _TYPE_LIMITS.get(dtype, _TYPE_LIMITS["int64"])
    low = max(allowed.low, least, allowed.high - _OPEN_WIDTH if allowed.low < least else least)
    high = min(allowed.high, most, low + _OPEN_WIDTH if allowed.high > most else most)
    values = [item for item in allowed.values if max(least, allowed.low) <= item <= min(most, allowed.high)]
    if values:
        return {"fill": "values", "values": values, "why": allowed.why}
    return {"fill": "range", "range": [int(low), int(high)], "why": allowed.why} if low <= high else None
