"""The comparison that proves a build, and that every artifact ships in its validate.py."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from artifactctl.backends import core

INF, NAN = float("inf"), float("nan")


def compare(reference: Any, candidate: Any, **bound: Any) -> dict[str, Any]:
    """One output `y`, at max_abs 1e-3 unless another bound is given."""
    comparison = core.Comparison()
    comparison.add({"y": np.asarray(reference)}, {"y": np.asarray(candidate)})
    [result] = comparison.outputs({"default": bound or {"max_abs": 1e-3}, "outputs": {}})
    json.dumps(result, allow_nan=False)
    return dict(result)


def passes(reference: Any, candidate: Any, **bound: Any) -> bool:
    return bool(compare(reference, candidate, **bound)["passed"])


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_equal_arrays_pass_with_every_number_at_rest() -> None:
    result = compare(f32(1, -2, 3), f32(1, -2, 3))
    assert result["passed"]
    assert (result["max_abs"], result["max_error"], result["mean_abs"], result["rel_l2"]) == (0, 0, 0, 0)
    assert result["cosine"] == pytest.approx(1)


def test_the_numbers_are_those_of_the_contract() -> None:
    r, c = np.array([1.0, -4.0, 10.0]), np.array([1.5, -4.0, 9.0])
    result = compare(r, c)
    assert result["max_abs"] == 1.0
    assert result["max_error"] == 0.5
    assert result["mean_abs"] == pytest.approx(0.5)
    assert result["rel_l2"] == pytest.approx(np.linalg.norm(r - c) / np.linalg.norm(r))
    assert result["cosine"] == pytest.approx(r @ c / np.linalg.norm(r) / np.linalg.norm(c))
    assert "0.5 is over the bound 0.001" in result["reason"]


@pytest.mark.parametrize(
    ("reference", "candidate", "passed"),
    [
        ([1.0, NAN], [1.0, NAN], True),
        ([1.0, NAN], [1.0, 2.0], False),
        ([1.0, 2.0], [1.0, NAN], False),
        ([NAN, 1.0], [1.0, NAN], False),
        ([NAN, NAN], [NAN, NAN], True),
        ([INF, 1.0], [INF, 1.0], True),
        ([INF, 1.0], [-INF, 1.0], False),
        ([INF, 1.0], [3e38, 1.0], False),
        ([1.0], [INF], False),
        ([NAN], [INF], False),
        ([NAN, INF], [INF, NAN], False),
        ([INF, NAN, -INF], [INF, NAN, -INF], True),
        ([INF, -INF], [-INF, INF], False),
        ([NAN, 1.0], [NAN, 1.1], False),
    ],
)
def test_nan_and_infinity_stand_in_the_same_places(reference: Any, candidate: Any, passed: bool) -> None:
    assert passes(f32(*reference), f32(*candidate)) is passed


@pytest.mark.parametrize("bound", [{"max_abs": None, "min_cosine": 0.5}, {"max_abs": None, "min_top1": 0.5}])
def test_no_measure_forgives_nan(bound: dict[str, Any]) -> None:
    assert not passes([[1.0, 2.0]], [[1.0, NAN]], **bound)


@pytest.mark.parametrize(
    ("one", "other"),
    [((3, 1), (3,)), ((3,), (1, 3)), ((1,), (3,)), ((), (1,)), ((0,), (1,)), ((0, 3), (3, 0)), ((2, 3), (3, 2))],
)
def test_shapes_never_broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    result = compare(np.ones(one, np.float32), np.ones(other, np.float32))
    assert not result["passed"]
    assert result["reason"] == f"shape {list(other)} instead of {list(one)}"


ONES = [np.ones(2, dtype) for dtype in ("f2", "f4", "f8", "i1", "i4", "i8", "u1", "?", "c8")] + [np.array(["a", "a"])]


@pytest.mark.parametrize("one", ONES, ids=lambda array: array.dtype.name)
@pytest.mark.parametrize("other", ONES, ids=lambda array: array.dtype.name)
def test_dtypes_are_equal_or_the_output_fails(one: np.ndarray, other: np.ndarray) -> None:
    assert passes(one, other) is (one.dtype == other.dtype)


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (np.array([1, 2**40]), np.array([1, 2**40 + 1])),
        (np.array([2**63 - 1]), np.array([2**63 - 2])),
        (np.array([200], np.uint8), np.array([201], np.uint8)),
        (np.array([True, False]), np.array([True, True])),
        (np.array(["a", "b"]), np.array(["a", "bb"])),
        (np.array([""]), np.array(["a"])),
    ],
)
def test_integers_booleans_and_strings_are_equal(reference: np.ndarray, candidate: np.ndarray) -> None:
    assert passes(reference, reference.copy())
    result = compare(reference, candidate, max_abs=1e9)
    assert not result["passed"]
    assert result["reason"] == f"1 of {reference.size} values differ"


@pytest.mark.parametrize(
    ("reference", "gap", "passed"),
    [(0.5, 0.0009, True), (0.5, 0.0011, False), (100.0, 0.09, True), (100.0, 0.11, False), (-1000.0, 0.9, True)],
)
def test_the_bound_grows_with_values_over_1(reference: float, gap: float, passed: bool) -> None:
    assert passes([reference, 1.0], [reference + gap, 1.0]) is passed


def test_the_bound_itself_is_inside() -> None:
    assert passes([0.5, 4.0], [0.75, 4.0], max_abs=0.25)
    assert passes([4.0], [5.0], max_abs=0.25)
    assert not passes([4.0], [5.0], max_abs=np.nextafter(0.25, 0))


def test_absolute_does_not_grow() -> None:
    assert not passes([100.0], [100.09], max_abs=1e-3, absolute=True)
    assert passes([100.0], [100.0009], max_abs=1e-3, absolute=True)
    assert compare([100.0], [101.0], max_abs=1e-3, absolute=True)["max_error"] == 1.0
    assert compare([100.0], [101.0], max_abs=1e-3)["max_error"] == pytest.approx(0.01)


def test_small_outputs_must_be_relatively_right_too() -> None:
    assert not passes([1e-4, 2e-4], [2e-4, 1e-4])
    assert not passes([1e-4, 2e-4], [0.0, 0.0])
    assert not passes([0.0, 0.0], [1e-5, 0.0])
    assert passes([1e-4, 2e-4], [1.001e-4, 2e-4])
    assert passes([0.0, 0.0], [0.0, 0.0])
    assert passes([1e-4, 0.5], [2e-4, 0.5]), "an output with one large value is not small"


def test_a_small_sample_does_not_make_an_output_small() -> None:
    samples = [(f32(1e-4), f32(2e-4)), (f32(5.0), f32(5.0))]
    for order in (samples, samples[::-1]):
        comparison = core.Comparison()
        for reference, candidate in order:
            comparison.add({"y": reference}, {"y": candidate})
        assert comparison.outputs({"default": {"max_abs": 1e-3}, "outputs": {}})[0]["passed"]


@pytest.mark.parametrize("factor", [1e-170, 1e-308])
def test_very_small_doubles_are_compared_too(factor: float) -> None:
    assert passes(np.array([1.0, 2.0]) * factor, np.array([1.0, 2.0]) * factor)
    assert not passes(np.array([1.0, 2.0]) * factor, np.array([5.0, 2.0]) * factor)


def test_very_large_doubles_are_compared_too() -> None:
    assert passes([1e200, 1e200], [1e200, 1e200])
    assert not passes([1e200, 1e200], [-1e200, -1e200])
    assert not passes([1e200, 1e200], [-1e200, -1e200], max_abs=None, min_cosine=0.9)
    assert not passes([1.7e308], [-1.7e308])


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "U1"])
def test_zero_size_outputs_are_equal(dtype: str) -> None:
    result = compare(np.zeros((0, 3), dtype), np.zeros((0, 3), dtype))
    assert result["passed"]
    assert result["mean_abs"] is None


def test_scalars() -> None:
    assert passes(np.float32(1.5), np.float32(1.5))
    assert not passes(np.float32(1.5), np.float32(1.6))
    assert not passes(np.int64(1), np.int64(2))


def test_complex_numbers() -> None:
    assert passes(np.array([1 + 2j, 3j]), np.array([1 + 2j, 3j]))
    assert not passes(np.array([1 + 2j]), np.array([1 - 2j]))


def test_half_precision_does_not_overflow_on_the_way() -> None:
    big = np.array([60000.0, 60000.0], np.float16)
    assert compare(big, big)["rel_l2"] == 0
    assert not passes(big, -big)


def results(reference: dict[str, Any], candidate: dict[str, Any], **bounds: Any) -> dict[str, dict[str, Any]]:
    comparison = core.Comparison()
    comparison.add(reference, candidate)
    found = comparison.outputs({"default": {"max_abs": 1e-3}, "outputs": {}} | bounds)
    return {result["name"]: result for result in found}


def test_missing_and_extra_outputs_fail() -> None:
    found = results({"a": f32(1), "b": f32(1)}, {"a": f32(1), "c": f32(1)})
    assert {name: result["reason"] for name, result in found.items()} == {
        "a": None,
        "b": "output is missing",
        "c": "output is not in the source",
    }


def test_an_output_that_is_missing_once_fails() -> None:
    comparison = core.Comparison()
    for candidate in ({"a": f32(1)}, {}, {"a": f32(1)}):
        comparison.add({"a": f32(1)}, candidate)
    assert not comparison.outputs({"default": {"max_abs": 1}, "outputs": {}})[0]["passed"]


def test_one_bad_sample_among_many_is_enough() -> None:
    comparison = core.Comparison()
    for number in range(50):
        comparison.add({"a": f32(1)}, {"a": f32(1.1 if number == 7 else 1)}, samples=3)
    assert comparison.samples == 150
    assert not comparison.outputs({"default": {"max_abs": 1e-3}, "outputs": {}})[0]["passed"]


def test_bounds_of_single_outputs() -> None:
    one, other = {"a": f32(1), "ab": f32(1)}, {"a": f32(1.05), "ab": f32(1.05)}
    found = results(one, other, outputs={"a": {"max_abs": 0.1}})
    assert {name: (result["passed"], result["bound"]) for name, result in found.items()} == {
        "a": (True, 0.1),
        "ab": (False, 1e-3),
    }


@pytest.mark.parametrize("leaf", ["a", "a.values", "a[0]", "a[0].keys"])
def test_a_bound_holds_for_the_leaves_of_its_output(leaf: str) -> None:
    found = results({leaf: f32(1)}, {leaf: f32(1.05)}, outputs={"a": {"max_abs": 0.1}})
    assert found[leaf]["passed"]


def test_other_measures() -> None:
    r, c = [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], [[1.1, 2.0, 2.9], [1.9, 2.0, 1.0]]
    cosine = compare(r, c, max_abs=None, min_cosine=0.95)
    assert cosine["passed"]
    assert cosine["bound"] is None
    assert not passes(r, c, max_abs=None, min_cosine=0.999)
    assert cosine["top1"] == 0.5
    assert passes(r, c, max_abs=None, min_top1=0.5)
    assert "top-1 agreement 0.5000 is under min_top1 0.6" in compare(r, c, max_abs=None, min_top1=0.6)["reason"]


def test_two_measures_must_both_hold() -> None:
    assert not passes([1.0, 2.0], [1.1, 2.0], max_abs=1e-3, min_cosine=0.5)
    assert not passes([1.0, 2.0], [2.0, 1.0], max_abs=10.0, min_cosine=0.99)


def test_top1_needs_scores() -> None:
    assert compare([1.0, 2.0], [1.0, 2.0], max_abs=None, min_top1=0.5)["reason"].startswith("min_top1 needs scores")
    assert compare([[1.0], [2.0]], [[1.0], [2.0]])["top1"] is None


def test_the_cosine_of_zeros() -> None:
    bound = {"max_abs": None, "min_cosine": 0.5}
    assert passes([0.0, 0.0], [0.0, 0.0], **bound)
    assert not passes([0.0, 0.0], [1.0, 0.0], **bound)
    assert not passes([1.0, 0.0], [0.0, 0.0], **bound)


def test_labels_of_a_classifier_may_differ_as_far_as_top1_allows() -> None:
    r, c = np.arange(100), np.arange(100)
    c[3] = 99
    assert not passes(r, c, max_abs=None, min_cosine=0.9)
    assert passes(r, c, max_abs=None, min_top1=0.99)
    assert not passes(r, c, max_abs=None, min_top1=0.995)


def test_a_wider_bound_never_turns_a_pass_into_a_failure() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        r = rng.standard_normal(6) * 10.0 ** rng.integers(-5, 4)
        c = r + rng.standard_normal(6) * 10.0 ** rng.integers(-8, 2)
        absolute = bool(rng.integers(2))
        verdicts = [passes(r, c, max_abs=bound, absolute=absolute) for bound in 10.0 ** np.arange(-9, 3)]
        assert verdicts == sorted(verdicts)


def test_a_verdict_is_the_same_whatever_the_order_of_samples_and_elements() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        r = rng.standard_normal((4, 5))
        c = r + rng.standard_normal((4, 5)) * 1e-3
        order = rng.permutation(20)
        whole, shuffled = compare(r, c), compare(r.reshape(-1)[order], c.reshape(-1)[order])
        assert whole["passed"] == shuffled["passed"]
        assert whole["max_error"] == shuffled["max_error"]


def test_outputs_that_never_vary_are_vacuous() -> None:
    comparison = core.Comparison()
    for value in (1.0, 2.0):
        comparison.add({"same": f32(7), "other": f32(value)}, {"same": f32(7), "other": f32(value)})
    found = comparison.outputs({"default": {"max_abs": 1e-3}, "outputs": {}})
    assert {result["name"]: result["vacuous"] for result in found} == {"same": True, "other": False}
