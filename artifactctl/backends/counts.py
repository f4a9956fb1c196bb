"""Which integers say how much: shapes, sizes, counts, axes, lengths."""

from __future__ import annotations

import math

from artifactctl.backends.flow import Flow, Rule
from artifactctl.backends.passing import Allowed, Step


def within(low: int, high: int, what: str) -> Rule:
    return lambda flow, step, position: Allowed(low, high, what)


def axis_of(more: int = 0) -> Rule:
    """An axis of the first operand; `more` when a new one may come after the last."""

    def rule(flow: Flow, step: Step, _: int) -> Allowed | None:
        shape = flow.shape(step.input(0))
        return Allowed(0, max(0, len(shape or ()) - 1 + more), f"an axis of {step.input(0)!r}")

    return rule


def squeezed_axis(flow: Flow, step: Step, _: int) -> Allowed | None:
    shape = flow.shape(step.input(0)) or []
    single = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return Allowed(0, single[-1] if single else 0, f"an axis of {step.input(0)!r} that has size 1", single)


def _sliced(flow: Flow, step: Step) -> int | None:
    """The size of the shortest axis that a Slice may cut."""
    axes = flow.integers(step.input(3))
    sizes = flow.shape(step.input(0)) or [None]
    if axes:
        sizes = [flow.size(step.input(0), axis) for axis in axes]
    known = [size for size in sizes if size is not None]
    return min(known) if len(known) == len(sizes) else None


def slice_start(flow: Flow, step: Step, _: int) -> Allowed | None:
    """Before the end, so that something is left; half of it when the end is an input too."""
    size, ends = _sliced(flow, step), flow.integers(step.input(2))
    last = (size or 1) // 2
    if ends:
        last = min(end if end >= 0 else end + (size or 0) for end in ends)
    return Allowed(0, max(0, min(last, size or 2) - 1), "where a Slice starts")


def slice_end(flow: Flow, step: Step, _: int) -> Allowed | None:
    """After the start; what lies behind the last entry counts as the last."""
    size, starts = _sliced(flow, step), flow.integers(step.input(1))
    first = (size or 1) // 2
    if starts:
        first = max(start if start >= 0 else start + (size or 0) for start in starts)
    first = max(first, 0)
    return Allowed(first + 1, max(size or first + 4, first + 1), "where a Slice ends")


def largest_count(flow: Flow, step: Step, _: int) -> Allowed | None:
    size = flow.size(step.input(0), step.attribute("axis", -1))
    return Allowed(1, size or 1, "how many TopK keeps")


def reshaped(flow: Flow, step: Step, position: int) -> Allowed:
    """A shape for Reshape: one that keeps the number of elements, where there is one to be found."""
    what, used, data = "a shape for Reshape", step.input(position), flow.shape(step.input(0))
    parts = flow.maker(used)
    if parts is not None and parts.op == "Concat":
        known = [flow.constant(name) for name in parts.inputs]
        others = [array for array in known if array is not None]
        complete = len(others) == len(known) - 1 and not any((array == -1).any() for array in others)
        return Allowed(-1, 1, what, (-1,)) if complete else Allowed(1, 1, what)
    count = flow.size(used, 0)
    if count == 1:
        return Allowed(-1, 1, what, (-1,))
    if data is not None and count == len(data) and not step.attribute("allowzero", 0):
        return Allowed(0, 1, what, (0,))  # zero: as it was
    if count and data is not None and None not in data:
        total = math.prod(size or 0 for size in data)
        root = round(total ** (1 / count))
        if root**count == total:
            return Allowed(root, root, what)
    return Allowed(1, 2, what)


def expanded(flow: Flow, step: Step, _: int) -> Allowed | None:
    """An axis of size 1 can become anything, the others only what they are."""
    shape = flow.shape(step.input(0))
    return Allowed(1, 4 if shape is not None and set(shape) <= {1} else 1, "a shape for Expand")


def resized(flow: Flow, step: Step, _: int) -> Allowed | None:
    """Only "nearest" changes batch and channels too; the others keep them, and one number has to do for all axes."""
    free = step.attribute("mode", b"nearest") == b"nearest" or step.attribute("axes")
    shape = flow.shape(step.input(0)) or []
    return Allowed(1, 8 if free or len(shape) == 2 else 1, "sizes for Resize")


def grid_size(flow: Flow, step: Step, _: int) -> Allowed | None:
    """The first size is the batch, and one number has to do for all."""
    batch = flow.size(step.input(0), 0) or 1
    return Allowed(batch, batch, "a size for AffineGrid")


def padding(flow: Flow, step: Step, _: int) -> Allowed | None:
    """A reflection is shorter than what it reflects."""
    shape = flow.shape(step.input(0)) or [None]
    shortest = min(size or 1 for size in shape)
    plain = step.attribute("mode", b"constant") == b"constant"
    return Allowed(0, 2 if plain else max(0, min(2, shortest - 1)), "how much Pad adds")


def split_sizes(flow: Flow, step: Step, position: int) -> Allowed | None:
    size, parts = flow.size(step.input(0), step.attribute("axis", 0)), flow.size(step.input(position), 0)
    if size is not None and parts and size % parts == 0:
        return Allowed(size // parts, size // parts, "sizes for Split")
    return Allowed(1, 1, "sizes for Split")


def lengths(default: int, attribute: str = "") -> Rule:
    """Lengths of sequences, at most the longest there is."""

    def rule(flow: Flow, step: Step, _: int) -> Allowed | None:
        axis = step.attribute(attribute, default)  # `layout` says at once which axis is the time
        return Allowed(1, flow.size(step.input(0), axis) or 1, "lengths of sequences")

    return rule


def cached_lengths(flow: Flow, step: Step, _: int) -> Allowed | None:
    if step.node.domain == "com.microsoft":  # another operand there
        return None
    return Allowed(1, flow.size(step.input(1), -2) or 1, "lengths of sequences")
