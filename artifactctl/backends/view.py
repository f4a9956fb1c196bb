"""A graph that can be looked at from both sides and changed: who makes a value, who takes it, what is constant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from artifactctl.backends.streams import bring_in

CONSTANT_IR = 4  # from here on an initializer that is no input is a constant


class View:
    def __init__(self, model: ModelProto, home: Path | None = None) -> None:
        self.graph, self._model, self._home = model.graph, model, home
        self.freed = _free_initializers(model)
        self.opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
        self._slots: list[list[NodeProto]] = [[node] for node in self.graph.node]
        self._slot_of = {id(slot[0]): number for number, slot in enumerate(self._slots)}
        self._tensors: dict[str, TensorProto] = {tensor.name: tensor for tensor in self.graph.initializer}
        self.producer: dict[str, NodeProto] = {}  # among ONNX's own nodes
        self._users: dict[str, list[NodeProto]] = defaultdict(list)
        self._seen_outside = {output.name for output in self.graph.output}
        for node in self.graph.node:
            self._enter(node)
            self._seen_outside |= set(_captured(node))
        self._taken = _names(self.graph)
        self._made = 0

    def __iter__(self) -> Iterator[NodeProto]:
        """ONNX's own nodes in order: what others mean by a name is theirs to know."""
        yield from (node for node in self.nodes() if node.output and _is_own(node))

    def nodes(self) -> Iterator[NodeProto]:
        """In order, without those that a rewrite removes while it goes."""
        for slot in self._slots:
            for node in list(slot):
                if id(node) in self._slot_of:
                    yield node

    def tensor(self, name: str) -> TensorProto | None:
        """A constant, not yet unpacked."""
        found = self._tensors.get(name)
        node = self.producer.get(name)
        if found is None and node is not None and node.op_type == "Constant":
            found = attribute(node, "value")  # None of a Constant that is no tensor
        return found

    def stored(self) -> Iterator[TensorProto]:
        """The initializers that some node takes."""
        yield from (tensor for name, tensor in self._tensors.items() if self._users[name])

    def constant(self, name: str) -> np.ndarray[Any, Any] | None:
        tensor = self.tensor(name)
        return None if tensor is None else self.array(tensor)

    def array(self, tensor: TensorProto) -> np.ndarray[Any, Any]:
        """What lies outside is read where it is looked at, and not before."""
        if tensor.data_location != TensorProto.EXTERNAL:
            return numpy_helper.to_array(tensor)
        assert self._home is not None
        inside = _copy(tensor, TensorProto())
        bring_in(inside, self._home)
        return numpy_helper.to_array(inside)

    def number(self, name: str) -> float | None:
        """The value of a float32 constant of shape [] or [1]: it adds a dimension to nothing but a number."""
        tensor = self.tensor(name)
        if tensor is None or tensor.data_type != TensorProto.FLOAT or list(tensor.dims) not in ([], [1]):
            return None
        return float(self.array(tensor).ravel()[0])

    def users(self, name: str) -> list[NodeProto] | None:
        """Everyone who takes a value; None where it is also seen from outside."""
        return None if name in self._seen_outside else self._users[name]

    def own_users(self, name: str) -> list[NodeProto] | None:
        """The same; None also where nobody does, or another than ONNX's own operators."""
        users = self.users(name)
        return users if users and all(map(_is_own, users)) else None

    def only_user(self, name: str) -> NodeProto | None:
        users = self.own_users(name)
        return users[0] if users and len(users) == 1 else None

    def operands(self, node: NodeProto) -> tuple[str, str] | None:
        """The changing input and the constant one of an operator of two inputs."""
        fixed = [self.tensor(name) is not None for name in node.input]
        if len(fixed) != 2 or fixed[0] == fixed[1]:
            return None
        return (node.input[1], node.input[0]) if fixed[0] else (node.input[0], node.input[1])

    def name(self) -> str:
        """One that nothing has yet: a model may come from these very rewrites."""
        while (name := f"algebra_{self._made}") in self._taken:
            self._made += 1
        self._taken.add(name)
        return name

    def add(self, value: np.ndarray[Any, Any]) -> str:
        name = self.name()
        self._tensors[name] = numpy_helper.from_array(value, name)
        self._model.ir_version = max(self._model.ir_version, CONSTANT_IR)
        return name

    def swap(self, old: Sequence[NodeProto], new: Sequence[NodeProto]) -> None:
        """The new nodes stand where the last of the old ones stood: all that they take is there already."""
        number = max(self._slot_of[id(node)] for node in old)
        slot = self._slots[number]
        place = max(place for place, node in enumerate(slot) if any(node is gone for gone in old)) + 1
        slot[place:place] = new
        for node in old:
            own = self._slots[self._slot_of.pop(id(node))]
            own[:] = [entry for entry in own if entry is not node]
            self._leave(node)
        for node in new:
            self._slot_of[id(node)] = number
            self._enter(node)

    def bypass(self, node: NodeProto, value: str) -> None:
        """Whoever takes what a node makes takes that value, which is the same."""
        target = node.output[0]
        if (users := self.users(target)) is None:
            self.swap([node], [helper.make_node("Identity", [value], [target])])
            return
        for user in {id(user): user for user in users}.values():
            self._leave(user)
            user.input[:] = [value if name == target else name for name in user.input]
            self._enter(user)

    def sweep(self) -> None:
        """Forget the nodes whose values nobody takes any more."""
        wanted = set(self._seen_outside)
        for slot in reversed(self._slots):
            for node in reversed(list(slot)):
                if wanted.intersection(node.output):
                    wanted.update(node.input)
                else:
                    slot[:] = [entry for entry in slot if entry is not node]
                    del self._slot_of[id(node)]
                    self._leave(node)

    def close(self) -> None:
        """Write what was changed into the model, without what nobody takes any more."""
        self.sweep()
        nodes = [node for slot in self._slots for node in slot]
        made = {name for node in nodes for name in node.output}
        wanted = self._seen_outside.union(*(node.input for node in nodes))
        copies = [_copy(node, NodeProto()) for node in nodes]
        tensors = [_copy(tensor, TensorProto()) for name, tensor in self._tensors.items() if name in wanted]
        known = [entry for entry in self.graph.value_info if entry.name in made]
        kept = [_copy(entry, type(entry)()) for entry in known]
        for field, values in (("node", copies), ("initializer", tensors), ("value_info", kept)):
            self.graph.ClearField(field)
            getattr(self.graph, field).extend(values)

    def _enter(self, node: NodeProto) -> None:
        for name in node.output if _is_own(node) else ():
            self.producer[name] = node
        for name in node.input:
            self._users[name].append(node)

    def _leave(self, node: NodeProto) -> None:
        for name in node.output:
            if self.producer.get(name) is node:
                del self.producer[name]
        for name in node.input:
            self._users[name] = [user for user in self._users[name] if user is not node]


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    return next((helper.get_attribute_value(entry) for entry in node.attribute if entry.name == name), default)


def like(node: NodeProto, inputs: Sequence[str], output: str) -> NodeProto:
    """The same operator with the same attributes, between other values."""
    made = helper.make_node(node.op_type, inputs, [output], name=node.name, domain=node.domain)
    made.attribute.extend(node.attribute)
    return made


def _is_own(node: NodeProto) -> bool:
    return node.domain in ("", "ai.onnx")


def _free_initializers(model: ModelProto) -> int:
    """Old exporters list every weight as an input too: a runtime must then expect another one at each call."""
    names = {tensor.name for tensor in model.graph.initializer}
    kept = [_copy(entry, type(entry)()) for entry in model.graph.input if entry.name not in names]
    freed = len(model.graph.input) - len(kept)
    if freed:
        model.graph.ClearField("input")
        model.graph.input.extend(kept)
        model.ir_version = max(model.ir_version, CONSTANT_IR)
    return freed


def _names(graph: GraphProto) -> set[str]:
    """Of every value, in inner graphs too."""
    found = {value.name for value in (*graph.input, *graph.initializer, *graph.value_info)}
    for node in graph.node:
        found.update(node.input, node.output)
        for inner in _inner(node):
            found |= _names(inner)
    return found


def _inner(node: NodeProto) -> Iterator[GraphProto]:
    for entry in node.attribute:
        yield from [entry.g] if entry.type == AttributeProto.GRAPH else entry.graphs


def _captured(node: NodeProto) -> Iterator[str]:
    for graph in _inner(node):
        for inner in graph.node:
            yield from inner.input
            yield from _captured(inner)
        yield from (output.name for output in graph.output)


def _copy(source: Any, target: Any) -> Any:
    target.CopyFrom(source)
    return target
