"""Where the values of a model go: its steps, constants and shapes, through inner graphs and functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError, EncodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from artifactctl.backends import graph
from artifactctl.backends.passing import Allowed, Array, Interval, Pull, Step, pull_through, same

KEPT_ELEMENTS = 1 << 15  # of a larger tensor only the shape is asked for
HIGHEST_RANK = 64
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
_RESHAPED = ("Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape")  # a constant after these has the same numbers
_SAME_SHAPE = ("Identity", "Cast", "DequantizeLinear")  # com.microsoft has the last one too, unknown to inference
_INFERENCE_ERRORS = (
    *(onnx.shape_inference.InferenceError, onnx.checker.ValidationError, DecodeError, EncodeError),
    *(RuntimeError, ValueError, TypeError, MemoryError),
)


class Reach(NamedTuple):
    """An operator that an input reaches: as which operand, and through which changes."""

    step: Step
    position: int
    pulls: tuple[Pull, ...]

    @property
    def unchanged(self) -> bool:
        return not self.pulls

    def pull(self, allowed: Interval) -> Interval:
        """What the input may be when the operand may be `allowed`."""
        for pull in reversed(self.pulls):
            allowed = pull(allowed)
        return allowed


class Flow:
    def __init__(self, model: ModelProto) -> None:
        self._users: dict[str, list[tuple[Step, int]]] = {}
        self._made: dict[str, Step] = {}
        self._constants: dict[str, TensorProto | Array] = {}
        self._shapes: dict[str, list[int | None]] = {}
        self._taken: dict[str, int] = {}
        self.metadata = {entry.key.lower(): entry.value.lower() for entry in model.metadata_props}
        self.images = {value.name for value in model.graph.input if value.type.denotation.upper() == "IMAGE"}
        prepared = _light(model)
        if model.functions:
            prepared = _attempt(onnx.inliner.inline_local_functions, prepared)
        if _is_plausible(prepared):
            prepared = _attempt(lambda known: onnx.shape_inference.infer_shapes(known, data_prop=True), prepared)
        self._walk(prepared.graph, {})

    def follow(self, name: str) -> Iterator[Reach]:
        """Every operator that the values of `name` reach."""
        queue: list[tuple[str, tuple[Pull, ...]]] = [(name, ())]
        seen = {name}
        while queue:
            used, pulls = queue.pop()
            for step, position in self._users.get(used, []):
                yield Reach(step, position, pulls)
                onward = pull_through(step, position, self.constant)
                if onward is None:
                    continue
                fresh = [output for output in step.outputs if output and output not in seen]
                seen.update(fresh)
                queue += [(output, pulls if onward is same else (*pulls, onward)) for output in fresh]

    def constant(self, name: str) -> Array | None:
        """The numbers of a constant, also behind operators that only give it another shape."""
        while name not in self._constants:
            step = self._made.get(name)
            if step is None or step.op not in _RESHAPED:
                return None
            name = step.input(0)
        found = self._constants[name]
        return tensor_array(found) if isinstance(found, TensorProto) else found

    def scalar(self, name: str) -> float | None:
        array = self.constant(name)
        return (
            float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind in "iuf" else None
        )

    def integers(self, name: str) -> list[int] | None:
        array = self.constant(name)
        return [int(item) for item in array.reshape(-1)] if array is not None and array.dtype.kind in "iu" else None

    def shape(self, name: str) -> list[int | None] | None:
        """The sizes that are known; None where one is free, None alone when not even the rank is known."""
        while name not in self._shapes:
            step = self._made.get(name)
            if step is None or step.op not in _SAME_SHAPE:
                return None
            name = step.input(0)
        return self._shapes[name]

    def size(self, name: str, axis: int) -> int | None:
        shape = self.shape(name)
        return shape[axis] if shape and -len(shape) <= axis < len(shape) else None

    def maker(self, name: str) -> Step | None:
        return self._made.get(name)

    def _walk(self, inner: GraphProto, outer: dict[str, str]) -> dict[str, str]:
        """Index one graph and what is inside it; the answer says under which unique name each of its names is kept."""
        names = dict(outer)
        for entry in (*inner.input, *inner.initializer):
            names[entry.name] = (
                names[entry.name] if entry.name in names and entry.name not in outer else self._unique(entry.name)
            )
        for tensor in inner.initializer:
            self._constants[names[tensor.name]] = tensor
            self._shapes[names[tensor.name]] = list(tensor.dims)
        for node in inner.node:
            operands = tuple(names.get(name, name) for name in node.input)
            names |= {name: self._unique(name) for name in node.output if name}
            step = Step(_operator(node), operands, tuple(names.get(name, "") for name in node.output), node)
            self._index(step)
            for attribute in node.attribute:
                for body in graph.inner_graphs(attribute):
                    self._join(step, body, self._walk(body, names))
        for value in (*inner.input, *inner.value_info, *inner.output):
            shape = graph.shape_of(value.type.tensor_type) if value.type.HasField("tensor_type") else None
            if shape is not None and value.name in names:
                self._shapes.setdefault(names[value.name], [size if isinstance(size, int) else None for size in shape])
        return names

    def _unique(self, name: str) -> str:
        """Branches may use one name for different things."""
        count = self._taken[name] = self._taken.get(name, 0) + 1
        return name if count == 1 else f"{name}~{count}"

    def _index(self, step: Step) -> None:
        for position, name in enumerate(step.inputs):
            if name:
                self._users.setdefault(name, []).append((step, position))
        self._made |= dict.fromkeys(filter(None, step.outputs), step)
        if step.op == "Constant" and step.node.attribute and step.outputs:
            held = step.attribute(step.node.attribute[0].name)
            if isinstance(held, TensorProto):
                self._shapes[step.outputs[0]] = list(held.dims)
                self._constants[step.outputs[0]] = held
            elif isinstance(held, int | float | bytes | list):
                self._constants[step.outputs[0]] = np.array(held)

    def _join(self, step: Step, body: GraphProto, names: dict[str, str]) -> None:
        """Tie the operands and results of If, Loop and Scan to the inputs and outputs of their inner graphs."""
        inputs = [names[value.name] for value in body.input]
        outputs = [names.get(value.name, "") for value in body.output]
        pairs = list(zip(outputs, step.outputs, strict=False))
        if step.op == "Loop":  # count and condition come first, and what one round leaves is what the next one takes
            pairs = list(zip(outputs[1:], step.outputs, strict=False))
            pairs += [*zip(step.inputs[2:], inputs[2:], strict=False), *zip(outputs[1:], inputs[2:], strict=False)]
        elif step.op in ("Scan", "SequenceMap"):
            pairs += zip(step.inputs, inputs, strict=False)
        for source, target in pairs:
            if source and target:
                self._users.setdefault(source, []).append((Step("Identity", (source,), (target,), NodeProto()), 0))


def _operator(node: NodeProto) -> str:
    """An operator of an unknown domain must not pass for its namesake."""
    return str(node.op_type) if node.domain in _DOMAINS else f"{node.domain}.{node.op_type}"


def as_text(word: Any) -> str:
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word)


def tensor_array(tensor: TensorProto) -> Array | None:
    if tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError):  # the data do not fit the shape
        return None


def _attempt(change: Callable[[ModelProto], Any], model: ModelProto) -> ModelProto:
    """What cannot be inferred is only not known."""
    try:
        changed: ModelProto = change(model)
    except _INFERENCE_ERRORS:
        return model
    return changed


def _is_plausible(model: ModelProto) -> bool:
    """An axis far outside makes onnx read past its arrays, which ends the process: no inference for such a model."""
    return all(
        (0 if attribute.name == "batch_dims" else -HIGHEST_RANK) <= attribute.i <= HIGHEST_RANK
        for node in graph.nodes(model)
        for attribute in node.attribute
        if attribute.name in ("axis", "batch_dims")
    )


def _light(model: ModelProto) -> ModelProto:
    """A copy in which large tensors are inputs: inference asks for their shape only, and protobuf ends at 2 GiB."""
    light = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    light.graph.name = model.graph.name or "graph"
    for field in ("input", "output", "value_info"):
        getattr(light.graph, field).extend(getattr(model.graph, field))
    large: list[tuple[str, int, Any]] = []
    for tensor in model.graph.initializer:
        if _is_large(tensor):
            large.append((tensor.name, tensor.data_type, tensor.dims))
        else:
            light.graph.initializer.append(tensor)
    for node in model.graph.node:
        held = node.attribute[0].t if node.op_type == "Constant" and node.attribute else None
        if held is not None and _is_large(held):
            large.append((node.output[0], held.data_type, held.dims))
        else:
            light.graph.node.append(node)
    large += [(item.values.name, item.values.data_type, item.dims) for item in model.graph.sparse_initializer]
    declared = {value.name for value in model.graph.input}
    light.graph.input.extend(helper.make_tensor_value_info(*entry) for entry in large if entry[0] not in declared)
    return light


def _is_large(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL or math.prod(tensor.dims) > KEPT_ELEMENTS


Rule = Callable[[Flow, Step, int], Allowed | None]  # what one operand of a step may be
