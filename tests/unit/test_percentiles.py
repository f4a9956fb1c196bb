from __future__ import annotations

import random

import pytest

from artifactctl.percentiles import interval_ms, milliseconds, percentile_of, quantile_interval, samples_needed


def test_the_counts_of_the_early_stopping_rule() -> None:
    assert [samples_needed(percentile) for percentile in (0.90, 0.95, 0.99)] == [64, 130, 662]


@pytest.mark.parametrize(("percentile", "needed"), [(0.95, 130), (0.99, 662)])
def test_none_below_the_count_that_supports_it(percentile: float, needed: int) -> None:
    assert percentile_of(range(needed - 1), percentile) is None
    assert percentile_of(range(1, needed + 1), percentile) == pytest.approx(percentile * needed, abs=1)


def test_the_median_needs_one() -> None:
    assert percentile_of([], 0.5) is None
    assert percentile_of([7], 0.5) == 7
    assert percentile_of([3, 1, 2], 0.5) == 2


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    dice = random.Random(1)
    held = 0
    for _ in range(300):
        found = quantile_interval([dice.expovariate(1) for _ in range(25)])
        assert found is not None
        held += found[0] <= 0.693147 <= found[1]
    assert held >= 276


@pytest.mark.parametrize("quantile", [0.05, 0.95, 0.99])
def test_the_interval_of_any_quantile_holds_as_often_as_it_says(quantile: float) -> None:
    dice = random.Random(2)
    held = 0
    for _ in range(300):
        found = quantile_interval([dice.random() for _ in range(700)], quantile)
        assert found is not None
        held += found[0] <= quantile <= found[1]
    assert 276 <= held < 300, "too often would be an interval that says nothing"


def test_the_percentile_lies_in_its_interval() -> None:
    values = [float(value) for value in range(1, 701)]
    for quantile in (0.5, 0.95, 0.99):
        low, high = quantile_interval(values, quantile) or (0.0, 0.0)
        assert low <= (percentile_of(values, quantile) or 0.0) <= high
    assert quantile_interval(values[:100], 0.99) is None
    assert interval_ms([1e6] * 6) == (1.0, 1.0)
    assert interval_ms([1e6] * 5) is None


def test_too_few_have_no_interval() -> None:
    assert quantile_interval([1, 2, 3, 4, 5]) is None
    assert quantile_interval(range(6)) == (0, 5)


def test_milliseconds() -> None:
    assert milliseconds(1_500_000) == 1.5
    assert milliseconds(None) is None
