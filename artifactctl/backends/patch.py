"""Changes to a graph: new nodes behind a value, new constants, other names."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from artifactctl.backends import graph

FLOATS: dict[int, type] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.FLOAT16: np.float16,
    TensorProto.DOUBLE: np.float64,
}
INTEGERS: set[int] = {TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT64}
INTEGERS |= {TensorProto.UINT32, TensorProto.UINT16, TensorProto.UINT8}


Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Host:
    """`site` is what faults of values change; the others are outputs, by what they hold."""

    model: ModelProto
    own: list[str]  # outputs of the model itself
    nodes: int  # of the model itself; those that were added follow
    plan: dict[str, Any]
    peaks: dict[str, float]
    site: str | None = None
    value: str | None = None
    twin: str | None = None
    flag: str | None = None
    count: str | None = None
    text: str | None = None

    def outputs(self, elements: set[int], more: str | None) -> list[str]:
        """Outputs of the model itself that hold such elements, then the one that was added."""
        found = [value.name for value in self.model.graph.output if value.type.tensor_type.elem_type in elements]
        return [name for name in found if name in self.own] + ([more] if more else [])


Edit = Callable[["Patch", str, float], str]  # gets a float, and the largest magnitude that the source answered with


class Patch:
    """A copy of a model with nodes added; it knows every name, so that no new one collides."""

    def __init__(self, model: ModelProto, where: str = "") -> None:
        self.model, self.where = ModelProto(), where
        self.outside: set[str] = set()  # tensors that go into a data file
        self.model.CopyFrom(model)
        self.wide: int = TensorProto.FLOAT  # what is computed in: float16 is too coarse
        self._names = {name for node in graph.nodes(model) for name in (*node.input, *node.output)}
        for inner in graph.graphs(model):
            self._names |= {value.name for value in (*inner.input, *inner.output, *inner.initializer)}

    def fresh(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def op(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or self.fresh(f"selftest_{kind.lower()}")
        self.model.graph.node.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any, dtype: type = np.int64) -> str:
        return self.op("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def number(self, value: float) -> str:
        return self.constant(value, FLOATS[self.wide])

    def spot(self, name: str, *, largest: bool) -> str:
        """1 at one element, the largest or the first, and 0 elsewhere."""
        index = self.constant([0])
        if largest:
            flat = self.op("Reshape", name, self.constant([-1]))
            index = self.op("ArgMax", self.op("Cast", flat, to=TensorProto.FLOAT), axis=0)
        row = self.op("OneHot", index, self.op("Size", name), self.constant([0, 1], np.float32))
        return self.op("Reshape", row, self.op("Shape", name))

    def lifted_shape(self, name: str) -> str:
        """The shape with one more axis of 1 in front."""
        return self.op("Concat", self.constant([1]), self.op("Shape", name), axis=0)

    def element(self, name: str) -> int:
        """The type of an output; what feeds a ZipMap is float32."""
        values = {value.name: value.type.tensor_type.elem_type for value in self.model.graph.output}
        return int(values.get(name, TensorProto.FLOAT))

    def declare(self, name: str, element: int) -> None:
        """An output's type anew; its shape is left open."""
        made = helper.make_tensor_value_info(name, element, None)
        for value in self.model.graph.output:
            if value.name == name:
                value.CopyFrom(made)
                return
        self.model.graph.output.append(made)

    def detach(self, name: str) -> str:
        """Give what is called `name` another one, so that something else can take its place."""
        raw = self.fresh(f"selftest_raw_{name}")
        for node in self.model.graph.node:
            node.output[:] = [raw if output == name else output for output in node.output]
        rename_uses(self.model.graph.node, name, raw)
        for value in [value for value in self.model.graph.value_info if value.name == name]:
            self.model.graph.value_info.remove(value)
        return raw

    def change(self, name: str, edit: Edit, peak: float) -> None:
        """Put `edit` between a value and the output that shows it; nothing else sees the change."""
        element, raw = self.element(name), self.detach(name)
        self.wide = TensorProto.FLOAT if element == TensorProto.FLOAT16 else element
        changed = edit(self, self.op("Cast", raw, to=self.wide), peak)
        self.op("Cast", changed, to=element, output=name)
        if any(value.name == name for value in self.model.graph.output):
            self.declare(name, element)
        for node in [node for node in self.model.graph.node if node.op_type == "ZipMap" and raw in node.input]:
            moved = NodeProto()  # behind the new nodes
            moved.CopyFrom(node)
            moved.input[:] = [name if given == raw else given for given in node.input]
            self.model.graph.node.remove(node)
            self.model.graph.node.append(moved)

    def save(self, path: Path) -> None:
        """With the tensors of `outside` in a file of their own, which is cut once it was seen to be whole."""
        data = path.with_name(path.name + graph.DATA_SUFFIX)
        with data.open("wb") as file:
            for tensor in (tensor for tensor in self.model.graph.initializer if tensor.name in self.outside):
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))  # as raw bytes
                set_external_data(tensor, data.name, offset=file.tell(), length=file.write(tensor.raw_data))
                tensor.ClearField("raw_data")
        graph.save(self.model, path)
        if self.outside:
            plain_session(str(path))
            os.truncate(data, data.stat().st_size // 2)


def rename_uses(nodes: Any, old: str, new: str) -> None:
    """In inner graphs too, unless they have a value of that name themselves."""
    for node in nodes:
        node.input[:] = [new if name == old else name for name in node.input]
        for inner in (inner for attribute in node.attribute for inner in graph.inner_graphs(attribute)):
            own = {value.name for value in (*inner.input, *inner.initializer)}
            own |= {name for made in inner.node for name in made.output}
            if old not in own:
                rename_uses(inner.node, old, new)


def plain_session(path: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
