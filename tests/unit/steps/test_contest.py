"""Who is better, as far as it needs no model: the clock is over, so nobody is timed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from artifactctl.clock import Clock
from artifactctl.records import Tried
from artifactctl.steps.contest import Contest
from tests.unit.steps.test_choose import tried

SMALL, LARGE = {"x": (1, 3)}, {"x": (64, 3)}


@pytest.fixture
def contest() -> Contest:
    nobody: Any = None
    return Contest(nobody, Clock(0.0), nobody, lambda line: None)


def at(item: Tried, sizes: dict[str, tuple[int, ...]]) -> Tried:
    return replace(item, candidate=replace(item.candidate, fixed=sizes))


FAST, SLOW = tried("fp32-fixed", 0.5, 0.6), tried("fp32", 0.8, 0.9)


def test_by_what_both_are_to_the_source(contest: Contest) -> None:
    assert contest._better(FAST, SLOW)
    assert not contest._better(SLOW, FAST)
    assert contest._better(at(FAST, SMALL), at(SLOW, SMALL))


def test_a_ratio_at_other_sizes_proves_nothing(contest: Contest) -> None:
    """The one was timed at its own sizes, and the other may be as fast there."""
    assert not contest._better(at(FAST, SMALL), SLOW)
    assert not contest._better(FAST, at(SLOW, SMALL))


def test_of_two_shapes_none_is_the_better(contest: Contest) -> None:
    assert not contest._better(at(FAST, SMALL), at(SLOW, LARGE))
