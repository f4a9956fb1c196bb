"""Which integers look something up: indices into tables, classes, positions, keys."""

from __future__ import annotations

import math
from typing import Any

from onnx import TensorProto

from artifactctl.backends.counts import lengths
from artifactctl.backends.flow import Flow, Rule, as_text, tensor_array
from artifactctl.backends.passing import FREE, Allowed, Step

KEPT_KEYS = 50  # more would only make the plan long
UNKNOWN_KEY = "a key that the model does not know"
_KEYS = (
    *("keys_int64s", "keys_strings", "keys_floats", "keys_tensor", "cats_int64s", "cats_strings"),
    *("pool_int64s", "pool_strings", "classes_strings", "int64_vocabulary", "string_vocabulary", "stopwords"),
)
_KEYED = ("LabelEncoder", "CategoryMapper", "OneHotEncoder", "TfIdfVectorizer", "DictVectorizer", "StringNormalizer")


def of_table(flow: Flow, table: str, axis: int) -> Allowed:
    """An index; where the size is free, the first and the last entry, which are always there."""
    rows = flow.size(table, axis)
    if rows is None:
        return Allowed(-1, 0, f"index into {table!r}, whose size is free: its last or its first entry")
    return Allowed(0, rows - 1, f"index into {table!r} with {rows} rows")


def index(flow: Flow, step: Step, _: int) -> Allowed | None:
    return of_table(flow, step.input(0), step.attribute("axis", 0))


def index_quantized(flow: Flow, step: Step, _: int) -> Allowed | None:
    return of_table(flow, step.input(0), step.attribute("gather_axis", 0))


def index_nd(flow: Flow, step: Step, position: int) -> Allowed | None:
    """One number indexes several axes: the smallest decides."""
    table, skipped = step.input(0), step.attribute("batch_dims", 0)
    shape, depth = flow.shape(table) or [None], flow.size(step.input(position), -1)
    indexed = shape[skipped : None if depth is None else skipped + depth] or [None]
    # a free axis counts as the smallest
    smallest = min(range(len(indexed)), key=lambda axis: indexed[axis] or 0)
    return of_table(flow, table, skipped + smallest)


def row_of(table: int, axis: int = 0) -> Rule:
    """An index into a table that is another operand; without that operand nothing is known."""

    def rule(flow: Flow, step: Step, _: int) -> Allowed | None:
        return of_table(flow, step.input(table), axis) if step.input(table) else None

    return rule


def flat_index(flow: Flow, step: Step, _: int) -> Allowed | None:
    shape = flow.shape(step.input(0)) or [None]
    count = math.prod(size or 0 for size in shape)
    return Allowed(0, max(0, count - 1), "positions of the maxima") if None not in shape else None


def one_hot(flow: Flow, step: Step, _: int) -> Allowed | None:
    depth = flow.scalar(step.input(1))
    return None if depth is None else Allowed(0, depth - 1, f"OneHot with depth {depth:.0f}")


def rotated(flow: Flow, step: Step, position: int) -> Allowed | None:
    """ONNX and com.microsoft have the same operands in another order; a single position is where all of them start."""
    if (position == 1) != (step.node.domain == "com.microsoft"):
        return None
    if flow.shape(step.input(position)) == [1]:
        return Allowed(0, 0, "the first position")
    return of_table(flow, step.input(1 if position == 3 else 2), 0)


def whole_mask(flow: Flow, step: Step, position: int) -> Allowed | None:
    """com.microsoft.Attention takes lengths in place of a mask."""
    shape = flow.shape(step.input(position))
    return lengths(1)(flow, step, position) if shape is not None and len(shape) == 1 else None


def find_keys(flow: Flow, name: str, kind: type) -> Allowed | None:
    """The keys of that kind that an operator knows; of strings also one that it does not know."""
    for reach in flow.follow(name):
        if reach.step.op in _KEYED and reach.unchanged:
            held = [key for entry in _KEYS for key in _plain(reach.step.attribute(entry))]
            if kind is int:  # old encoders number their classes
                held += range(len(reach.step.attribute("classes_strings", [])))
            keys = [key for key in held if isinstance(key, kind)][:KEPT_KEYS]
            strict = reach.step.op == "OneHotEncoder" and not reach.step.attribute("zeros", 1)
            if keys:
                more = [UNKNOWN_KEY] if kind is str and not strict else []
                return Allowed(*FREE, f"keys of {reach.step.op}", tuple(dict.fromkeys([*keys, *more])))
    return None


def _plain(held: Any) -> list[Any]:
    """An attribute's entries as plain Python values; of a tensor too."""
    if isinstance(held, TensorProto):
        array = tensor_array(held)
        held = None if array is None else array.reshape(-1).tolist()
    return [as_text(key) if isinstance(key, bytes) else key for key in held] if isinstance(held, list) else []
