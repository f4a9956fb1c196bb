"""The search for a set of layers, as far as it needs no model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from artifactctl.clock import Clock
from artifactctl.passes import OlivePass
from artifactctl.selection import Cost, Layer, Link
from artifactctl.steps.trials import LATE, Made, Question, Search
from tests.unit.steps.test_olive import Falling


def link(name: str, strain: float) -> Link:
    cost = Cost(strain * 1e-3, strain)
    return Link(Layer(name, "Conv", 0.5, cost), 0.5, cost)


def search(clock: Clock, order: list[Link], crew: Any = None) -> Search:
    nobody: Any = None  # no model is asked for, and no process where none is given
    question = Question(nobody, Path("m.onnx"), OlivePass("q", "q", {}), (), Path("scratch"), crew, clock)
    whole = Made(tuple(one.layer.name for one in order), Path("whole.onnx"), None, Cost(0.002, 2.0))
    return Search(question, [{"name": one.layer.name, "carries": []} for one in order], order, whole)


def test_a_search_whose_time_is_over_says_so_and_tries_nothing() -> None:
    found = search(Clock(0.0), [link("a", 0.3), link("b", 2.0)])
    assert found.promising
    assert not found.step()
    assert found.cut == LATE
    assert (len(found.tried), found.best) == (1, None)


def test_one_that_is_finished_is_not_late() -> None:
    found = search(Clock(0.0), [link("a", 2.0)])
    assert not found.promising
    assert not found.step()
    assert not found.cut


def test_the_share_of_a_set_is_counted_over_its_layers() -> None:
    found = search(Clock(math.inf), [link("a", 0.3), link("b", 2.0)])
    assert found.share(found.tried[0]) == 1.0


def test_a_set_over_which_the_process_ended_says_nothing_about_its_layers(tmp_path: Path) -> None:
    """The same inputs must give the same layers, and elsewhere it may not end."""
    order = [link("a", 0.3), link("b", 2.0)]
    with Falling() as crew, crew.working_in(tmp_path, tmp_path, None):
        found = search(Clock(math.inf), order, crew)
        assert not found.step()
    assert found.cut.startswith("the search for layers ended early: Olive's process")
    assert len(found.tried) == 1
