"""The sizes of free dimensions, and how they are combined."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from artifactctl.backends import lattice

RNG = np.random.default_rng(5)
UNEQUAL = [[int(RNG.integers(1, 7)) for _ in range(count)] for count in range(2, 10) for _ in range(4)]


def factors_of(counts: list[int]) -> list[list[int]]:
    return [list(range(10 * place, 10 * place + count)) for place, count in enumerate(counts)]


@pytest.mark.parametrize("counts", [*UNEQUAL, [2] * 9, [5] * 9, [6] * 7, [1, 1], [1, 5], [7, 2, 1]], ids=str)
def test_every_two_factors_meet_at_every_two_levels(counts: list[int]) -> None:
    factors = factors_of(counts)
    rows = list(lattice.pairwise(factors))
    for one, other in combinations(range(len(factors)), 2):
        assert {(row[one], row[other]) for row in rows} == set(product(factors[one], factors[other]))
    assert len(rows) == len(set(rows))
    assert all(value in factor for row in rows for value, factor in zip(row, factors, strict=True))


def test_far_fewer_rows_than_all_combinations() -> None:
    assert len(list(lattice.pairwise([[1, 2, 3, 4, 5]] * 6))) == 25
    assert len(list(lattice.pairwise([[1, 2, 3, 4, 5]] * 9))) <= 121


@pytest.mark.parametrize(("factors", "rows"), [([], [()]), ([[3, 1, 2]], [(3,), (1,), (2,)])])
def test_fewer_than_two_factors_have_no_pairs(factors: list[list[int]], rows: list[tuple[int, ...]]) -> None:
    assert list(lattice.pairwise(factors)) == rows


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("base", [1, 2, 3, 4, 7, 8, 16, 64, 224])
def test_levels(base: int, is_batch: bool) -> None:
    sizes = lattice.levels(base, is_batch)
    assert sizes[0] == base
    assert {1, 2} <= set(sizes)
    assert len(sizes) == len(set(sizes))
    odd = [size for size in sizes if size != base and size > 1 and size % 2]
    assert odd or base == 3, "an odd prime beside the base"
    assert max(sizes) > base or is_batch
    assert max(sizes) >= 4


def test_levels_are_the_known_ones() -> None:
    assert lattice.levels(16, False) == [16, 1, 2, 7, 32]
    assert lattice.levels(7, False) == [7, 1, 2, 5, 14]
    assert lattice.levels(1, False) == [1, 2, 3, 8]
    assert lattice.levels(0, False) == [0, 1, 2, 3, 8]
    assert lattice.levels(1, True) == [1, 2, 3, 8]


def spec(*shape: int | str, fill: str = "float") -> dict[str, Any]:
    return {"name": "x", "shape": list(shape), "fill": fill}


def test_a_size_that_names_a_sum_is_not_free() -> None:
    inputs = [spec("batch", "past + seq"), spec("batch", 4, "past", 8), spec("batch", "seq")]
    free, sums = lattice.symbols_of(inputs)
    assert free == ["batch", "past", "seq"]
    assert sums == {"past + seq": ["past", "seq"]}
    dims = lattice.complete({"batch": 2, "past": 3, "seq": 4}, sums)
    assert dims == {"batch": 2, "past": 3, "seq": 4, "past + seq": 7}


@pytest.mark.parametrize("name", ["past_length+1", "past_length + 1"])
def test_a_sum_with_a_number(name: str) -> None:
    free, sums = lattice.symbols_of([spec("batch", name), spec("batch", "past_length")])
    assert free == ["batch", "past_length"]
    assert lattice.complete({"batch": 1, "past_length": 5}, sums)[name] == 6


def test_a_sum_is_computed_anew_when_its_parts_change() -> None:
    _, sums = lattice.symbols_of([spec("a + b"), spec("a"), spec("b")])
    first = lattice.complete({"a": 1, "b": 2}, sums)
    assert lattice.complete(first | {"a": 5}, sums)["a + b"] == 7


def test_a_sum_of_unknown_parts_is_a_name_like_any_other() -> None:
    assert lattice.symbols_of([spec("batch", "past + seq"), spec("batch", "seq")]) == (
        ["batch", "past + seq", "seq"],
        {},
    )


@pytest.mark.parametrize("fresh", ["sequence_length", "seq_len", "seq", "sequence", "seqlen"])
def test_a_total_that_names_itself_so(fresh: str) -> None:
    inputs = [spec("batch", "total_sequence_length"), spec("batch", fresh), spec("batch", 2, "past_sequence_length")]
    free, sums = lattice.symbols_of(inputs)
    assert "total_sequence_length" not in free
    dims = lattice.complete({"batch": 1, "past_sequence_length": 4, fresh: 3}, sums)
    assert dims["total_sequence_length"] == 7


def test_a_total_without_two_parts_is_free() -> None:
    assert lattice.symbols_of([spec("total_length", "seq_len")])[1] == {}
    assert lattice.symbols_of([spec("total_length", "past", "past_too"), spec("seq_len")])[1] == {}


FACTORS = {"a": [1, 2], "b": [3, 4], "c": [5, 6]}


def test_pairs_that_no_set_has() -> None:
    assert len(list(lattice.open_pairs(FACTORS, []))) == 12
    tried = [{"a": 1, "b": 3, "c": 5}, {"a": 2, "b": 4, "c": 5}, {"a": 1, "b": 4, "c": 6}]
    found = list(lattice.open_pairs(FACTORS, tried))
    assert found == [{"a": 2, "b": 3}, {"a": 2, "c": 6}, {"b": 3, "c": 6}]
    assert not list(lattice.open_pairs(FACTORS, [*tried, {"a": 2, "b": 3, "c": 6}]))


def test_a_pairwise_array_leaves_no_pair_open() -> None:
    rows = [dict(zip(FACTORS, row, strict=True)) for row in lattice.pairwise(list(FACTORS.values()))]
    assert not list(lattice.open_pairs(FACTORS, rows))


def first_guesses(inputs: list[dict[str, Any]], batch: set[str], data: dict[str, int] | None = None) -> list[Any]:
    symbols, _ = lattice.symbols_of(inputs)
    return list(lattice.guesses({"inputs": inputs}, symbols, batch, data or {}))


def test_the_first_guess_goes_by_the_look_of_the_shapes() -> None:
    assert first_guesses([spec("batch", 3, "height", "width")], {"batch"})[0] == {"batch": 1, "height": 64, "width": 64}
    assert first_guesses([spec("batch", "length", fill="range")], {"batch"})[0] == {"batch": 1, "length": 16}
    past = spec("batch", 2, "past_length", 8) | {"state": True}
    assert first_guesses([past, spec("batch", "seq")], {"batch"})[0] == {"batch": 1, "past_length": 0, "seq": 16}


def test_the_users_data_go_first() -> None:
    inputs = [spec("batch", "length")]
    assert first_guesses(inputs, {"batch"}, {"length": 5, "another": 3})[0] == {"batch": 1, "length": 5}


def test_then_one_size_for_all_and_then_one_by_one() -> None:
    found = first_guesses([spec("batch", "a", "b")], {"batch"})
    same = [{"batch": 1, "a": size, "b": size} for size in lattice.SIZES]
    assert found[1 : 1 + len(same)] == same
    alone = found[1 + len(same) :]
    assert alone[0] == {"batch": 1, "a": 8, "b": 1}
    assert alone.index({"batch": 1, "a": 4096, "b": 1}) < alone.index({"batch": 1, "a": 1, "b": 8})
    assert found[-1] == {"batch": 48, "a": 48, "b": 48}


def test_a_model_without_free_sizes_has_one_guess() -> None:
    assert first_guesses([spec(1, 4)], set()) == [{}]


def test_larger_batches() -> None:
    base = {"batch": 1, "also": 1, "length": 16}
    found = list(lattice.larger_batches(base, {"batch"}))
    assert found[:3] == [base | {"batch": size} for size in (3, 4, 2)]
    assert found[3:] == [base | {"batch": size, "also": size} for size in (3, 4, 2)]
    assert not list(lattice.larger_batches(base, set()))


def test_elements() -> None:
    inputs = [spec("batch", 3, "n"), spec("n"), spec()]
    assert lattice.elements(inputs, {"batch": 2, "n": 5}) == 30 + 5 + 1
    assert lattice.elements([spec("batch", 0)], {"batch": 2}) == 0
