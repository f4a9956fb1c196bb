"""Products of matrices that are written around by shapes: as Einsum, or with a bias behind a Reshape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from artifactctl.backends.sizes import Shapes, as_target
from artifactctl.backends.view import View, attribute, like

Array = np.ndarray[Any, Any]


def einsum(view: View) -> int:
    """A layer of Keras: the last dimensions of a value with the first ones of a constant, as a product of matrices."""
    shapes, changed = Shapes(view), 0
    for node in view:
        if node.op_type != "Einsum" or len(node.input) != 2:
            continue
        weights, before, after = (
            view.tensor(node.input[1]),
            shapes.shape(node.input[0]),
            shapes.shape(node.output[0]),
        )
        shared = _shared(attribute(node, "equation").decode())
        if weights is None or weights.data_type != TensorProto.FLOAT or before is None or after is None or not shared:
            continue
        met = [size.number for size in before[-shared:]]  # a free one may be 1, and then meets all of the other's
        target = as_target(after, ()) if len(weights.dims) > shared else None
        if target is None or met != list(weights.dims[:shared]) or 0 in met:
            continue
        matrix = view.array(weights).reshape(math.prod(weights.dims[:shared]), -1)
        flat, rows = view.name(), view.name()
        new = [
            helper.make_node("Reshape", [node.input[0], view.add(np.array([-1, len(matrix)], np.int64))], [flat]),
            helper.make_node("MatMul", [flat, view.add(matrix)], [rows]),
            helper.make_node("Reshape", [rows, view.add(np.array(target, np.int64))], [node.output[0]]),
        ]
        view.swap([node], new)
        changed += 1
    return changed


def _shared(equation: str) -> int:
    """How many dimensions are summed over, if they are the last of the first and the first of the second."""
    left, _, right = equation.replace(" ", "").partition("->")
    one, _, other = left.partition(",")
    count = sum(letter in other for letter in one)
    apart = len(set(one + other)) == len(one) + len(other) - count and (one + other).isalpha()
    return count if count and apart and one[-count:] == other[:count] and right == one[:-count] + other[count:] else 0


def biases(view: View) -> int:
    """What is added behind a Reshape to every row of a product is the product's own bias."""
    shapes, changed = Shapes(view), 0
    for node in view:
        sides = view.operands(node) if node.op_type == "Add" else None
        reshape = view.producer.get(sides[0]) if sides else None
        if sides is None or reshape is None or reshape.op_type != "Reshape" or view.only_user(sides[0]) is None:
            continue
        product, target = view.producer.get(reshape.input[0]), view.tensor(reshape.input[1])
        if product is None or target is None or view.only_user(reshape.input[0]) is None:
            continue
        columns = _columns(view, shapes, product)
        bias = _bias(view, shapes, sides, columns) if columns else None
        if bias is not None:
            made = view.name()
            new = [
                _with_bias(product, view.add(bias), made),
                like(reshape, [made, reshape.input[1]], node.output[0]),
            ]
            view.swap([product, reshape, node], new)
            changed += 1
    return changed


def _columns(view: View, shapes: Shapes, product: NodeProto) -> int | None:
    """Of a product of two matrices, the second a constant, that has no bias yet."""
    weights = view.tensor(product.input[1]) if len(product.input) > 1 else None
    if weights is None or len(weights.dims) != 2 or weights.data_type != TensorProto.FLOAT:
        return None
    if product.op_type == "MatMul":
        rows = shapes.shape(product.input[0])
        return weights.dims[1] if rows is not None and len(rows) == 2 else None
    if product.op_type != "Gemm" or (len(product.input) > 2 and product.input[2]):
        return None
    return int(weights.dims[0 if attribute(product, "transB", 0) else 1])


def _bias(view: View, shapes: Shapes, sides: tuple[str, str], columns: int) -> Array | None:
    """A constant as one row, if the last dimensions of what it is added to are the columns, and it has no others."""
    after, constant = shapes.shape(sides[0]), view.tensor(sides[1])
    if after is None or constant is None or constant.data_type != TensorProto.FLOAT or len(constant.dims) > len(after):
        return None
    row = list[int]()
    for size in reversed(after):
        if math.prod(row) == columns or size.number is None:
            break
        row.insert(0, size.number)
    dims = list(constant.dims)
    while dims[:1] == [1] and len(dims) > len(row):
        dims = dims[1:]
    fits = len(dims) <= len(row) and all(size in (1, row[-place]) for place, size in enumerate(reversed(dims), 1))
    if math.prod(row) != columns or not fits:
        return None
    return np.broadcast_to(view.array(constant).reshape(dims), row).reshape(columns).astype(np.float32)


def _with_bias(product: NodeProto, bias: str, target: str) -> NodeProto:
    inputs = [*product.input[:2], bias]
    made = helper.make_node("Gemm", inputs, [target], name=product.name)
    made.attribute.extend(entry for entry in product.attribute if entry.name != "beta")
    return made


def scores(view: View) -> int:
    """(A · Bᵀ)ᵀ, as Keras has its attention, as B · Aᵀ: what is turned is then as small as the factors."""
    shapes, changed = Shapes(view), 0
    for node in view:
        reshape = view.producer.get(node.input[0]) if _turns(node) else None
        if reshape is None or view.only_user(node.input[0]) is None:
            continue
        product = view.producer.get(reshape.input[0]) if reshape.op_type == "Reshape" else reshape
        if product is None or product.op_type != "MatMul" or view.only_user(product.output[0]) is None:
            continue
        second, target = view.producer.get(product.input[1]), _swapped(view, shapes, node, reshape, product)
        if second is None or not _turns(second) or target is None:
            continue
        rank, turned, made = len(shapes.shape(product.input[0]) or ()), view.name(), view.name()
        order = [*range(rank - 2), rank - 1, rank - 2]
        new = [
            helper.make_node("Transpose", [product.input[0]], [turned], perm=order),
            helper.make_node("MatMul", [second.input[0], turned], [made]),
            helper.make_node("Reshape", [made, view.add(np.array(target, np.int64))], [node.output[0]]),
        ]
        view.swap([product, node] if reshape is product else [product, reshape, node], new)
        changed += 1
    return changed


def _turns(node: NodeProto) -> bool:
    """Whether it exchanges the last two dimensions, and no others."""
    order = list(attribute(node, "perm", ())) if node.op_type == "Transpose" else []
    return len(order) > 1 and order == [*range(len(order) - 2), len(order) - 1, len(order) - 2]


def _swapped(view: View, shapes: Shapes, node: NodeProto, reshape: NodeProto, product: NodeProto) -> list[int] | None:
    """The shape in the end, if the Reshape between leaves the last two dimensions as they are."""
    ranks = {len(shapes.shape(name) or ()) for name in product.input}
    before, between, after = (shapes.shape(name) for name in (product.output[0], reshape.output[0], node.output[0]))
    if before is None or between is None or after is None or before[-2:] != between[-2:] or ranks != {len(before)}:
        return None
    return as_target(after, ())
