from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from artifactctl.clock import Clock
from artifactctl.crew import Crew
from artifactctl.errors import ConfigError
from artifactctl.project import Limits
from artifactctl.steps.ingredients import SHORTEST_S, Kitchen, Pantry, whole_shape

TEXT: list[dict[str, Any]] = [{"name": name, "shape": ["batch", "length"]} for name in ("ids", "mask")]
IMAGE: list[dict[str, Any]] = [{"name": "image", "shape": ["batch", 3, None, None]}]


def test_sizes_that_share_a_name_are_one() -> None:
    assert whole_shape({"ids": (1, 12)}, TEXT) == {"ids": (1, 12), "mask": (1, 12)}
    assert whole_shape({"image": (1, 3, 8, 9)}, IMAGE) == {"image": (1, 3, 8, 9)}
    fixed = [*IMAGE, {"name": "scale", "shape": [2]}]
    assert whole_shape({"image": (1, 3, 8, 9)}, fixed)["scale"] == (2,)


@pytest.mark.parametrize(
    ("shape", "inputs", "message"),
    [
        ({"idz": (1, 12)}, TEXT, "names 'idz', but the model's inputs are ids, mask"),
        ({"ids": (1, 12), "mask": (1, 13)}, TEXT, r"'mask' cannot be \[1, 13\]"),
        ({"image": (1, 4, 8, 9)}, IMAGE, r"'image' cannot be \[1, 4, 8, 9\], because the model takes"),
        ({"image": (1, 3, 8)}, IMAGE, r"'image' cannot be \[1, 3, 8\]"),
        ({"ids": (1, 12)}, [*TEXT, *IMAGE], "leaves sizes of 'image' free"),
    ],
)
def test_shapes_that_do_not_fit(shape: dict[str, tuple[int, ...]], inputs: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        whole_shape(shape, inputs)


@pytest.mark.parametrize(
    ("left", "name", "at_most", "late"),
    [
        (math.inf, "slim", 900.0, False),
        (100.0, "slim", 100.0, False),
        (5.0, "slim", SHORTEST_S, False),
        (0.0, "slim", SHORTEST_S, True),
        (0.0, "int4", 900.0, False),  # it was named
    ],
)
def test_a_pass_gets_what_is_left_of_the_budget(left: float, name: str, at_most: float, late: bool) -> None:
    nobody: Any = None
    with Crew(limits=Limits(time_s=900.0)) as crew:
        kitchen = Kitchen(nobody, Pantry({}), Path(), crew, Clock(left), frozenset({"int4"}))
        assert at_most - 1 < kitchen.time_s(name) <= at_most
        assert kitchen.is_late(name) is late
