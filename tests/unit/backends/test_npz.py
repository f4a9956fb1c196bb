from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from artifactctl.backends.npz import write_npz

ARRAYS = {
    "floats": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(3),
    "empty": np.zeros((0, 2)),
    "00001/inputs/a%2Fb": np.array([True, False]),
    "half": np.array([1.5], np.float16),
}


def test_arrays_are_read_back_by_numpy(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", ARRAYS)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as stored:
        assert stored.files == list(ARRAYS)
        for name, array in ARRAYS.items():
            assert (stored[name].dtype, stored[name].shape) == (array.dtype, array.shape)
            assert np.array_equal(stored[name], array)


def test_strings_are_stored_as_text(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", {"s": np.array(["a", "naïve"], dtype=object)})
    assert np.load(tmp_path / "a.npz", allow_pickle=False)["s"].tolist() == ["a", "naïve"]


def test_the_bytes_depend_on_the_values_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_npz(tmp_path / "a.npz", ARRAYS)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    other = ARRAYS | {"floats": np.asfortranarray(ARRAYS["floats"])}
    write_npz(tmp_path / "b.npz", other)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    times = {entry.date_time for entry in zipfile.ZipFile(tmp_path / "a.npz").infolist()}
    assert times == {(1980, 1, 1, 0, 0, 0)}


def test_a_view_is_stored_like_its_copy(tmp_path: Path) -> None:
    wide = np.arange(12, dtype=np.int64).reshape(3, 4)
    write_npz(tmp_path / "a.npz", {"v": wide[:, ::2]})
    write_npz(tmp_path / "b.npz", {"v": wide[:, ::2].copy()})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_other_values_give_other_bytes(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", {"v": np.array([1.0])})
    write_npz(tmp_path / "b.npz", {"v": np.array([2.0])})
    assert (tmp_path / "a.npz").read_bytes() != (tmp_path / "b.npz").read_bytes()
