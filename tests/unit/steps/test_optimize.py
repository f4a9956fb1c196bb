"""Which passes of a recipe a model goes without."""

from __future__ import annotations

from artifactctl.recipes import RECIPES
from artifactctl.steps.optimize import left_out


def labels(*, large: bool, elsewhere: list[str]) -> list[str]:
    return [step.label for step in RECIPES["fp32"].passes if left_out(step, {"large": large}, elsewhere)]


def test_a_small_model_on_the_cpu_goes_without_none() -> None:
    assert labels(large=False, elsewhere=[]) == []


def test_a_large_model_goes_without_what_holds_it_many_times() -> None:
    assert labels(large=True, elsewhere=[]) == ["eliminate_deadend", "fuse_add_bias_into_conv", "fuse_bn_into_conv"]


def test_fusions_for_the_cpu_are_left_out_elsewhere() -> None:
    assert labels(large=False, elsewhere=["openvino"]) == ["ONNX Runtime extended graph optimization"]
