"""Who is better, as far as it needs no model: the clock is over, so nobody is timed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl.clock import Clock
from artifactctl.errors import SourceError
from artifactctl.records import Tried
from artifactctl.steps import choose as choosing
from artifactctl.steps.contest import Contest
from tests.unit.steps.test_choose import SOURCE, on, speed, tried, verdicts, with_numbers
from tests.unit.steps.test_reuse import reference

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


def test_the_fastest_so_far_is_who_must_be_beaten(tmp_path: Path) -> None:
    """Of those on its provider, with its sizes, that hold; a ratio that is proved above it ends the timing."""
    nobody: Any = None
    contest = Contest(reference(tmp_path), Clock(math.inf), nobody, lambda line: None)
    measured = [FIRST, LOST, BEHIND, on("openvino", "fp32", 0.2, 0.3), at(tried("fp32-fixed", 0.1, 0.2), SMALL)]
    ratios = {item.candidate.recipe: item.latency.ratio for item in (FIRST, BEHIND) if item.latency}
    assert contest._leader(measured, tried("fp16")) == min(ratios.values()) == ratios["peephole"]
    assert contest._leader([FIRST], tried("fp16")) == ratios["fp32"]
    assert contest._leader([LOST], tried("fp16")) is None
    assert contest._leader([], tried("fp16")) is None


class Told(Contest):
    """A contest whose times are given; what is timed again loads as `loads` says."""

    loads: tuple[float, float]
    timed: list[str]

    def _measured(self, tried: list[Tried]) -> list[Tried]:
        return list(tried)

    def against_the_source(
        self, item: Tried, budget_s: float, lost_above: float | None = None, *, loads: bool = True
    ) -> Tried:
        assert loads is not bool(item.latency and item.latency.load), "what is known of a load is kept"
        self.timed.append(item.candidate.recipe)
        return with_numbers(item if item.latency else replace(item, latency=speed(1.0, 1.0)), load=self.loads)


def told(place: Path, loads: tuple[float, float]) -> Told:
    nobody: Any = None
    found = Told(reference(place), Clock(math.inf), nobody, lambda line: None)
    found.loads, found.timed = loads, []
    return found


# it was behind slim, and so its load was not timed; slim then lost by its own
FIRST, BEHIND = with_numbers(tried("fp32", 0.98, 1.0)), tried("peephole", 0.7, 0.8)
LOST = with_numbers(tried("slim", 0.5, 0.6), load=(1.2, 1.4))


def test_a_model_whose_load_is_not_known_is_timed_before_it_is_taken(tmp_path: Path) -> None:
    contest = told(tmp_path, (0.9, 1.0))
    choice = contest.choose([FIRST, LOST, BEHIND], SOURCE)
    assert contest.timed == ["peephole"]
    assert verdicts(choice) == {"fp32": "eligible", "slim": "rejected", "peephole": "chosen", "source": "eligible"}
    assert choice.chosen.latency is not None
    assert choice.chosen.latency.load is not None


def test_one_that_then_loads_slower_is_not_taken(tmp_path: Path) -> None:
    contest = told(tmp_path, (1.2, 1.4))
    choice = contest.choose([FIRST, LOST, BEHIND], SOURCE)
    assert contest.timed == ["peephole"]
    assert verdicts(choice) == {"fp32": "chosen", "slim": "rejected", "peephole": "rejected", "source": "eligible"}
    assert choice.tried[2].reason.startswith("slower to load than the source")


def test_what_is_known_is_not_timed_again(tmp_path: Path) -> None:
    contest = told(tmp_path, (9.0, 9.0))
    assert contest.choose([FIRST, with_numbers(BEHIND)], SOURCE).chosen.candidate.recipe == "peephole"
    assert contest.timed == []


@pytest.mark.parametrize(("rounds", "seconds", "again"), [(6, 5.0, True), (6, 31.0, False), (14, 5.0, False)])
def test_what_is_chosen_after_too_short_a_look_is_timed_once_more(
    tmp_path: Path, rounds: int, seconds: float, again: bool
) -> None:
    """Its share of the time was short, for there were many candidates; nothing is said twice in vain."""
    latency = replace(speed(0.9, 1.2, rounds), seconds=seconds)
    contest = told(tmp_path, (0.9, 1.0))
    choice = contest.choose([with_numbers(tried("fp32", latency=latency))], SOURCE)
    assert choice.chosen.candidate.recipe == "fp32"
    assert contest.timed == ["fp32"] * again
    assert choice.chosen.latency is not None
    assert choice.chosen.latency.load == {"ratio": 1.0, "ratio_low": 1, "ratio_high": 1}


def test_a_choice_that_turns_out_slower_to_load_gives_way_to_the_next(tmp_path: Path) -> None:
    """Each is timed once more at the most, also the same file at home."""
    hurried = replace(speed(0.9, 1.2, 6), seconds=5.0)
    there = with_numbers(on("openvino", "fp32", 0.3, 0.4), load=(3.0, 4.0))
    home = tried("fp32", latency=hurried)
    contest = told(tmp_path, (1.2, 1.4))
    choice = contest.choose([home, there], SOURCE)
    assert contest.timed == ["fp32"]
    assert choice.chosen.candidate.recipe == "source"


class Refusing:
    """A runtime that does not open the model."""

    def ask(self, name: str, operation: str, **arguments: Any) -> Any:
        raise SourceError(f"{name} cannot {operation}")


def test_a_source_that_does_not_run_at_the_defaults_gives_no_figure(tmp_path: Path) -> None:
    crew: Any = Refusing()
    plan = {"entries": {"0": {"set": "0", "origin": "seeded"}}}
    found = reference(tmp_path, plan=plan, noise={"levels": [{"held": False}]})
    contest = Contest(found, Clock(math.inf), crew, lambda line: None)
    choice = contest.with_defaults(choosing.choose([FIRST], SOURCE, contest.rules, contest._better))
    assert choice.chosen.latency is not None
    assert choice.defaults is None


def test_the_load_of_the_fall_back_is_timed_too(tmp_path: Path) -> None:
    """The same file at home was behind somebody; who lacks the chosen provider loads it all the same."""
    there = with_numbers(on("openvino", "peephole", 0.3, 0.4), load=(3.0, 4.0))
    source = with_numbers(on("openvino", "source", 0.5, 0.6), load=(3.0, 4.0))
    contest = told(tmp_path, (0.9, 1.0))
    choice = contest.choose([FIRST, source, BEHIND, there], SOURCE)
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("peephole", "openvino")
    assert contest.timed == ["peephole"]
    contest = told(tmp_path, (1.2, 1.4))
    choice = contest.choose([FIRST, source, BEHIND, there], SOURCE)
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("source", "openvino")


def test_a_source_that_is_left_in_the_end_is_timed(tmp_path: Path) -> None:
    contest = told(tmp_path, (1.2, 1.4))
    choice = contest.choose([LOST, BEHIND], replace(SOURCE, latency=None))
    assert contest.timed == ["peephole", "source"]
    assert choice.chosen.candidate.recipe == "source"
