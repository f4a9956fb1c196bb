"""The rest of the comparison's core: values as named arrays, accuracy from labels, inputs from a plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from artifactctl.backends import core


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


class Answers:
    """Stands for a session: answers with what it was given."""

    def __init__(self, **values: tuple[str, Any]) -> None:
        self._values = values

    def get_outputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name, type=kind) for name, (kind, _) in self._values.items()]

    def get_inputs(self) -> list[SimpleNamespace]:
        return []

    def run(self, _: None, __: dict[str, Any]) -> list[Any]:
        return [value for _, value in self._values.values()]


def leaves(kind: str, value: Any) -> dict[str, list[Any]]:
    found = core.run(Answers(y=(kind, value)), {})
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in found.values())
    return {name: array.tolist() for name, array in found.items()}


def test_sequences_and_maps_become_named_arrays() -> None:
    assert leaves("tensor(float)", f32(1, 2)) == {"y": [1, 2]}
    assert leaves("tensor(string)", np.array(["a", "bb"], object)) == {"y": ["a", "bb"]}
    assert leaves("seq(tensor(float))", [f32(1), f32(2, 3)]) == {"y.length": 2, "y[0]": [1], "y[1]": [2, 3]}
    assert leaves("seq(tensor(float))", []) == {"y.length": 0}
    assert leaves("map(int64,float)", {2: 0.5, 1: 0.25}) == {"y.keys": [1, 2], "y.values": [0.25, 0.5]}
    assert leaves("optional(tensor(float))", None) == {"y.none": True}


def test_a_zipmap_becomes_a_table() -> None:
    rows = [{"cat": 0.75, "ant": 0.25}, {"ant": 1.0, "cat": 0.0}]
    assert leaves("seq(map(string,float))", rows) == {
        "y.keys": ["ant", "cat"],
        "y.values": [[0.25, 0.75], [1.0, 0.0]],
    }


def test_a_shorter_sequence_is_different() -> None:
    one = core.run(Answers(y=("seq(tensor(float))", [f32(1), f32(1)])), {})
    other = core.run(Answers(y=("seq(tensor(float))", [f32(1)])), {})
    comparison = core.Comparison()
    comparison.add(one, other)
    assert not all(found["passed"] for found in comparison.outputs({"default": {"max_abs": 1e-3}, "outputs": {}}))


def accuracy(labels: Any, reference: Any, candidate: Any, limit: float | None) -> dict[str, Any] | None:
    tally = core.Accuracy()
    tally.add(np.asarray(labels), {"y": np.asarray(reference)}, {"y": np.asarray(candidate)})
    found: dict[str, Any] | None = tally.result(limit)
    return found


SCORES = np.eye(4)


def test_accuracy_from_scores_and_from_labels() -> None:
    other = SCORES[[0, 1, 2, 0]]
    for reference, candidate in ((SCORES, other), (SCORES.argmax(1), other.argmax(1))):
        found = accuracy([0, 1, 2, 3], reference, candidate, 0.25)
        assert found == {
            "source": 1.0, "candidate": 0.75, "drop": 0.25, "samples": 4, "passed": True, "reason": None
        }  # fmt: skip
    worse = accuracy([0, 1, 2, 3], SCORES, other, 0.2)
    assert worse is not None
    assert not worse["passed"]
    assert worse["reason"] == "accuracy fell by 0.2500, more than 0.2"


def test_a_better_model_has_a_negative_drop() -> None:
    found = accuracy([0, 1, 2, 3], SCORES[[0, 1, 2, 0]], SCORES, 0.0)
    assert found is not None
    assert (found["drop"], found["passed"]) == (-0.25, True)


@pytest.mark.parametrize("labels", [[0, 1, 2], [[0], [1], [2], [3]]])
def test_accuracy_that_cannot_be_told_is_a_failure_when_it_is_asked_for(labels: Any) -> None:
    assert accuracy(labels, SCORES, SCORES, None) is None
    found = accuracy(labels, SCORES, SCORES, 0.1)
    assert found is not None
    assert not found["passed"]


def test_no_labels_at_all() -> None:
    assert core.Accuracy().result(None) is None
    assert core.Accuracy().result(0.1)["passed"] is False


PLAN = {
    "sets": [{"kind": "normal", "dims": {"n": 3}, "draw": 0}, {"kind": "uniform", "dims": {"n": 3}, "draw": 1}],
    "inputs": [
        {"name": "f", "shape": ["n", 2], "dtype": "float32", "fill": "float"},
        {"name": "i", "shape": ["n"], "dtype": "int64", "fill": "range", "range": [2, 5]},
        {"name": "m", "shape": ["n", 6], "dtype": "int64", "fill": "mask"},
        {"name": "b", "shape": [], "dtype": "bool", "fill": "bool"},
        {"name": "s", "shape": ["n"], "dtype": "string", "fill": "string"},
        {"name": "v", "shape": [1], "dtype": "int64", "fill": "values", "values": [8000, 16000]},
    ],
}


def test_inputs_fit_their_description() -> None:
    for index in (0, 1):
        feeds = core.make_inputs(PLAN, [1], index)
        assert {name: (array.shape, array.dtype.name) for name, array in feeds.items()} == {
            "f": ((3, 2), "float32"), "i": ((3,), "int64"), "m": ((3, 6), "int64"), "b": ((), "bool"),
            "s": ((3,), "object"), "v": ((1,), "int64"),
        }  # fmt: skip
        assert set(feeds["i"].tolist()) <= {2, 3, 4, 5}
        assert feeds["v"][0] in (8000, 16000)
        assert all(row == sorted(row, reverse=True) and row[0] == 1 for row in feeds["m"].tolist())


def test_the_same_seed_gives_the_same_inputs() -> None:
    one, same, other = (core.make_inputs(PLAN, [seed], 0) for seed in (1, 1, 2))
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not np.array_equal(one["f"], other["f"])
    assert not np.array_equal(one["f"], core.make_inputs(PLAN, [1], 1)["f"])


def test_rows_are_counted_where_there_is_a_batch() -> None:
    feeds = {"a": np.zeros((3, 2)), "b": np.zeros(())}
    assert core.rows(feeds, True) == 3
    assert core.rows(feeds, False) == 1
    assert core.rows({"a": np.zeros((3, 2)), "b": np.zeros((4,))}, True) == 1
