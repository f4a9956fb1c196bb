"""How what an operator allows travels back through the operators that hand its values on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper

Array = np.ndarray[Any, Any]
Interval = tuple[float, float]
Pull = Callable[[Interval], Interval]  # what a result may be -> what the operand may be
Lookup = Callable[[str], Array | None]  # the constant of that name

FREE = (float("-inf"), float("inf"))


class Step(NamedTuple):
    """One use of an operator; its names are unique in the whole model, inner graphs included."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    node: NodeProto

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute's value; of another type than the default's it cannot be what its name says."""
        found = next((item for item in self.node.attribute if item.name == name), None)
        held = None if found is None or found.type == AttributeProto.UNDEFINED else helper.get_attribute_value(found)
        return held if default is None or isinstance(held, type(default)) else default

    def input(self, position: int) -> str:
        return self.inputs[position] if position < len(self.inputs) else ""


class Allowed(NamedTuple):
    low: float
    high: float
    why: str
    values: tuple[Any, ...] = ()  # these instead of the range


def same(allowed: Interval) -> Interval:
    return allowed


# which operands are handed on unchanged; None: all of them
_FIRST = "Identity Reshape Unsqueeze Squeeze Flatten Transpose Slice Expand Tile Split Gather GatherElements GatherND"
_FIRST += " Compress DepthToSpace SpaceToDepth ReverseSequence Trilu SequenceAt ConcatFromSequence SplitToSequence"
_FIRST += " Optional OptionalGetElement Dropout ArrayFeatureExtractor"
_HANDED_ON: dict[str, tuple[int, ...] | None] = dict.fromkeys(_FIRST.split(), (0,))
_HANDED_ON |= {"Concat": None, "SequenceConstruct": None, "SequenceInsert": (0, 1), "Where": (1, 2), "Pad": (0, 2)}
_HANDED_ON |= {"ScatterElements": (0, 2), "ScatterND": (0, 2)}


def pull_through(step: Step, position: int, constant: Lookup) -> Pull | None:
    """How limits of the step's results become limits of this operand; None when its values go no further."""
    if step.op in _HANDED_ON:
        positions = _HANDED_ON[step.op]
        return same if positions is None or position in positions else None
    rule = _CHANGED.get(step.op)
    return rule(step, position, constant) if rule else None


def _through_cast(step: Step, position: int, _: Lookup) -> Pull | None:
    """A boolean or a string no longer tells which number it was."""
    return None if step.attribute("to") in (TensorProto.BOOL, TensorProto.STRING) else same


def _other(step: Step, position: int, constant: Lookup) -> Array | None:
    found = constant(step.inputs[1 - position]) if len(step.inputs) == 2 else None
    return found if found is not None and found.size and found.dtype.kind in "iuf" else None


def _through_add(step: Step, position: int, constant: Lookup) -> Pull | None:
    other = _other(step, position, constant)
    if other is None:
        return None
    low, high = float(other.min()), float(other.max())
    return lambda allowed: (allowed[0] - low, allowed[1] - high)


def _through_sub(step: Step, position: int, constant: Lookup) -> Pull | None:
    other = _other(step, position, constant)
    if other is None:
        return None
    low, high = float(other.min()), float(other.max())
    if position == 0:
        return lambda allowed: (allowed[0] + high, allowed[1] + low)
    return lambda allowed: (high - allowed[1], low - allowed[0])


def _through_mul(step: Step, position: int, constant: Lookup) -> Pull | None:
    other = _other(step, position, constant)
    if other is None or not other.min() > 0:
        return None
    return _scaled(1 / float(other.max()), 1 / float(other.min()))


def _through_div(step: Step, position: int, constant: Lookup) -> Pull | None:
    other = _other(step, position, constant)
    if position != 0 or other is None or not other.min() > 0:
        return None
    return _scaled(float(other.min()), float(other.max()))


def _scaled(least: float, most: float) -> Pull:
    """Limits times a factor between `least` and `most`: of both products the one that is safe for every element."""

    def pull(allowed: Interval) -> Interval:
        low, high = allowed
        return low * (least if low <= 0 else most), high * (most if high < 0 else least)

    return pull


def _through_mod(step: Step, position: int, constant: Lookup) -> Pull | None:
    """Everything is allowed when every remainder is."""
    other = _other(step, position, constant)
    if position != 0 or other is None or not other.min() > 0:
        return None
    largest = float(other.max()) - 1
    lowest = -largest if step.attribute("fmod", 0) else 0.0
    return lambda allowed: FREE if allowed[0] <= lowest and allowed[1] >= largest else allowed


def clip_bounds(step: Step, constant: Lookup) -> Interval:
    """Both ends of a Clip; an end that is absent or not a constant is infinite."""
    ends = []
    for position, (name, default) in enumerate((("min", FREE[0]), ("max", FREE[1])), start=1):
        array = constant(step.input(position))
        known = array is not None and array.size and array.dtype.kind in "iuf"
        ends.append(float(array.reshape(-1)[0]) if array is not None and known else step.attribute(name, default))
    return ends[0], ends[1]


def _through_clip(step: Step, position: int, constant: Lookup) -> Pull | None:
    return _between(*clip_bounds(step, constant)) if position == 0 else None


def _through_max(step: Step, position: int, constant: Lookup) -> Pull | None:
    other = _other(step, position, constant)
    return same if other is None else _between(float(other.min()), FREE[1])


def _through_min(step: Step, position: int, constant: Lookup) -> Pull | None:
    other = _other(step, position, constant)
    return same if other is None else _between(FREE[0], float(other.max()))


def _between(low: float, high: float) -> Pull:
    """After a Clip its operand is free on each side where the bound itself is allowed."""

    def pull(allowed: Interval) -> Interval:
        inside = allowed[0] <= low <= allowed[1], allowed[0] <= high <= allowed[1]
        return FREE[0] if inside[0] else allowed[0], FREE[1] if inside[1] else allowed[1]

    return pull


_CHANGED: dict[str, Callable[[Step, int, Lookup], Pull | None]] = {
    "Cast": _through_cast,
    "Add": _through_add,
    "Sub": _through_sub,
    "Mul": _through_mul,
    "Div": _through_div,
    "Mod": _through_mod,
    "Clip": _through_clip,
    "Max": _through_max,
    "Min": _through_min,
}
