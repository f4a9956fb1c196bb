"""Percentiles and their intervals: numbers in, numbers out, and None where too few numbers support one."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

CONFIDENCE = 0.99


@functools.cache
def samples_needed(percentile: float) -> int:
    """The early-stopping rule of MLPerf LoadGen: so many that at most one above the percentile is no accident."""
    count, above = 1, 1 - percentile
    while percentile**count + count * above * percentile ** (count - 1) > 1 - CONFIDENCE:
        count += 1
    return count


def percentile_of(values: Sequence[float], percentile: float) -> float | None:
    """None below the count that supports it."""
    if not values or (percentile > 0.5 and len(values) < samples_needed(percentile)):
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(percentile * len(ordered)) - 1)]


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Between which two of the values the middle lies, whatever their distribution; None where too few say so."""
    ordered, tail = sorted(values), (1 - confidence) / 2
    below, outside = 0.0, 0
    while outside < len(ordered) // 2:
        below += math.comb(len(ordered), outside) / 2 ** len(ordered)
        if below > tail:
            break
        outside += 1
    return (ordered[outside - 1], ordered[-outside]) if outside else None


def milliseconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds / 1e6, 6)
