"""Look-ups that are written as products with one-hot rows, and what is computed from the rows of a constant table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from artifactctl.backends.sizes import ONE, Shapes
from artifactctl.backends.view import View, attribute

Array = np.ndarray[Any, Any]
_LARGEST = 1 << 22  # elements of a table
_FIRST_OPSET = 9  # where Where is, and Less takes integers
_ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Relu": lambda x: np.maximum(x, 0),
}


def one_hot(view: View) -> int:
    """MatMul(Cast(Equal(x, [0 … K-1])), table) as rows of the table; what is no row's number takes a row of zeros."""
    shapes, changed = Shapes(view), 0
    for product in view if view.opset >= _FIRST_OPSET else ():
        cast = view.producer.get(product.input[0]) if product.op_type == "MatMul" else None
        equal = view.producer.get(cast.input[0]) if cast is not None and cast.op_type == "Cast" else None
        if cast is None or equal is None or equal.op_type != "Equal" or attribute(cast, "to") != TensorProto.FLOAT:
            continue
        if view.only_user(cast.output[0]) is None or view.only_user(equal.output[0]) is None:
            continue
        table, sides = view.constant(product.input[1]), view.operands(equal)
        if table is None or table.ndim != 2 or table.dtype != np.float32 or not sides:
            continue
        if not np.isfinite(table).all():  # what is infinite is no number where it meets a 0
            continue
        numbers, sizes = view.constant(sides[1]), shapes.shape(sides[0])
        if numbers is None or not _counts(numbers, len(table)) or not sizes or sizes[-1] != ONE:
            continue
        if numbers.ndim > len(sizes):
            continue
        view.swap([equal, cast, product], _rows(view, sides[0], table, product.output[0]))
        changed += 1
    return changed


def _counts(numbers: Array, rows: int) -> bool:
    """0, 1, 2 … in the last dimension, and nothing in the others."""
    if numbers.dtype not in (np.int32, np.int64) or numbers.ndim == 0:
        return False
    return numbers.shape[-1] == numbers.size == rows and bool((numbers.ravel() == np.arange(rows)).all())


def _rows(view: View, numbers: str, table: Array, target: str) -> list[NodeProto]:
    padded = view.add(np.concatenate([table, np.zeros((1, table.shape[1]), np.float32)]))
    whole, low, high, inside, safe, flat = (view.name() for _ in range(6))
    zero, count = view.add(np.array(0, np.int64)), view.add(np.array(len(table), np.int64))
    return [
        helper.make_node("Cast", [numbers], [whole], to=TensorProto.INT64),
        helper.make_node("Less", [whole, zero], [low]),
        helper.make_node("Less", [whole, count], [high]),
        helper.make_node("Where", [low, count, whole], [inside]),
        helper.make_node("Where", [high, inside, count], [safe]),
        helper.make_node("Gather", [safe, view.add(np.array(0, np.int64))], [flat], axis=-1),
        helper.make_node("Gather", [padded, flat], [target], axis=0),
    ]


def tabulate(view: View) -> int:
    """What is computed element by element from rows of a constant table is computed once, for the table."""
    shapes, changed = Shapes(view), 0
    for node in view:
        if node.op_type not in _ELEMENTWISE or len(node.output) != 1:
            continue
        found = [view.producer.get(name) for name in node.input if view.tensor(name) is None]
        gathers = [gather for gather in found if gather is not None and gather.op_type == "Gather"]
        if not gathers or len(gathers) != len(found) or any(attribute(gather, "axis", 0) for gather in gathers):
            continue
        tables = {gather.output[0]: table for gather in gathers if (table := _table(view, gather)) is not None}
        numbers = {gather.input[1] for gather in gathers}
        if len(numbers) != 1 or len(tables) != len({gather.output[0] for gather in gathers}):
            continue
        rank = min(len(shapes.shape(name) or (0,)) for name in tables)  # a row, at least
        made = _computed(view, node, tables, rank)
        if made is not None:
            view.swap([node], [helper.make_node("Gather", [view.add(made), numbers.pop()], [node.output[0]], axis=0)])
            changed += 1
    return changed


def _table(view: View, gather: NodeProto) -> Array | None:
    tensor = view.tensor(gather.input[0])
    if tensor is None or len(tensor.dims) != 2 or tensor.data_type != TensorProto.FLOAT:
        return None
    return view.constant(gather.input[0]) if tensor.dims[0] * tensor.dims[1] <= _LARGEST else None


def _computed(view: View, node: NodeProto, tables: dict[str, Array], rank: int) -> Array | None:
    parts = []
    shape, *others = {table.shape for table in tables.values()}
    if others:
        return None
    for name in node.input:
        part = tables.get(name)
        if part is None:
            part = view.constant(name)
            same_for_all = part is not None and part.size in (1, shape[1] if part.shape[-1:] == shape[1:] else 1)
            if part is None or not same_for_all or part.ndim > rank or part.dtype != np.float32:
                return None
            part = part.ravel()
        parts.append(part.astype(np.float64))
    made = _ELEMENTWISE[node.op_type](*parts)
    return made.astype(np.float32) if made.shape == shape else None
