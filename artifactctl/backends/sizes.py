"""What is known of the sizes of a graph's values before it runs, free sizes included.

A size is a number times free sizes: 32, n, 8 · n. Two that are equal here are equal in every run; what is not known is
a free size of its own, equal to nothing else. What one operator does to shapes, ONNX knows; only Reshape and Expand, by
a shape that the graph computes, are worked out here.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, defs, helper, shape_inference
from onnx.checker import ValidationError

from artifactctl.backends.view import View, attribute

_MOST = 64  # integers that a shape, or a list of axes, may have
_POOLS = ("AveragePool", "LpPool", "MaxPool")
_WHOLE = (TensorProto.INT32, TensorProto.INT64)
_NO_INFERENCE = (shape_inference.InferenceError, ValidationError, defs.SchemaError, ValueError)


@dataclass(frozen=True, slots=True)
class Size:
    factor: int
    free: tuple[str, ...] = ()  # sorted

    @property
    def number(self) -> int | None:
        return None if self.free else self.factor

    def times(self, other: Size) -> Size:
        return Size(self.factor * other.factor, tuple(sorted((*self.free, *other.free))))

    def over(self, other: Size) -> Size | None:
        """Where it comes out even."""
        left = Counter(self.free)
        left.subtract(other.free)
        if not other.factor or self.factor % other.factor or min(left.values(), default=0) < 0:
            return None
        return Size(self.factor // other.factor, tuple(sorted(left.elements())))


Sizes = tuple[Size, ...]
ONE = Size(1)


class Shapes:
    """Of the values of a graph's main level. `values` are integers that the graph computes from shapes."""

    def __init__(self, view: View) -> None:
        self._view, self._numbers = view, itertools.count()
        self._named: dict[str, Size] = {}
        self._types: dict[str, int] = {}
        self.shapes: dict[str, Sizes] = {}
        self.values: dict[str, Sizes] = {}
        for entry in view.graph.input:  # two free sizes of one name may differ all the same
            self._take(entry.name, entry.type, known=False)
        for node in view:
            self._visit(node)

    def _free(self) -> Size:
        return Size(1, (f"free_{next(self._numbers)}",))

    def _take(self, name: str, found: TypeProto, *, known: bool = True) -> None:
        tensor = found.tensor_type
        self._types[name] = tensor.elem_type
        if tensor.HasField("shape"):
            self.shapes[name] = tuple(self._size(dim, known=known) for dim in tensor.shape.dim)

    def _size(self, dim: Any, *, known: bool) -> Size:
        if dim.HasField("dim_value"):
            return Size(dim.dim_value) if dim.dim_value >= 0 else self._free()
        return (self._named.get(dim.dim_param) if known else None) or self._free()

    def _visit(self, node: NodeProto) -> None:
        if node.op_type in ("Reshape", "Expand") and not node.domain and (shape := self._reshaped(node)) is not None:
            self.shapes[node.output[0]] = shape
            self._types[node.output[0]] = self.type_of(node.input[0])
        else:
            self._infer(node)
        value = _VALUES.get(node.op_type) if not node.domain else None
        found, shape = value(self, node) if value else None, self.shapes.get(node.output[0]) if node.output else None
        flat = shape == () or (shape is not None and found is not None and shape == (Size(len(found)),))
        if found is not None and flat and len(found) <= _MOST:
            self.values[node.output[0]] = found

    def shape(self, name: str) -> Sizes | None:
        tensor = self._view.tensor(name)
        return self.shapes.get(name) if tensor is None else tuple(Size(size) for size in tensor.dims)

    def value(self, name: str) -> Sizes | None:
        numbers = self.numbers(name)
        return self.values.get(name) if numbers is None else tuple(Size(int(entry)) for entry in numbers.ravel())

    def numbers(self, name: str) -> np.ndarray[Any, Any] | None:
        """Of a small constant of integers."""
        tensor = self._view.tensor(name)
        if tensor is None or tensor.data_type not in _WHOLE or math.prod(tensor.dims) > _MOST or len(tensor.dims) > 1:
            return None
        return self._view.array(tensor)

    def type_of(self, name: str) -> int:
        tensor = self._view.tensor(name)
        return self._types.get(name, 0) if tensor is None else tensor.data_type

    def _reshaped(self, node: NodeProto) -> Sizes | None:
        target, before = self.value(node.input[1]), self.shape(node.input[0])
        if target is None or before is None:
            return None
        return self._expanded(before, target) if node.op_type == "Expand" else self._filled(node, before, target)

    def _filled(self, node: NodeProto, before: Sizes, target: Sizes) -> Sizes | None:
        """A 0 takes the size that was there, and one -1 what is left."""
        if any(size == Size(0) for size in target):
            if attribute(node, "allowzero", 0) or len(target) > len(before):
                return None
            target = tuple(before[place] if size == Size(0) else size for place, size in enumerate(target))
        rest, left = ONE, ONE
        for size in before:
            rest = rest.times(size)
        for size in target:
            left = left if size == Size(-1) else left.times(size)
        last = rest.over(left) or self._free()
        return tuple(last if size == Size(-1) else size for size in target)

    def _expanded(self, before: Sizes, target: Sizes) -> Sizes:
        longest = max(len(before), len(target))
        one, other = ((ONE,) * (longest - len(sizes)) + sizes for sizes in (before, target))
        return tuple(self._common(*pair) for pair in zip(one, other, strict=True))

    def _common(self, one: Size, other: Size) -> Size:
        if one in (other, ONE):
            return other
        fixed = [size for size in (one, other) if size.number not in (None, 1)]
        return one if other == ONE else fixed[0] if fixed else self._free()

    def _infer(self, node: NodeProto) -> None:
        stored = node.op_type == "Constant" and self._view.tensor(node.output[0]) is not None
        if stored or any(entry.HasField("g") or entry.graphs for entry in node.attribute):
            return  # what an inner graph takes from outside is not known to it
        if not all(self.type_of(name) for name in node.input if name):
            return
        # of opset 10 a free size that is cut keeps its name
        opset = 11 if node.op_type == "Slice" and self._view.opset == 10 else self._view.opset
        try:
            schema = defs.get_schema(node.op_type, opset, node.domain)
            known = {name: self._described(name) for name in node.input if name}
            data = {name: helper.make_tensor(name, self.type_of(name), numbers.shape, numbers.ravel())
                    for name in node.input if name and (numbers := self.numbers(name)) is not None}  # fmt: skip
            opsets = [helper.make_opsetid("", opset)]
            found = shape_inference.infer_node_outputs(schema, node, known, data, opset_imports=opsets)
        except _NO_INFERENCE:
            return
        for name, made in found.items():
            self._take(name, made)
            if node.op_type in _POOLS and attribute(node, "ceil_mode", 0) and name in self.shapes:
                self.shapes[name] = self._pooled(node, self.shapes[name])

    def _pooled(self, node: NodeProto, after: Sizes) -> Sizes:
        """ONNX counts a last window that would begin behind the data too; ONNX Runtime leaves it out."""
        before, found = self.shape(node.input[0]), list(after)
        strides, pads = attribute(node, "strides", ()), attribute(node, "pads", ())
        exact = attribute(node, "auto_pad", b"NOTSET") == b"NOTSET"
        for axis in range(2, len(after)):
            size, count = before[axis].number if before else None, after[axis].number
            if count is None or size is None or not exact:
                found[axis] = self._free()
                continue
            begin = (count - 1) * (strides[axis - 2] if strides else 1)
            if begin >= size + (pads[axis - 2] if pads else 0):
                found[axis] = Size(count - 1)
        return tuple(found)

    def _described(self, name: str) -> TypeProto:
        sizes, entry = self.shape(name), ValueInfoProto()
        entry.type.tensor_type.elem_type = self.type_of(name)
        if sizes is not None:
            entry.type.tensor_type.shape.SetInParent()
        for size in sizes or ():
            dim = entry.type.tensor_type.shape.dim.add()
            if size.number is not None:
                dim.dim_value = size.number
            else:
                dim.dim_param = "*".join((str(size.factor), *size.free))
                self._named[dim.dim_param] = size
        return entry.type


def _shape_of(shapes: Shapes, node: NodeProto) -> Sizes | None:
    found = shapes.shape(node.input[0])
    return None if found is None else found[attribute(node, "start", 0) : attribute(node, "end", len(found))]


def _same(shapes: Shapes, node: NodeProto) -> Sizes | None:
    whole = node.op_type != "Cast" or attribute(node, "to") in _WHOLE
    return shapes.value(node.input[0]) if whole else None


def _gathered(shapes: Shapes, node: NodeProto) -> Sizes | None:
    value, places = shapes.value(node.input[0]), shapes.numbers(node.input[1])
    if value is None or places is None or attribute(node, "axis", 0):
        return None
    inside = all(-len(value) <= place < len(value) for place in places.ravel())
    return tuple(value[place] for place in places.ravel()) if inside else None


def _sliced(shapes: Shapes, node: NodeProto) -> Sizes | None:
    value, given = shapes.value(node.input[0]), [shapes.numbers(name) for name in node.input[1:]]
    if value is None or len(given) < 2 or any(entry is None or entry.size != 1 for entry in given):
        return None
    start, end, *rest = (int(entry.ravel()[0]) for entry in given if entry is not None)
    return value[start:end] if rest[1:] in ([], [1]) else None


def _joined(shapes: Shapes, node: NodeProto) -> Sizes | None:
    parts = [shapes.value(name) for name in node.input]
    return None if any(part is None for part in parts) else tuple(itertools.chain(*(part or () for part in parts)))


def _product(shapes: Shapes, node: NodeProto) -> Sizes | None:
    value, made = shapes.value(node.input[0]), ONE
    for size in value or ():
        made = made.times(size)
    return None if value is None else (made,)


def _paired(shapes: Shapes, node: NodeProto) -> Sizes | None:
    """Products, and the greater of two that are the same or numbers."""
    if len(node.input) != 2:
        return None
    one, other = (shapes.value(name) for name in node.input)
    if not one or not other or (len(one) != len(other) and 1 not in (len(one), len(other))):
        return None
    longest = max(len(one), len(other))
    pairs = zip(*(value * (longest // len(value)) for value in (one, other)), strict=True)
    found = [first.times(second) if node.op_type == "Mul" else _greater(first, second) for first, second in pairs]
    return None if None in found else tuple(size for size in found if size is not None)


def _greater(one: Size, other: Size) -> Size | None:
    if one == other:
        return one
    return None if one.free or other.free else Size(max(one.factor, other.factor))


_VALUES: dict[str, Callable[[Shapes, NodeProto], Sizes | None]] = {
    "Shape": _shape_of,
    **dict.fromkeys(("Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape"), _same),
    "Gather": _gathered,
    "Slice": _sliced,
    "Concat": _joined,
    "ReduceProd": _product,
    **dict.fromkeys(("Mul", "Max"), _paired),
}


def as_target(after: Sequence[Size], before: Sequence[Size]) -> list[int] | None:
    """The constant that reshapes to it in every run, if there is one: free sizes that stand where they stood are taken
    from there, also when they are 0, or one is left to be worked out. It is not beside one that may be 0."""
    found = [size.number if size.number is not None else -1 for size in after]
    for place, size in enumerate(after):
        if found[place] == -1 and place < len(before) and before[place] == size:
            found[place] = 0
    return None if found.count(-1) > 1 or {0, -1} <= set(found) or Size(0) in after else found
