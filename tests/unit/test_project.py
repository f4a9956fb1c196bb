from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from artifactctl.project import Bound, ModelConfig, Project, Source


def test_defaults_are_those_of_the_contract() -> None:
    model = ModelConfig("m", Source("onnx", "m.onnx"))
    assert model.equivalence.default == Bound(max_abs=1e-3, absolute=False)
    assert model.equivalence.outputs == {}
    assert (model.latency.max_regression, model.latency.budget_s) == (0.10, 60.0)
    assert (model.recipes, model.providers) == (("auto",), ("cpu",))


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (Bound(), "max_abs ≤ 0.001 · max(1, |r|)"),
        (Bound(absolute=True), "max_abs ≤ 0.001"),
        (Bound(max_abs=None, min_cosine=0.995), "min_cosine ≥ 0.995"),
        (Bound(max_abs=None, max_accuracy_drop=0.005), "max_accuracy_drop ≤ 0.005"),
        (Bound(max_abs=0.01, min_top1=0.99), "max_abs ≤ 0.01 · max(1, |r|), min_top1 ≥ 0.99"),
    ],
)
def test_a_bound_is_described_by_what_is_really_asked(bound: Bound, words: str) -> None:
    assert bound.describe() == words


def test_records_are_frozen() -> None:
    project = Project(Path(), {})
    with pytest.raises(FrozenInstanceError):
        project.root = Path("elsewhere")  # type: ignore[misc]
