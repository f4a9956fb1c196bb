from __future__ import annotations

from math import log2
from pathlib import Path
from typing import Any

import pytest

from artifactctl.errors import SourceError
from artifactctl.steps.explain import explain, first_broken
from tests.unit.steps.test_choose import proof, tried
from tests.unit.steps.test_reuse import reference


class Steps:
    """A row of steps, of which one and all that follow are broken; counts how often it is asked."""

    def __init__(self, broken: int | None) -> None:
        self._broken, self.asked = broken, list[int]()

    def holds(self, count: int) -> bool:
        self.asked.append(count)
        return self._broken is None or count < self._broken


@pytest.mark.parametrize(
    ("count", "broken"), [(count, place) for count in range(1, 9) for place in range(1, count + 1)]
)
def test_the_first_broken_step_is_found(count: int, broken: int) -> None:
    steps = Steps(broken)
    assert first_broken(count, steps.holds) == broken
    assert len(steps.asked) <= log2(count) + 2
    assert len(steps.asked) == len(set(steps.asked)), "each question means a model to make and to run"
    assert all(1 <= asked <= count for asked in steps.asked)


@pytest.mark.parametrize("count", range(1, 9))
def test_one_question_is_enough_when_nothing_broke(count: int) -> None:
    steps = Steps(None)
    assert first_broken(count, steps.holds) is None
    assert steps.asked == [count]


@pytest.mark.parametrize("count", range(2, 9))
def test_a_step_that_mends_what_another_broke_hides_it(count: int) -> None:
    """Only what is broken at the end is looked for."""
    assert first_broken(count, lambda after: after != 1) is None


@pytest.mark.parametrize("count", range(3, 9))
def test_what_it_names_is_always_a_change_from_good_to_bad(count: int) -> None:
    """Also where steps break, mend and break again."""
    for pattern in range(1 << (count - 1)):
        good = [True, *(bool(pattern >> place & 1) for place in range(count - 1)), False]
        found = first_broken(count, good.__getitem__)
        assert found is not None
        assert good[found - 1]
        assert not good[found]


class Nobody:
    """A crew whose every answer is a failure."""

    def __init__(self, kept: Path) -> None:
        self.kept = kept

    def ask(self, name: str, operation: str, **arguments: Any) -> Any:
        raise SourceError("the model brings ONNX Runtime down")


def test_an_explanation_that_fails_changes_no_verdict(tmp_path: Path) -> None:
    different = tried("fp16", equivalence=proof(reason="far off", worst="00000"))
    source = reference(tmp_path, plan={"states": [], "batched": False})
    found = explain(source, different, tmp_path, Nobody(tmp_path / "kept"))  # type: ignore[arg-type]
    assert found == different
