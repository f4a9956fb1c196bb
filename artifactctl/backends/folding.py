"""What is computed from constants alone is one: other rewrites can then look at it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from artifactctl.backends.external import stored_bytes
from artifactctl.backends.view import View, attribute

Array = np.ndarray[Any, Any]

# What fusions before leave behind, in double precision, of weights that they scaled. ONNX Runtime's own folding comes
# after the rewrites, and takes the rest.
_FOLDED = {"Add", "Sub", "Mul", "Div", "Sqrt", "Cast", "Squeeze", "Unsqueeze", "Reshape"}
_LARGEST_BYTES = 1 << 26
_SMALL_BYTES = 1024  # of what others may share without being one with it: a number, a list of axes


def folded(view: View) -> int:
    """All that hangs together, or none of it: no file grows by it."""
    changed = 0
    for nodes in _together(view):
        inside = {id(node) for node in nodes}
        values: dict[str, Array] = {}
        for node in nodes:
            values[node.output[0]] = _computed(view, node, values)
        last = [node.output[0] for node in nodes if not _stays_inside(view, node.output[0], inside)]
        roots = {name for node in nodes for name in node.input if name not in values}
        freed = sum(_size(view, name) for name in roots if _stays_inside(view, name, inside))
        if sum(values[name].nbytes for name in last) <= freed:
            for name in last:
                view.bypass(view.producer[name], view.add(values[name]))
            changed += len(nodes)
    return changed


def _together(view: View) -> list[list[NodeProto]]:
    """The nodes that can be computed now, in order, by what they share."""
    nodes: dict[str, NodeProto] = {}
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for node in view:
        if _is_foldable(view, node, nodes):
            nodes[node.output[0]] = node
            for name in node.input:
                if name in nodes or _size(view, name) > _SMALL_BYTES:
                    leader[find(name)] = find(node.output[0])
    groups: dict[str, list[NodeProto]] = defaultdict(list)
    for name, node in nodes.items():
        groups[find(name)].append(node)
    return list(groups.values())


def _is_foldable(view: View, node: NodeProto, made: Mapping[str, NodeProto]) -> bool:
    if node.op_type not in _FOLDED or node.domain or not node.input:
        return False
    axes = list(attribute(node, "axes", ()))  # of an old opset; the evaluator takes them one after the other
    if axes != sorted(axes) or any(axis < 0 for axis in axes):
        return False
    return all(name in made or _is_light(view.tensor(name)) for name in node.input)


def _is_light(tensor: TensorProto | None) -> bool:
    """What lies outside stays there."""
    if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
        return False
    size = stored_bytes(tensor)
    return size is not None and size <= _LARGEST_BYTES


def _stays_inside(view: View, name: str, inside: set[int]) -> bool:
    users = view.users(name)
    return users is not None and all(id(user) in inside for user in users)


def _size(view: View, name: str) -> int:
    tensor = view.tensor(name)
    return (stored_bytes(tensor) or 0) if tensor is not None else 0


def _computed(view: View, node: NodeProto, made: Mapping[str, Array]) -> Array:
    known = ((name, made[name] if name in made else view.constant(name)) for name in node.input)
    given = {name: value for name, value in known if value is not None}
    inputs, outputs = ([helper.make_empty_tensor_value_info(name) for name in names] for names in (given, node.output))
    opset = helper.make_opsetid("", view.opset)
    model = helper.make_model(helper.make_graph([node], "folded", inputs, outputs), opset_imports=[opset])
    (found,) = ReferenceEvaluator(model).run(None, given)
    return np.asarray(found)
