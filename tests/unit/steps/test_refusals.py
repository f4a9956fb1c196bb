"""The source competes too: what nobody asked for must be better than it, and nothing may be worse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl.project import Budgets
from artifactctl.records import Tried
from artifactctl.steps.refusals import Rules, loses, rejection
from tests.unit.steps.test_choose import choose, tried, with_numbers

RULES = Rules("cpu", "latency", Budgets())


def narrow(low: float = 0.9, high: float = 1.1, **numbers: Any) -> Tried:
    """Of a lower precision than the source."""
    item = with_numbers(tried("int8-dynamic", low, high), **({"peak": 10.0} | numbers))
    return replace(item, candidate=replace(item.candidate, precision="int8"))


def refused(item: Tried, **rules: Any) -> str | None:
    return rejection(item, replace(RULES, **rules))


BETTER = {
    "latency": (narrow(0.8, 0.95), "faster"),
    "size": (narrow(size=50), "smaller"),
    "memory": (narrow(peak=5.0, source_peak=10.0), "leaner"),
    "load": (narrow(load=(0.8, 0.9)), "faster to load"),
}


@pytest.mark.parametrize("objective", BETTER)
def test_a_lower_precision_must_be_proved_better_than_the_source(objective: str) -> None:
    better, word = BETTER[objective]
    assert refused(better, objective=objective) is None
    assert refused(narrow(), objective=objective) == f"not proved {word} than the source, which is simpler"
    assert choose([narrow()], tried("source", 1.0, 1.0), objective=objective).chosen.candidate.recipe == "source"


@pytest.mark.parametrize("objective", BETTER)
def test_who_asks_for_it_by_name_gets_it_unless_it_is_worse(objective: str) -> None:
    named = frozenset({"int8-dynamic"})
    assert refused(narrow(), objective=objective, named=named) is None
    own = replace(narrow(), candidate=replace(narrow().candidate, olive_file=Path("mine.json")))
    assert refused(own, objective=objective) is None
    assert "slower" in (refused(narrow(1.1, 1.2), objective=objective, named=named) or "")


def test_a_source_of_the_same_precision_is_no_simpler() -> None:
    assert refused(narrow(), precision="int8") is None


def test_nothing_is_chosen_for_a_size_or_a_memory_that_the_source_betters() -> None:
    assert refused(with_numbers(tried("fp32"), size=101), objective="size") == "larger than the source"
    assert refused(with_numbers(tried("fp32"), size=101)) is None
    heavy = with_numbers(tried("fp32"), peak=50.0, source_peak=10.0)
    assert refused(heavy, objective="memory") == "takes more memory than the source"
    assert refused(heavy) is None
    assert refused(with_numbers(tried("fp32"), peak=10.0, source_peak=10.0), objective="memory") is None


def test_what_is_tuned_must_not_lose_what_was_wanted() -> None:
    light, heavy = with_numbers(tried("fp32"), peak=5.0), with_numbers(tried("fp32"), peak=10.0)
    quick, slow = with_numbers(tried("fp32"), load=(0.5, 0.6)), with_numbers(tried("fp32"), load=(0.7, 0.8))
    for one, other, objective in ((heavy, light, "memory"), (slow, quick, "load")):
        rules = replace(RULES, objective=objective)
        assert loses(one, other, rules)
        assert not loses(other, one, rules)
        assert not loses(one, one, rules)
        assert not loses(one, other, RULES)
