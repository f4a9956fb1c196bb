from __future__ import annotations

from typing import Any

import pytest

from artifactctl.interface import ValueChange, compare_values

Values = list[tuple[str, str, Any]]


def described(inputs: Values, outputs: Values) -> dict[str, Any]:
    keys = ("name", "dtype", "shape")
    return {"inputs": [dict(zip(keys, each, strict=True)) for each in inputs]} | {
        "outputs": [dict(zip(keys, each, strict=True)) for each in outputs]
    }


def compared(before: Values, after: Values, side: str = "inputs") -> list[ValueChange]:
    other: Values = []
    sides = [described(each, other) if side == "inputs" else described(other, each) for each in (before, after)]
    return list(compare_values(*sides))


def test_nothing_changed() -> None:
    assert compared([("x", "float32", ["n", 3])], [("x", "float32", ["n", 3])]) == []


@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ([("x", "float32", [1])], [("x", "float16", [1])], "changed"),
        ([("x", "float32", [1])], [("x", "float32", [2])], "changed"),
        ([("x", "float32", ["n"])], [("x", "float32", [2])], "changed"),
        ([("x", "float32", None)], [("x", "float32", [2])], "changed"),
        ([("x", "float32", ["n"])], [("x", "float32", ["n", "n"])], "changed"),
        ([("x", "float32", [1])], [], "removed"),
        ([], [("x", "float32", [1])], "added"),
    ],
)
def test_breaking(side: str, before: Values, after: Values, change: str) -> None:
    [found] = compared(before, after, side)
    assert (found.kind, found.change, found.breaking) == (side.removesuffix("s"), change, True)


@pytest.mark.parametrize(
    ("before", "after"), [(["n", 3], ["batch", 3]), ([None, 3], ["n", 3]), (["n", 3], [None, 3])], ids=str
)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_another_name_of_a_size_breaks_nothing(side: str, before: list[Any], after: list[Any]) -> None:
    [found] = compared([("x", "float32", before)], [("x", "float32", after)], side)
    assert not found.breaking


def test_sizes_that_must_be_equal_now_are_breaking() -> None:
    [found] = compared([("x", "float32", ["a", "b"])], [("x", "float32", ["n", "n"])])
    assert found.breaking


def test_an_input_may_take_more_but_an_output_may_not_give_more() -> None:
    before, after = [("x", "float32", [1, 3])], [("x", "float32", ["n", 3])]
    assert [found.breaking for side in ("inputs", "outputs") for found in compared(before, after, side)] == [
        False,
        True,
    ]


def test_another_order_is_breaking() -> None:
    one, other = ("a", "float32", [1]), ("b", "float32", [1])
    assert [(found.name, found.change) for found in compared([one, other], [other, one])] == [
        ("a", "moved"),
        ("b", "moved"),
    ]
    [found] = compared([one, other], [other])
    assert found.change == "removed"


def test_breaking_comes_first() -> None:
    before = [("a", "float32", ["n"]), ("b", "float32", [1])]
    after = [("a", "float32", ["m"]), ("b", "float32", [2])]
    assert [found.breaking for found in compared(before, after)] == [True, False]
