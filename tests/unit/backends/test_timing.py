"""A round of the paired timing: three sessions at once, or one at a time where they would not fit."""

from __future__ import annotations

import os
import random
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from artifactctl import schema
from artifactctl.backends import timing
from artifactctl.errors import SourceError
from artifactctl.resources import template_path
from tests.conftest import MODELS

from .small import SETTINGS

PLENTY, NOTHING = 10**15, 0


@pytest.fixture
def task(tmp_path: Path) -> dict[str, Any]:
    inputs = tmp_path / "x.npz"
    np.savez(inputs, **{"0/inputs/x": np.ones((3, 8), np.float32)})
    return {
        "models": {side: str(MODELS / "mlp.onnx") for side in ("candidate", "baseline")},
        "inputs": str(inputs),
        "settings": {"candidate": SETTINGS, "baseline": SETTINGS},
        "triples": 6,
        "round_s": 0.01,
        "budget_s": 60,
        "held_bytes": PLENTY,
    }


def test_three_sessions_at_once_where_they_fit(task: dict[str, Any]) -> None:
    found = timing.time_round(task, 7)
    assert "one_at_a_time" not in found
    assert 1 <= len(found["times_ns"]) <= 6


def test_a_round_of_loads(task: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    task |= {"place": str(tmp_path / "place")}
    found = timing.load_round(task, 7)
    assert 1 <= len(found) <= 16
    assert all(len(row) == 3 and min(row) > 0 for row in found)
    assert not list((tmp_path / "place").iterdir())
    missing = task | {"models": task["models"] | {"candidate": str(tmp_path / "none.onnx")}}
    with pytest.raises(SourceError, match="ONNX Runtime cannot run it"):
        timing.load_round(missing, 7)


def test_a_child_that_fails_unforeseen_ends(task: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="ended without an answer"):
        timing.load_round(task, 7)  # without a place for its copies


def test_loads_of_a_model_with_external_data(task: dict[str, Any], tmp_path: Path) -> None:
    model = onnx.load(MODELS / "mlp.onnx")
    place = tmp_path / "outside" / "model.onnx"
    place.parent.mkdir()
    onnx.save(model, place, save_as_external_data=True, location="weights.data", size_threshold=0)
    assert (place.parent / "weights.data").stat().st_size > 0
    both = {side: str(place) for side in ("candidate", "baseline")}
    assert timing.load_round(task | {"models": both, "place": str(tmp_path)}, 7)


def test_loads_are_of_copies_that_have_their_data(task: dict[str, Any], tmp_path: Path) -> None:
    model = onnx.load(MODELS / "mlp.onnx")
    (tmp_path / "place").mkdir()
    name = "model.onnx.data"
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location=name, size_threshold=0)
    both = {"candidate": str(tmp_path / "model.onnx"), "baseline": str(MODELS / "mlp.onnx")}
    found = timing._bench.copies(task | {"models": both}, tmp_path / "place", random.Random(7))
    assert {Path(path).parent.parent for path in found.values()} == {tmp_path / "place"}
    assert (Path(found["candidate"]).parent / name).read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("seed", [7, 8])
def test_one_at_a_time_where_they_do_not(task: dict[str, Any], seed: int) -> None:
    found = timing.time_round(task | {"held_bytes": NOTHING}, seed)
    assert found["one_at_a_time"] is True
    assert 1 <= len(found["times_ns"]) <= 6
    assert all(len(row) == 3 and min(row) > 0 for row in found["times_ns"])
    assert set(found["load_ns"]) == set(found["first_ns"]) == {"candidate", "baseline", "again"}
    known = schema.load("bench-result")["$defs"]["round"]["properties"]
    assert found.keys() <= known.keys()


def test_a_pair_that_is_longer_than_the_budget_ends_it_there_too(task: dict[str, Any]) -> None:
    found = timing.time_round(task | {"held_bytes": NOTHING, "budget_s": 0}, 7)
    assert found["times_ns"] == []
    assert found["pair_ns"] > 0


def test_a_model_that_does_not_run_is_said(task: dict[str, Any]) -> None:
    other = {"models": task["models"] | {"candidate": str(MODELS / "tokens.onnx")}}
    for held in (PLENTY, NOTHING):
        with pytest.raises(SourceError, match="ONNX Runtime cannot run it"):
            timing.time_round(task | other | {"held_bytes": held}, 7)


def test_rounds_that_follow_one_another_have_opposite_orders() -> None:
    script = runpy.run_path(str(template_path("bench.py")))
    for seed in range(0, 40, 2):
        assert script["turns"](seed) == script["turns"](seed + 1)[::-1]
    assert len({tuple(script["turns"](seed)) for seed in range(40)}) == 6


def test_who_flushes_denormal_numbers_has_a_process_of_its_own(task: dict[str, Any]) -> None:
    flushing = SETTINGS | {"flush_denormals": True}
    for side in ("candidate", "baseline"):
        found = timing.time_round(task | {"settings": task["settings"] | {side: flushing}}, 7)
        assert found["one_at_a_time"] is True
        assert all(len(row) == 3 and min(row) > 0 for row in found["times_ns"])
    both = task | {"settings": {"candidate": flushing, "baseline": flushing}}
    assert "one_at_a_time" not in timing.time_round(both, 7)


def test_the_cores_are_as_many_as_the_larger_side_has_threads(task: dict[str, Any]) -> None:
    """Fewer threads must not win because the other side is squeezed."""
    for side in ("candidate", "baseline"):
        found = timing.time_round(task | {"settings": task["settings"] | {side: SETTINGS | {"intra_op_threads": 2}}}, 7)
        assert len(found["cores"]) == min(len(os.sched_getaffinity(0)), 2)
    assert len(timing.time_round(task, 7)["cores"]) == 1
