"""Convolutions of few channels compute neighbours as channels: the same answers, whatever the sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.backends.rewriting import rewritten
from tests.unit.backends.small import floats, model, node

RNG = np.random.default_rng(3)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def build(
    kernel: tuple[int, ...], image: tuple[int | str, int | str], *after: Any, opset: int = 18, **attributes: Any
) -> Any:
    weights = {"w": random(*kernel) / kernel[1], "b": random(kernel[0])}
    nodes = [node("Conv", ["x", "w", "b"], ["c" if after else "y"], **attributes), *after]
    made = model(nodes, [floats("x", "n", kernel[1], *image)], [floats("y", "n", kernel[0], None, None)], weights)
    made.opset_import[0].version = opset
    return made


def feeds(channels: int, *image: int) -> list[dict[str, np.ndarray]]:
    return [{"x": random(rows, channels, *image)} for rows in (1, 3)]


@pytest.mark.parametrize(
    ("kernel", "image", "attributes"),
    [
        ((2, 8, 3, 9), (24, 40), {"pads": [1, 4, 1, 4]}),  # along the width
        ((1, 8, 9, 3), (40, 30), {"pads": [4, 1, 4, 1]}),  # along the height, by sixteen
        ((1, 4, 1, 64), (1, 999), {"strides": [1, 2]}),  # a last group that is not full
        ((1, 4, 1, 64), (1, 999), {"strides": [1, 3], "pads": [0, 5, 0, 2]}),
        ((2, 8, 5, 5), (43, 45), {"strides": [2, 2]}),  # values at the end that no kernel reaches
    ],
)
def test_neighbours_are_channels(kernel: tuple[int, ...], image: tuple[int, int], attributes: dict[str, Any]) -> None:
    done, left = rewritten(build(kernel, image, **attributes), *feeds(kernel[1], *image))
    assert done == {"lanes": 1}
    assert left["Conv"] == left["Transpose"] == 1
    assert left["Reshape"] == 2


def test_no_samples_at_all() -> None:
    assert rewritten(build((1, 16, 9, 9), (70, 80)), *feeds(16, 70, 80), {"x": random(0, 16, 70, 80)})[0] == {
        "lanes": 1
    }


def test_free_sizes_stay() -> None:
    """Where there are no samples, a Reshape could not tell the free one."""
    assert rewritten(build((1, 16, 9, 9), ("h", 80)), *feeds(16, 70, 80))[0] == {}
    assert rewritten(build((1, 16, 9, 9), ("h", "w")), *feeds(16, 70, 80))[0] == {}


def test_what_follows_is_done_before_they_are_laid_side_by_side() -> None:
    made = build((2, 16, 5, 5), (64, 64), node("Relu", ["c"], ["y"]))
    done, _ = rewritten(made, *feeds(16, 64, 64))
    assert done == {"lanes": 1}
    assert [entry.op_type for entry in made.graph.node] == ["Conv", "Relu", "Reshape", "Transpose", "Reshape"]


@pytest.mark.parametrize(
    ("kernel", "image", "attributes"),
    [
        ((16, 8, 5, 5), (64, 64), {}),  # all lanes are full
        ((8, 8, 5, 5), (64, 64), {}),  # all eight of a CPU that has no sixteen
        ((8, 16, 1, 1), (128, 128), {}),  # a longer kernel would have as much to do
        ((8, 16, 3, 3), (8, 8), {}),  # too little to do
        ((8, 16, 5, 5), (64, 64), {"dilations": [2, 2]}),
        ((8, 16, 5, 5), (64, 64), {"auto_pad": "SAME_UPPER"}),
        ((8, 1, 5, 5), (128, 128), {"group": 8}),
        ((1, 2100, 1, 64), (2, 4096), {}),  # weights that would be many times larger
    ],
)
def test_what_gains_nothing_stays(kernel: tuple[int, ...], image: tuple[int, int], attributes: dict[str, Any]) -> None:
    made = build(kernel, image, **attributes)
    if groups := attributes.get("group"):
        made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = groups
    assert rewritten(made, *feeds(attributes.get("group", kernel[1]), *image))[0] == {}


def test_an_old_opset_stays() -> None:
    assert rewritten(build((8, 16, 5, 5), (64, 64), opset=9), *feeds(16, 64, 64))[0] == {}
