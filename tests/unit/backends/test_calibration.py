from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from artifactctl.backends.calibration import MOST_SETS, write_calibration
from artifactctl.backends.proof import read_sample
from artifactctl.backends.userdata import CHUNK
from artifactctl.errors import ConfigError

PLAN = {"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]}


def written(folder: Path, array: np.ndarray) -> list[str]:
    np.savez(folder / "c.npz", x=array)
    return write_calibration(PLAN, str(folder / "c.npz"), str(folder / "sets"))


def test_all_sets_have_one_size(tmp_path: Path) -> None:
    files = written(tmp_path, np.ones((CHUNK * 2 + 5, 4), np.float32))
    assert [read_sample(Path(file))["inputs"]["x"].shape for file in files] == [(CHUNK, 4)] * 2


def test_few_samples_are_one_set(tmp_path: Path) -> None:
    assert len(written(tmp_path, np.ones((3, 4), np.float32))) == 1


def test_no_more_sets_than_help(tmp_path: Path) -> None:
    assert len(written(tmp_path, np.ones((MOST_SETS + 9, 1, 4), np.float32))) == MOST_SETS


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_gives_no_range(value: float, tmp_path: Path) -> None:
    array = np.ones((3, 4), np.float32)
    array[1, 2] = value
    with pytest.raises(ConfigError, match=rf"c\.npz: 'x' has {value} at \[1, 2\]"):
        written(tmp_path, array)
