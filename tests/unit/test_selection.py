from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from artifactctl.selection import (
    Attempt,
    Cost,
    Layer,
    Link,
    cost_of,
    grow,
    next_size,
    saving,
    useful,
    without,
    worst,
)

BOUNDS = {"default": {"max_abs": 1e-3}, "outputs": {}}
GOOD = {"name": "y", "max_error": 5e-4, "rel_l2": 1e-3, "cosine": 0.9999, "top1": 1.0, "bound": 1e-3, "passed": True}


def layer(name: str, share: float, strain: float) -> Layer:
    return Layer(name, "Conv", share, Cost(strain * 1e-3, strain))


def squares(*layers: Layer) -> Any:
    """What rounding does: the errors of a set add up by their squares."""
    known = {item.name: item.alone for item in layers}

    def total(names: list[str]) -> Cost:
        strain = math.sqrt(sum(known[name].strain ** 2 for name in names))
        return Cost(strain * 1e-3, strain)

    return total


def names(chain: list[Link]) -> list[str]:
    return [link.layer.name for link in chain]


def even(count: int, strain: float) -> list[Link]:
    layers = [layer(str(number), 1 / count, strain) for number in range(count)]
    return grow(layers, squares(*layers))


def test_the_most_work_for_the_least_error_comes_first() -> None:
    layers = [layer("cheap", 0.01, 0.1), layer("large", 0.9, 0.3), layer("fragile", 0.09, 30), layer("free", 0.1, 0.0)]
    assert names(grow(layers, squares(*layers))) == ["free", "large", "cheap", "fragile"]


def test_the_last_digits_do_not_decide() -> None:
    layers = [layer("first", 0.2, 0.1000001), layer("second", 0.2, 0.1), layer("third", 0.2, 0.0999999)]
    assert names(grow(layers, squares(*layers))) == ["first", "second", "third"]


def test_the_set_grows_while_it_is_predicted_to_hold() -> None:
    layers = [layer("a", 0.4, 0.5), layer("b", 0.3, 0.6), layer("c", 0.002, 0.1), layer("d", 0.1, 5)]
    chain = grow(layers, squares(*layers))
    assert names(chain) == ["a", "b", "c", "d"]
    assert [round(link.total.strain, 3) for link in chain] == [0.5, 0.781, 0.787, 5.062]
    other = [layers[0], layer("e", 0.3, 0.7), layers[2]]
    assert names(grow(other, squares(*other))) == ["a", "c", "e"]  # one that does not fit is passed over, not the end


def test_what_cannot_be_compared_is_never_in_the_set() -> None:
    broken = Layer("broken", "MatMul", 0.9, Cost(None, math.inf))
    chain = grow([broken, layer("a", 0.1, 0.5)], squares(layer("a", 0.1, 0.5)))
    assert names(chain) == ["a", "broken"]
    assert chain[-1].total == Cost(None, math.inf)


def test_between_two_layers_nothing_is_converted() -> None:
    first = replace(layer("first", 0.5, 0.1), reads=0.2, writes=0.2, followers=("second",))
    second = replace(layer("second", 0.1, 0.1), reads=0.2, writes=0.1, behind="first", followers=(None,))
    assert saving({"first": first}) == pytest.approx(0.1)
    assert saving({"second": second}) == pytest.approx(-0.2)
    assert saving({"first": first, "second": second}) == pytest.approx(0.3)
    chain = grow([second, first], squares(first, second))
    assert [(link.layer.name, round(link.saves, 3)) for link in chain] == [("first", 0.1), ("second", 0.2)]
    beside = replace(first, followers=("second", None))  # what else reads it wants floats
    assert saving({"first": beside, "second": second}) == pytest.approx(0.1)


def test_layers_that_cost_more_than_they_save_come_last() -> None:
    layers = [replace(layer("small", 0.1, 0.0), reads=0.2), layer("large", 0.9, 0.7)]
    chain = grow(layers, squares(*layers))
    assert names(chain) == ["large", "small"]
    assert useful(chain) == 1
    assert useful(grow(layers[:1], squares(*layers))) == 0


def test_first_what_is_predicted_then_by_what_the_prediction_was_worth() -> None:
    chain = even(10, 0.25)  # all ten: 0.79
    assert next_size(chain, []) == 10
    assert next_size(chain, [Attempt(10, 1.6, False)]) == 5
    worse = even(20, 0.25)
    assert next_size(worse, [Attempt(20, 2.0, False)]) == 10
    assert next_size(worse, [Attempt(20, 2.0, False), Attempt(10, 1.2, False)]) == 5
    assert next_size(worse, [Attempt(20, 2.0, False), Attempt(10, 0.65, True)]) == 17
    assert next_size(worse, [Attempt(20, 2.0, False), Attempt(10, 0.1, True)]) == 15  # all again would be no news


@pytest.mark.parametrize(
    "tried",
    [
        [Attempt(10, 0.5, True)],
        [Attempt(10, 2, False), Attempt(5, 0.5, True), Attempt(6, 1.2, False)],
        [Attempt(10, 2, False), Attempt(1, 2, False)],
    ],
)
def test_when_nothing_is_left_to_try(tried: list[Attempt]) -> None:
    assert next_size(even(10, 0.25), tried) is None


def test_a_little_more_is_not_worth_a_try() -> None:
    layers = [layer("a", 0.96, 0.1), layer("b", 0.02, 0.1), layer("c", 0.02, 0.1)]
    chain = grow(layers, squares(*layers))
    assert next_size(chain, [Attempt(3, 2, False), Attempt(1, 0.5, True)]) is None


def test_every_search_ends() -> None:
    chain = even(64, 0.3)
    for limit in range(65):
        tried: list[Attempt] = []
        while (size := next_size(chain, tried)) is not None:
            assert size not in {item.size for item in tried}
            tried.append(Attempt(size, 0.5 if size <= limit else 2.0, size <= limit))
        assert len(tried) <= 9


def blamed(strain: float, *layers: Layer) -> list[str]:
    return worst({item.name: item for item in layers}, strain, squares(*layers))


def test_the_one_layer_that_is_to_blame_is_taken_out() -> None:
    good = [layer("a", 0.3, 0.2), layer("c", 0.3, 0.2)]
    assert blamed(3.0, good[0], layer("b", 0.4, 3.0), good[1]) == ["b"]
    assert blamed(6.0, good[0], layer("b", 0.4, 3.0), good[1]) == ["b"]  # for real it is worse than predicted, alike


def test_of_two_that_would_do_the_one_that_saves_less_goes() -> None:
    assert blamed(1.1, layer("large", 0.6, 0.8), layer("small", 0.1, 0.76)) == ["small"]


def test_two_may_be_to_blame_but_not_half_of_them() -> None:
    bad = [layer("x", 0.2, 3.0), layer("y", 0.2, 4.0), layer("z", 0.2, 5.0)]
    assert blamed(5.0, layer("a", 0.3, 0.2), *bad[:2]) == ["y", "x"]
    assert blamed(7.1, layer("a", 0.3, 0.2), *bad) == []
    assert blamed(9.0, layer("alone", 1.0, 9.0)) == []


def test_what_cannot_be_compared_is_to_blame() -> None:
    broken = Layer("broken", "Conv", 0.4, Cost(None, math.inf))
    assert blamed(math.inf, layer("a", 0.3, 0.2), broken) == ["broken"]


def test_a_chain_without_some_layers_is_estimated_anew() -> None:
    layers = [layer("a", 0.4, 0.3), layer("b", 0.3, 0.4), layer("c", 0.2, 0.5), layer("d", 0.1, math.inf)]
    chain = without(grow(layers, squares(*layers)), ["b"])
    assert names(chain) == ["a", "c", "d"]
    assert [round(link.total.strain, 3) for link in chain] == [0.3, 0.583, math.inf]
    first = replace(layer("first", 0.5, 0.1), writes=0.2, followers=("second",))
    second = replace(layer("second", 0.4, 0.1), reads=0.2, behind="first")
    assert without(grow([first, second], squares(first, second)), ["first"])[0].saves == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("output", "bound", "strain"),
    [
        ({}, {"max_abs": 1e-3}, 0.5),
        ({"max_error": None, "passed": False}, {"max_abs": 1e-3}, math.inf),
        ({"max_error": None}, {"max_abs": 1e-3}, 0.0),  # texts
        ({"max_error": 2e-3, "passed": False}, {"max_abs": 1e-3}, 2.0),
        ({"rel_l2": 0.05, "passed": False}, {"max_abs": 1e-3}, 5.0),  # an output that is all small
        ({"bound": None}, {"max_abs": None, "min_cosine": 0.9996}, 0.5),
        ({"bound": None, "top1": 0.98, "passed": False}, {"max_abs": None, "min_top1": 0.99}, 2.0),
        ({"bound": None}, {"max_abs": None, "max_accuracy_drop": 0.01}, 1e-3),
    ],
)
def test_errors_are_measured_by_their_bound(output: dict[str, Any], bound: dict[str, Any], strain: float) -> None:
    found = cost_of([GOOD | output], {"default": bound, "outputs": {}})
    assert found.strain == pytest.approx(strain)


def test_the_worst_output_counts() -> None:
    other = GOOD | {"name": "z", "max_error": 0.02, "bound": 0.1}
    assert cost_of([GOOD, other], BOUNDS) == Cost(0.02, 0.5)
