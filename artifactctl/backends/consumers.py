"""What the graph allows an input to be: found by following its value to the operators that use it."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import ModelProto, NodeProto

from artifactctl.backends import graph

# operators that hand their first input on without changing what its values may be
_PASS = {
    "Cast",
    "Identity",
    "Reshape",
    "Unsqueeze",
    "Squeeze",
    "Flatten",
    "Transpose",
    "Slice",
    "Expand",
    "Tile",
    "Split",
}
_PASS |= {"Concat", "Max", "Min", "Where", "Pad"}


GUESSED = "integers; nothing in the graph says which"


class Consumers:
    def __init__(self, model: ModelProto) -> None:
        self._users: dict[str, list[NodeProto]] = {}
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in graph.nodes(model):
            for name in node.input:
                self._users.setdefault(name, []).append(node)
            if node.op_type == "Constant":
                for attribute in node.attribute:
                    if attribute.name == "value":
                        self._constants[node.output[0]] = attribute.t
            for attribute in node.attribute:
                for inner in [attribute.g] if attribute.HasField("g") else []:
                    self._constants |= {tensor.name: tensor for tensor in inner.initializer}

    def integer_limit(self, name: str) -> tuple[int, str] | None:
        """The largest index that every lookup fed by this input allows, and the reason."""
        found: list[tuple[int, str]] = []
        for node, used in self._reached(name):
            if node.op_type in ("Gather", "GatherElements") and len(node.input) > 1 and node.input[1] == used:
                table = self._constants.get(node.input[0])
                axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
                if table is not None and table.dims and -len(table.dims) <= axis < len(table.dims):
                    found.append((table.dims[axis] - 1, f"index into {node.input[0]!r} with {table.dims[axis]} rows"))
            elif node.op_type == "OneHot" and node.input[0] == used:
                depth = self._constants.get(node.input[1])
                if depth is not None:
                    limit = int(onnx.numpy_helper.to_array(depth).reshape(-1)[0]) - 1
                    found.append((limit, f"OneHot with depth {limit + 1}"))
            elif node.op_type == "Equal":
                width = self._counted(next((other for other in node.input if other != used), ""))
                if width:
                    found.append((width - 1, f"one-hot over {width} values"))
        return min(found) if found else None

    def _counted(self, name: str) -> int:
        """How far a constant counts 0, 1, 2, …: a one-hot code that was written out."""
        array = onnx.numpy_helper.to_array(self._constants[name]).reshape(-1) if name in self._constants else None
        if array is None or array.dtype.kind not in "iu" or array.size < 2:
            return 0
        return array.size if (array == range(array.size)).all() else 0

    def compared_values(self, name: str) -> list[int]:
        """Constants that this input is compared with: both sides of such a test should be tried."""
        values = set()
        for node, used in self._reached(name):
            if node.op_type in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
                for other in node.input:
                    if other != used and other in self._constants:
                        array = onnx.numpy_helper.to_array(self._constants[other]).reshape(-1)
                        if array.size == 1 and array.dtype.kind in "iu":
                            values.add(int(array[0]))
        return sorted(values)

    def _reached(self, name: str) -> list[tuple[NodeProto, str]]:
        reached: list[tuple[NodeProto, str]] = []
        queue, seen = [name], {name}
        while queue:
            used = queue.pop()
            for node in self._users.get(used, []):
                reached.append((node, used))
                if node.op_type in _PASS:
                    fresh = [output for output in node.output if output not in seen]
                    seen.update(fresh)
                    queue += fresh
        return reached


def describe_input(value: dict[str, Any], consumers: Consumers) -> dict[str, Any]:
    """How to fill one input: `fill` with its range or values, and why."""
    name, dtype = value["name"].lower(), value["dtype"]
    if dtype == "string":
        return {"fill": "string", "why": "strings"}
    if dtype == "bool":
        return {"fill": "bool", "why": "booleans"}
    if dtype.startswith("complex"):
        return {"fill": "complex", "why": "complex numbers"}
    if "mask" in name and len(value["shape"]) >= 2:
        return {"fill": "mask", "why": "a mask by its name: ones, then padding"}
    if dtype.startswith("float"):
        return {"fill": "float", "why": "floats"}
    limit = consumers.integer_limit(value["name"])
    if limit is not None:
        return {"fill": "range", "range": [0, max(0, limit[0])], "why": limit[1]}
    if values := consumers.compared_values(value["name"]):
        both = sorted({near for item in values for near in (item - 1, item, item + 1, item // 2)})
        return {"fill": "values", "values": both, "why": "compared with constants"}
    if any(word in name for word in ("token_type", "segment", "type_id")):
        return {"fill": "range", "range": [0, 1], "why": "a type id by its name"}
    few = len(value["shape"]) < 2  # a vector may be a shape, and a large one would fill the memory
    wide = {"uint8": [0, 255], "int8": [-128, 127]}.get(dtype, [0, 9] if few else [0, 255])
    return {"fill": "range", "range": wide, "why": GUESSED}
