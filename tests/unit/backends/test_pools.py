"""Pools that may be larger than their data: ONNX Runtime takes them as they are, and other providers do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.backends.rewriting import rewritten
from tests.unit.backends.small import floats, model, node

RNG = np.random.default_rng(8)
SIZES = [(6, 8), (3, 2), (7, 5), (1, 1), (2, 1), (1, 9), (2, 2)]
FEEDS = [{"x": RNG.standard_normal((2, 3, *size)).astype(np.float32)} for size in SIZES]
OUT = [floats("y", None, None, None, None)]


@pytest.mark.parametrize("kind", ["AveragePool", "MaxPool"])
def test_a_pool_gets_room(kind: str) -> None:
    pool = node(kind, ["x"], ["y"], kernel_shape=[3, 2], strides=[3, 2])
    made = model([pool], [floats("x", "n", 3, "h", "w")], OUT)
    done, left = rewritten(made, *FEEDS, names=["pools"])
    assert (done, left[kind], left["Slice"]) == ({"pools": 1}, 1, 2)


@pytest.mark.parametrize(
    "more", [{"pads": [1, 0, 0, 0]}, {"strides": [1, 1]}, {"ceil_mode": 1}, {"count_include_pad": 1}]
)
def test_other_pools_stay(more: dict[str, Any]) -> None:
    pool = node("AveragePool", ["x"], ["y"], **{"kernel_shape": [3, 2], "strides": [3, 2], **more})
    made = model([pool], [floats("x", "n", 3, "h", "w")], OUT)
    assert rewritten(made, FEEDS[0], names=["pools"])[0] == {}


def test_a_pool_over_known_sizes_stays() -> None:
    pool = node("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], strides=[3, 2])
    made = model([pool], [floats("x", "n", 3, 6, 8)], OUT)
    assert rewritten(made, FEEDS[0], names=["pools"])[0] == {}
