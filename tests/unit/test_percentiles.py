from __future__ import annotations

import random

import pytest

from artifactctl.percentiles import median_interval, milliseconds, percentile_of, samples_needed


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
        found = median_interval([dice.expovariate(1) for _ in range(25)])
        assert found is not None
        held += found[0] <= 0.693147 <= found[1]
    assert held >= 276


def test_too_few_have_no_interval() -> None:
    assert median_interval([1, 2, 3, 4, 5]) is None
    assert median_interval(range(6)) == (0, 5)


def test_milliseconds() -> None:
    assert milliseconds(1_500_000) == 1.5
    assert milliseconds(None) is None
