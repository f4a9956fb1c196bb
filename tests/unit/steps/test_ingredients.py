from __future__ import annotations

from typing import Any

import pytest

from artifactctl.errors import ConfigError
from artifactctl.steps.ingredients import whole_shape

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
