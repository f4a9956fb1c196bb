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


def quantile_interval(
    values: Sequence[float], quantile: float = 0.5, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Between which two of the values the quantile lies, whatever their distribution; None where too few say so.

    How many of them lie below the true quantile is binomial: so many at each end are left out as chance allows.
    """
    ordered, tail = sorted(values), (1 - confidence) / 2
    below = _left_out(len(ordered), quantile, tail)
    above = _left_out(len(ordered), 1 - quantile, tail)
    return (ordered[below - 1], ordered[-above]) if below and above else None


def _left_out(count: int, quantile: float, tail: float) -> int:
    total, number = 0.0, 0
    while number < count:
        logarithm = math.lgamma(count + 1) - math.lgamma(number + 1) - math.lgamma(count - number + 1)
        total += math.exp(logarithm + number * math.log(quantile) + (count - number) * math.log(1 - quantile))
        if total > tail:
            break
        number += 1
    return number


def milliseconds(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds / 1e6, 6)


def interval_ms(values: Sequence[float], quantile: float = 0.5) -> tuple[float, float] | None:
    found = quantile_interval(values, quantile)
    return None if found is None else (round(found[0] / 1e6, 6), round(found[1] / 1e6, 6))
