"""Which integers each operator takes: a table of rules, and what they say together."""

from __future__ import annotations

import math

from artifactctl.backends.counts import (
    axis_of,
    cached_lengths,
    expanded,
    grid_size,
    largest_count,
    lengths,
    padding,
    reshaped,
    resized,
    slice_end,
    slice_start,
    split_sizes,
    squeezed_axis,
    within,
)
from artifactctl.backends.flow import Flow, Rule
from artifactctl.backends.lookups import (
    flat_index,
    index,
    index_nd,
    index_quantized,
    one_hot,
    rotated,
    row_of,
    whole_mask,
)
from artifactctl.backends.passing import FREE, Allowed, Step, clip_bounds

_SHAPE = within(1, 4, "a shape")
_COUNT = within(1, 9, "a count")
_CLASS = row_of(0, 1)
_LENGTHS = {4: lengths(0, "layout")}

# operands that can only be integers
INDEX_RULES: dict[str, dict[int, Rule]] = {
    "Gather": {1: index},
    "GatherElements": {1: index},
    "GatherND": {1: index_nd},
    "GatherBlockQuantized": {1: index_quantized},
    "Scatter": {1: index},
    "ScatterElements": {1: index},
    "ScatterND": {1: index_nd},
    "TensorScatter": {2: within(0, 0, "where TensorScatter writes")},
    "ArrayFeatureExtractor": {1: row_of(0, -1)},
    "EmbedLayerNormalization": {0: row_of(2), 1: row_of(4), 8: row_of(3)},
    "RotaryEmbedding": {1: rotated, 3: rotated},
    "Attention": {3: whole_mask, 6: cached_lengths},
    "OneHot": {0: one_hot, 1: _COUNT},
    "NegativeLogLikelihoodLoss": {1: _CLASS},
    "SoftmaxCrossEntropyLoss": {1: _CLASS},
    "RoiAlign": {2: row_of(0)},
    "MaxUnpool": {1: flat_index},
    "NonMaxSuppression": {2: _COUNT},
    "Slice": {1: slice_start, 2: slice_end, 3: axis_of(), 4: within(1, 2, "steps of a Slice")},
    "TopK": {1: largest_count},
    "Tile": {1: within(1, 3, "how often Tile repeats")},
    "Reshape": {1: reshaped},
    "Expand": {1: expanded},
    "ConstantOfShape": {0: _SHAPE},
    "CenterCropPad": {1: _SHAPE},
    "Resize": {3: resized},
    "Pad": {1: padding, 3: axis_of()},
    "Unsqueeze": {1: axis_of(1)},
    "Squeeze": {1: squeezed_axis},
    "CumSum": {1: axis_of()},
    "CumProd": {1: axis_of()},
    "AffineGrid": {1: grid_size},
    "Split": {1: split_sizes},
    "SplitToSequence": {1: split_sizes},
    "ReverseSequence": {1: lengths(0, "time_axis")},
    "LSTM": _LENGTHS,
    "GRU": _LENGTHS,
    "RNN": _LENGTHS,
    "Loop": {0: within(1, 4, "how often a Loop runs")},
    "SequenceAt": {1: within(0, 0, "a place in a sequence")},
    "SequenceErase": {1: within(0, 0, "a place in a sequence")},
    "SequenceInsert": {2: within(0, 0, "a place in a sequence")},
    "BitShift": {1: within(0, 7, "how far BitShift shifts")},
    "Trilu": {1: within(-1, 1, "a diagonal")},
    "DFT": {1: _COUNT, 2: axis_of(-1)},  # the last axis is real and imaginary
    "STFT": {1: _COUNT, 3: _COUNT},
    "MelWeightMatrix": {0: _COUNT, 1: within(16, 64, "a length"), 2: within(8000, 16000, "a sample rate")},
    "HannWindow": {0: _COUNT},
    "HammingWindow": {0: _COUNT},
    "BlackmanWindow": {0: _COUNT},
}
INDEX_RULES |= {
    f"Reduce{kind}": {1: axis_of()}
    for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
}


def _clipped(flow: Flow, step: Step, _: int) -> Allowed | None:
    """A little more on both sides, so that clipping itself is tried."""
    low, high = clip_bounds(step, flow.constant)
    return Allowed(low - 2, high + 2, "clipped") if FREE[0] < low <= high < FREE[1] else None


def _wrapped(flow: Flow, step: Step, _: int) -> Allowed | None:
    """Twice around, so that both a number and its remainder are tried."""
    divisor = flow.scalar(step.input(1))
    return Allowed(0, 2 * divisor - 1, f"taken modulo {divisor:g}") if divisor and divisor > 0 else None


def _counted(flow: Flow, step: Step, position: int) -> Allowed | None:
    """Compared with 0, 1, 2, …: a one-hot code that was written out."""
    array = flow.constant(step.input(1 - position))
    if array is None or array.dtype.kind not in "iu" or array.size < 2:
        return None
    counts = (array.reshape(-1) == range(array.size)).all()
    return Allowed(0, array.size - 1, f"one-hot over {array.size} values") if counts else None


_DIVISOR = within(1, 9, "a divisor: never zero")

# operands that can be integers or floats
NUMBER_RULES: dict[str, dict[int, Rule]] = {
    "Clip": {0: _clipped},
    "Equal": {0: _counted, 1: _counted},
    "Div": {1: _DIVISOR},
    "Mod": {0: _wrapped, 1: _DIVISOR},
    "Pow": {1: within(0, 3, "an exponent")},
    "Range": {
        0: within(0, 2, "the start of a Range"),
        1: within(3, 9, "the end of a Range"),
        2: within(1, 2, "the step of a Range"),
    },
}


def find_allowed(flow: Flow, name: str, tables: tuple[dict[str, dict[int, Rule]], ...]) -> Allowed | None:
    """What every operator that the input reaches allows; None when none of them says anything."""
    found = []
    for reach in flow.follow(name):
        for rule in (table.get(reach.step.op, {}).get(reach.position) for table in tables):
            allowed = rule(flow, reach.step, reach.position) if rule else None
            if allowed is not None:
                low, high = reach.pull((allowed.low, allowed.high))
                values = allowed.values if reach.unchanged else ()
                found.append(Allowed(low, high, allowed.why, values))
    return _common(found)


def _common(found: list[Allowed]) -> Allowed | None:
    """What all allow; one that contradicts a narrower one has been misunderstood and does not count."""
    kept: Allowed | None = None
    for item in sorted(found, key=lambda item: (not item.values, item.high - item.low, item.why)):
        low = math.ceil(item.low) if math.isfinite(item.low) else item.low
        high = math.floor(item.high) if math.isfinite(item.high) else item.high
        if (low, high) == FREE or not low <= high:
            continue
        if kept is None:
            kept = item._replace(low=low, high=high)
        elif max(low, kept.low) <= min(high, kept.high):
            kept = kept._replace(low=max(low, kept.low), high=min(high, kept.high))
    return kept
