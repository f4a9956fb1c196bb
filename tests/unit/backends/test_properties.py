"""What must hold of the comparison whatever the arrays are."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from artifactctl.backends import core

PROFILE = settings(
    derandomize=True,
    max_examples=100,
    deadline=None,
    database=None,
    # other work on the machine is no property of the comparison
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

TEMPLATE = sys.modules[core.Comparison.__module__]  # not everything in it is a part of the package
BOUND = 1e-3
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
EXACT = ("int8", "uint8", "int32", "int64", "uint64", "bool", "U3")
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)

Array = np.ndarray[Any, Any]


def arrays(kinds: tuple[str, ...], shapes: Any = SHAPES) -> st.SearchStrategy[Array]:
    """Arrays of any of the dtypes; NaN and infinities are among the floats."""

    def of(name: str) -> st.SearchStrategy[Array]:
        dtype = np.dtype(name)
        if dtype.kind in "fc":
            width = min(64, dtype.itemsize * 8 // (2 if dtype.kind == "c" else 1))
            if dtype.kind == "f":
                return hnp.arrays(dtype, shapes, elements=st.floats(width=width))
            parts = st.floats(width=width, allow_subnormal=False)
            return hnp.arrays(dtype, shapes, elements=st.builds(complex, parts, parts))
        if dtype.kind == "U":  # numpy itself forgets NULs at the end of a string
            return hnp.arrays(dtype, shapes, elements=st.text("ab é", max_size=3))
        return hnp.arrays(dtype, shapes)

    return st.sampled_from(kinds).flatmap(of)


def near(array: Array) -> st.SearchStrategy[Array]:
    """The same array, or one with a few other values of the same dtype in it."""
    other = arrays((array.dtype.name if array.dtype.kind != "U" else "U3",), st.just(array.shape))
    mask = hnp.arrays(bool, array.shape, elements=st.booleans())
    size = st.sampled_from([0.0, 1e-9, 1e-4, 1e-3, 1e-2, 1.0])

    def moved(parts: tuple[Array, Array, float, bool]) -> Array:
        fresh, chosen, step, jump = parts
        if jump or array.dtype.kind not in "fc":
            return np.where(chosen, fresh, array).astype(array.dtype)
        with np.errstate(all="ignore"):
            return np.where(chosen, array + np.asarray(step, array.dtype), array).astype(array.dtype)

    return st.tuples(other, mask, size, st.booleans()).map(moved)


PAIRS = arrays(FLOATS + COMPLEX + EXACT).flatmap(lambda array: st.tuples(st.just(array), near(array)))
NUMBERS = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)
FINITE_PAIRS = hnp.array_shapes(min_dims=1, max_dims=3, max_side=4).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float64, shape, elements=NUMBERS), hnp.arrays(np.float64, shape, elements=NUMBERS)
    )
)


def compare(reference: Array, candidate: Array, **bound: Any) -> dict[str, Any]:
    comparison = core.Comparison()
    comparison.add({"y": reference}, {"y": candidate})
    [result] = comparison.outputs({"default": {"max_abs": BOUND} | bound, "outputs": {}})
    return dict(result)


def passes(reference: Array, candidate: Array, **bound: Any) -> bool:
    return bool(compare(reference, candidate, **bound)["passed"])


def is_large(array: Array) -> bool:
    """Whether an output is judged by its bound alone: of smaller ones the relative error counts too."""
    finite = np.abs(array[np.isfinite(array)].astype(np.complex128))
    return bool(finite.size) and bool(finite.max() >= TEMPLATE.SMALL_PEAK)


@PROFILE
@given(arrays(FLOATS + COMPLEX + EXACT))
def test_identical_arrays_pass(array: Array) -> None:
    result = compare(array, array.copy(), max_abs=0.0)
    assert result["passed"], result["reason"]
    assert result["max_abs"] in (0.0, None)
    assert result["max_error"] in (0.0, None)


@PROFILE
@given(
    arrays(("float16", "float32", "complex64", *EXACT)).flatmap(lambda array: st.tuples(st.just(array), near(array)))
)
def test_whatever_the_values_the_report_can_be_written(pair: tuple[Array, Array]) -> None:
    json.dumps(compare(*pair), allow_nan=False)


@PROFILE
@given(PAIRS)
def test_an_absolute_bound_is_symmetric(pair: tuple[Array, Array]) -> None:
    one, other = pair
    if one.dtype.kind in "fc":
        assume(is_large(one) == is_large(other))
        # which of two small outputs is the source decides what their error is relative to
        assume(is_large(one) or not np.isfinite(one).any())
    assert passes(one, other, absolute=True) == passes(other, one, absolute=True)


@PROFILE
@given(arrays(EXACT).flatmap(lambda array: st.tuples(st.just(array), near(array))))
def test_equality_is_symmetric_and_needs_no_bound(pair: tuple[Array, Array]) -> None:
    one, other = pair
    equal = one.tolist() == other.tolist()
    assert passes(one, other) == passes(other, one) == passes(one, other, max_abs=1e9) == equal


@PROFILE
@given(arrays(FLOATS + COMPLEX + EXACT), arrays(FLOATS + COMPLEX + EXACT))
def test_another_shape_or_dtype_fails_both_ways(one: Array, other: Array) -> None:
    assume(one.shape != other.shape or one.dtype.kind != other.dtype.kind or one.dtype.itemsize != other.dtype.itemsize)
    for reference, candidate in ((one, other), (other, one)):
        result = compare(reference, candidate, max_abs=1e300)
        assert not result["passed"]
        assert result["reason"].startswith(("shape", "dtype"))
        assert result["max_abs"] is None, "nothing was compared, so there is no number"


@PROFILE
@given(
    st.sampled_from([((1, 3), (5, 3)), ((3,), (1, 3)), ((), (1,)), ((1,), (4,)), ((2, 1), (2, 3)), ((0, 1), (0, 3))]),
    st.sampled_from(FLOATS + COMPLEX + EXACT),
    st.booleans(),
)
def test_nothing_broadcasts(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str, swap: bool) -> None:
    one, other = (np.ones(shape).astype(dtype) for shape in shapes[:: -1 if swap else 1])
    np.broadcast_shapes(*shapes)  # raises where they could not be mistaken for each other
    assert not passes(one, other, max_abs=1e300)


@PROFILE
@given(
    arrays(FLOATS, hnp.array_shapes(max_dims=3, max_side=4)),
    st.sampled_from([(np.nan, 1.0), (np.inf, 1.0), (-np.inf, 1.0), (np.inf, -np.inf), (np.nan, np.inf), (np.nan, 0.0)]),
    st.booleans(),
    st.data(),
)
def test_what_is_no_number_is_never_a_number(
    array: Array, values: tuple[float, float], swap: bool, data: st.DataObject
) -> None:
    """In one place that the two arrays do not share, however wide the bound and whatever the measure."""
    place = data.draw(st.tuples(*(st.integers(0, size - 1) for size in array.shape)))
    one, other = array.copy(), array.copy()
    one[place], other[place] = values[:: -1 if swap else 1]
    for bound in ({"max_abs": 1e300}, {"max_abs": None, "min_cosine": -1.0}, {"max_abs": None, "min_top1": 0.0}):
        result = compare(one, other, **bound)
        assert not result["passed"]
        assert result["reason"] == "NaN or infinity in other places than the source's"


@PROFILE
@given(arrays(FLOATS, hnp.array_shapes(max_dims=3, max_side=4)).flatmap(lambda a: st.tuples(st.just(a), near(a))))
def test_a_pass_has_the_same_odd_places(pair: tuple[Array, Array]) -> None:
    one, other = pair
    if passes(one, other, max_abs=1e300):
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
        np.testing.assert_array_equal(one == np.inf, other == np.inf)
        np.testing.assert_array_equal(one == -np.inf, other == -np.inf)


@PROFILE
@given(PAIRS, st.lists(st.floats(0, 1e6), min_size=2, max_size=6), st.booleans())
def test_a_wider_bound_never_fails_what_a_narrower_one_passes(
    pair: tuple[Array, Array], bounds: list[float], absolute: bool
) -> None:
    verdicts = [passes(*pair, max_abs=bound, absolute=absolute) for bound in sorted(bounds)]
    assert verdicts == sorted(verdicts)


@PROFILE
@given(
    hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=4), elements=NUMBERS),
    st.floats(1e-6, 1.0),
    st.sampled_from([-1, 1]),
    st.data(),
)
def test_one_element_that_moved_by_twice_the_bound_is_seen(
    array: Array, bound: float, sign: int, data: st.DataObject
) -> None:
    place = data.draw(st.tuples(*(st.integers(0, size - 1) for size in array.shape)))
    moved = array.copy()
    moved[place] += sign * 2 * bound * max(1.0, abs(array[place]))
    result = compare(array, moved, max_abs=bound)
    assert not result["passed"]
    assert result["max_error"] == pytest.approx(2 * bound, rel=1e-3)


@PROFILE
@given(FINITE_PAIRS)
def test_the_numbers_are_those_of_plain_numpy(pair: tuple[Array, Array]) -> None:
    r, c = pair
    result, gap = compare(r, c), np.abs(r - c)
    assert result["max_abs"] == gap.max()
    assert result["max_error"] == (gap / np.maximum(1, np.abs(r))).max()
    assert compare(r, c, absolute=True)["max_error"] == gap.max()
    assert result["mean_abs"] == pytest.approx(gap.mean(), rel=1e-9)
    if np.abs(r).max() > 1e-100:  # squares of smaller ones vanish in plain numpy
        assert result["rel_l2"] == pytest.approx(np.linalg.norm(r - c) / np.linalg.norm(r), rel=1e-9)
    small = np.abs(r).max() < 1e-2 and (result["rel_l2"] is None or result["rel_l2"] > 1e-2)
    assert result["passed"] is bool((gap <= BOUND * np.maximum(1, np.abs(r))).all() and not small) or (
        result["max_error"] == pytest.approx(BOUND, rel=1e-12)
    )


@PROFILE
@given(
    st.sampled_from(["int8", "uint8", "int32", "bool"]).flatmap(
        lambda name: hnp.array_shapes(max_dims=2, max_side=4).flatmap(
            lambda shape: st.tuples(hnp.arrays(name, shape), hnp.arrays(name, shape))
        )
    )
)
def test_the_numbers_of_integers_are_those_of_plain_numpy(pair: tuple[Array, Array]) -> None:
    """Also where the difference does not fit into their own type."""
    r, c = pair
    result, gap = compare(r, c), np.abs(r.astype(np.float64) - c.astype(np.float64))
    assert (result["max_abs"], result["max_error"]) == (gap.max(), gap.max())
    assert result["mean_abs"] == pytest.approx(gap.mean())


@PROFILE
@given(
    st.sampled_from(FLOATS + EXACT).flatmap(
        lambda name: st.lists(arrays((name,)).flatmap(lambda a: st.tuples(st.just(a), near(a))), min_size=1, max_size=5)
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_samples_does_not_matter(samples: list[tuple[Array, Array]], random: Any) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)
    results = []
    for order in (samples, shuffled):
        comparison = core.Comparison()
        for reference, candidate in order:
            comparison.add({"y": reference}, {"y": candidate})
        [result] = comparison.outputs({"default": {"max_abs": BOUND}, "outputs": {}})
        results.append({key: result[key] for key in ("passed", "max_abs", "max_error")})
    # the relative error of a small output is a sum, whose last digit depends on the order
    assert results[0] == results[1]


@PROFILE
@given(arrays(FLOATS + EXACT), st.sets(st.sampled_from("abcd"), min_size=1), st.sets(st.sampled_from("abcd")))
def test_outputs_that_only_one_side_has_fail(array: Array, ours: set[str], theirs: set[str]) -> None:
    comparison = core.Comparison()
    comparison.add(dict.fromkeys(sorted(ours), array), dict.fromkeys(sorted(theirs), array))
    found = {output["name"]: output["passed"] for output in comparison.outputs({"default": {}, "outputs": {}})}
    assert found == {name: name in ours and name in theirs for name in ours | theirs}


@PROFILE
@given(
    st.sampled_from(sorted(core.ODD_TYPES)),
    hnp.arrays(np.float32, SHAPES, elements=st.floats(width=32, allow_nan=False)),
)
def test_what_an_odd_type_holds_is_held_exactly(kind: str, array: Array) -> None:
    if "int" in kind:
        array = np.clip(array, -100, 100).astype(np.int8)
    once = core.decode(kind, TEMPLATE.encode(kind, array), array.shape)
    again = core.decode(kind, TEMPLATE.encode(kind, once), array.shape)
    assert once.shape == array.shape
    np.testing.assert_array_equal(once, again)


@PROFILE
@given(st.sampled_from([kind for kind in sorted(core.ODD_TYPES) if kind.startswith("float8")]), st.floats(-400, 400))
def test_a_small_float_is_the_nearest_one(kind: str, value: float) -> None:
    held = float(core.decode(kind, TEMPLATE.encode(kind, np.array([value], np.float32)), (1,))[0])
    table = core.decode(kind, bytes(range(256)), (256,))
    distances = np.abs(table[np.isfinite(table)].astype(np.float64) - np.float32(value))
    assert abs(held - np.float32(value)) == distances.min()


SCORES = st.tuples(st.integers(1, 5), st.integers(2, 8)).flatmap(
    lambda shape: st.tuples(
        # few values, so that ties and near ties are common
        hnp.arrays(np.float64, shape, elements=st.integers(-6, 6).map(lambda number: number / 4)),
        hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.125, -0.125, 0.25, -0.25, 1e-9])),
    )
)


@PROFILE
@given(SCORES, st.booleans())
def test_flips_are_the_rows_whose_largest_score_moved(pair: tuple[Array, Array], deep: bool) -> None:
    r, c = pair[0], pair[0] + pair[1]
    flipped = r.argmax(-1) != c.argmax(-1)
    top = compare(r[None] if deep else r, c[None] if deep else c)
    assert top["decisions"]["rows"] == len(r)
    assert top["decisions"]["flips"] == flipped.sum()
    assert top["top1"] == pytest.approx(1 - flipped.mean())
    best = np.sort(r, axis=-1)
    margins = best[:, -1] - best[:, -2]
    assert top["decisions"]["margin"] == 2 * np.abs(r - c).max()
    assert top["decisions"]["covered"] == np.mean(margins > top["decisions"]["margin"])


@PROFILE
@given(
    st.tuples(st.integers(1, 5), st.integers(2, 8)).flatmap(
        lambda shape: st.tuples(*(hnp.arrays(np.float64, shape, elements=st.floats(-1e300, 1e300)) for _ in range(2)))
    ),
    st.sampled_from([1.0, 1e-3, 1e-12, 0.25]),
)
def test_no_decision_changes_above_twice_the_largest_difference(pair: tuple[Array, Array], share: float) -> None:
    """The theorem behind `covered`, in floating point: the flips are among the rows that it does not cover."""
    r = pair[0]
    c = r + share * (pair[1] - r)
    decisions, best = compare(r, c)["decisions"], np.sort(r, axis=-1)
    safe = best[:, -1] - best[:, -2] > decisions["margin"]
    assert not (safe & (r.argmax(-1) != c.argmax(-1))).any()
    assert decisions["flips"] <= round((1 - decisions["covered"]) * decisions["rows"])
