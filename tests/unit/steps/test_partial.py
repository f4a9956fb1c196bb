"""What a search may take, and one whose first set already ends Olive's process."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.clock import Clock
from artifactctl.crew import Crew
from artifactctl.recipes import RECIPES
from artifactctl.steps import partial
from artifactctl.steps.trials import LATE, Question
from tests.conftest import MODELS
from tests.unit.steps.test_olive import Falling
from tests.unit.steps.test_reuse import reference


@pytest.fixture
def falling(tmp_path: Path) -> Iterator[Crew]:
    with Falling() as crew, crew.working_in(tmp_path, tmp_path, None):
        yield crew


def question(place: Path, crew: Crew, *, search_s: float = 120.0, left_s: float = math.inf) -> Question:
    shutil.copy(MODELS / "fragile.onnx", place / "m.onnx")
    feeds = {"x": np.random.default_rng(3).uniform(-1, 1, (4, 16, 8, 8)).astype(np.float32)}
    write_npz(place / "0.npz", sample_arrays("0", {"inputs": feeds, "outputs": {}, "labels": None, "follows": False}))
    found = reference(place)
    config = replace(found.source.config, budget_s=search_s)
    asked = replace(found, source=replace(found.source, config=config))
    step = RECIPES["int8-partial"].passes[-1]
    return Question(asked, place / "m.onnx", step, (str(place / "0.npz"),), place, crew, Clock(left_s))


def test_a_process_that_ends_over_all_layers_is_no_answer(falling: Crew, tmp_path: Path) -> None:
    """Which layers may be int8 is not known, and elsewhere it may be."""
    found = partial.find(question(tmp_path, falling))
    assert found.refusal == "the search for layers ended early: Olive's process crashed with SIGKILL, twice"
    assert found.died
    assert found.nodes == []
    late = partial.find(question(tmp_path, falling, left_s=0.0))
    assert (late.refusal, late.died) == (LATE, False)


def test_what_measuring_layers_may_take_goes_by_the_time_that_is_given(falling: Crew, tmp_path: Path) -> None:
    """An input like others; never by the time that it takes."""
    short, long = (question(tmp_path, falling, search_s=seconds) for seconds in (60.0, 240.0))
    assert long.work == 4 * short.work > 0
