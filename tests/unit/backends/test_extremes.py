from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from artifactctl.backends.extremes import node_extremes
from artifactctl.backends.npz import sample_arrays, write_npz
from tests.conftest import MODELS
from tests.unit.backends.small import SETTINGS


def sample(path: Path, **feeds: np.ndarray[Any, Any]) -> str:
    write_npz(path, sample_arrays("0", {"inputs": feeds, "outputs": {}, "labels": None, "follows": False}))
    return str(path)


def test_the_largest_value_around_each_node(tmp_path: Path) -> None:
    file = sample(tmp_path / "s.npz", x=np.ones((2, 8), np.float32))
    found = node_extremes(str(MODELS / "loud.onnx"), [file], SETTINGS, str(tmp_path / "named.onnx"))
    assert [entry["operator"] for entry in found if entry["largest"] > 1e4] == ["Mul", "Add", "Div"]
    assert [entry["last"] for entry in found] == [False] * 4 + [True]
    named = onnx.load(tmp_path / "named.onnx").graph.node
    assert [node.name for node in named] == [entry["name"] for entry in found]
    assert len({node.name for node in named}) == 5


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_a_value_that_is_not_finite_has_no_largest(tmp_path: Path, odd: float) -> None:
    file = sample(tmp_path / "s.npz", x=np.array([[1, odd, *[-3.0] * 6]], np.float32))
    found = node_extremes(str(MODELS / "loud.onnx"), [file], SETTINGS, str(tmp_path / "named.onnx"))
    assert all(entry["largest"] is None for entry in found)


def test_scores_of_attention_stand_before_their_softmax(tmp_path: Path) -> None:
    ids = np.ones((1, 5), np.int64)
    file = sample(tmp_path / "s.npz", ids=ids, mask=ids)
    found = node_extremes(str(MODELS / "encoder.onnx"), [file], SETTINGS, str(tmp_path / "named.onnx"))
    assert {entry["name"] for entry in found if entry["score"]} == {"node_scores_scaled", "node_scores_masked"}
    assert {entry["name"] for entry in found if entry["largest"] > 1e30} == {"node_mask_bias"}
