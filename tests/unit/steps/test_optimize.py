"""Which passes of a recipe a model goes without, and what becomes of a recipe that cannot be prepared."""

from __future__ import annotations

import shutil
from pathlib import Path

from artifactctl.crew import Crew
from artifactctl.recipes import RECIPES
from artifactctl.steps.ingredients import Kitchen, Pantry
from artifactctl.steps.olive import UNFINISHED
from artifactctl.steps.optimize import _run_passes, left_out
from tests.conftest import MODELS
from tests.unit.steps.test_reuse import PLAN, reference


def labels(*, large: bool, elsewhere: list[str]) -> list[str]:
    return [step.label for step in RECIPES["fp32"].passes if left_out(step, {"large": large}, elsewhere)]


def test_a_small_model_on_the_cpu_goes_without_none() -> None:
    assert labels(large=False, elsewhere=[]) == []


def test_a_large_model_goes_without_what_holds_it_many_times() -> None:
    assert labels(large=True, elsewhere=[]) == ["eliminate_deadend", "fuse_add_bias_into_conv", "fuse_bn_into_conv"]


def test_fusions_for_the_cpu_are_left_out_elsewhere() -> None:
    assert labels(large=False, elsewhere=["openvino"]) == [
        "whole activations",
        "convolutions in place of what leaves their layout, and full lanes in all of them",
        "ONNX Runtime extended graph optimization",
    ]


def test_what_is_laid_out_for_the_cpu_is_in_standard_operators_where_it_must_run_elsewhere() -> None:
    left = [step.label for step in RECIPES["fp32-fused"].passes if left_out(step, {"large": False}, ["openvino"])]
    assert left == ["ONNX Runtime extended graph optimization"]


def test_a_recipe_that_cannot_be_prepared_is_a_value(tmp_path: Path) -> None:
    """Its samples cannot be read: no build ends over that, and Olive is not asked."""
    shutil.copy(MODELS / "fragile.onnx", tmp_path / "m.onnx")
    (tmp_path / "0.npz").write_bytes(b"no samples")
    found = reference(tmp_path, plan=PLAN | {"entries": {"0": {"set": "0"}}})
    with Crew() as crew, crew.working_in(tmp_path, tmp_path, None):
        pantry = Pantry({"external_data": False})
        candidate = _run_passes(Kitchen(found, pantry, tmp_path / "scratch", crew), "fp16-mixed")
    assert candidate.path is None
    assert candidate.broken
    assert not candidate.died
    assert candidate.failure is not None
    label = RECIPES["fp16-mixed"].passes[0].label
    assert candidate.failure.startswith(f"{label} cannot be prepared: the model cannot be used (node_extremes)")
    assert str(tmp_path) not in candidate.failure


class Hurried(Kitchen):
    """No pass has any time."""

    def time_s(self, name: str) -> float:
        return 0.001


def test_a_pass_that_is_ended_by_the_clock_costs_the_recipe(tmp_path: Path) -> None:
    """It may do without one that fails, but then it would be another model on a faster machine."""
    shutil.copy(MODELS / "mlp.onnx", tmp_path / "m.onnx")
    with Crew() as crew, crew.working_in(tmp_path, tmp_path, None):
        pantry = Pantry({"external_data": False, "large": False})
        candidate = _run_passes(Hurried(reference(tmp_path), pantry, tmp_path / "scratch", crew), "fp32")
    assert not RECIPES["fp32"].passes[0].required
    assert (candidate.path, candidate.failure) == (None, UNFINISHED)
    assert [result.status for result in candidate.passes] == ["failed"]
