from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from artifactctl.backends.npz import write_npz
from artifactctl.backends.userdata import CHUNK, read_data
from artifactctl.errors import ConfigError

FREE = [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
FIXED = [{"name": "x", "dtype": "float32", "shape": [2, 4]}]


def f32(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def chunks(
    folder: Path, inputs: list[dict[str, Any]], labels: np.ndarray | None = None, **arrays: np.ndarray
) -> list[Any]:
    np.savez(folder / "s.npz", **arrays)
    if labels is not None:
        np.save(folder / "l.npy", labels)
    return list(read_data({"inputs": inputs}, folder / "s.npz", folder / "l.npy" if labels is not None else None))


def test_a_free_batch_is_read_in_chunks(tmp_path: Path) -> None:
    data = f32(CHUNK + 3, 4)
    found = chunks(tmp_path, FREE, np.arange(CHUNK + 3), x=data)
    assert [len(feeds["x"]) for feeds, _ in found] == [CHUNK, 3]
    assert np.array_equal(np.concatenate([feeds["x"] for feeds, _ in found]), data)
    assert np.concatenate([labels for _, labels in found]).tolist() == list(range(CHUNK + 3))


def test_a_fixed_batch_takes_whole_batches_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="5 samples, but the model takes 2 at once"):
        chunks(tmp_path, FIXED, np.arange(5), x=f32(5, 4))
    found = chunks(tmp_path, FIXED, np.arange(4), x=f32(4, 4))
    assert [feeds["x"].shape for feeds, _ in found] == [(2, 4), (2, 4)]
    assert [labels.tolist() for _, labels in found] == [[0, 1], [2, 3]]


def test_samples_of_the_models_own_rank_are_taken_one_by_one(tmp_path: Path) -> None:
    found = chunks(tmp_path, FIXED, x=f32(3, 2, 4))
    assert [feeds["x"].shape for feeds, _ in found] == [(2, 4)] * 3
    assert all(labels is None for _, labels in found)


def test_a_scalar_beside_a_batch(tmp_path: Path) -> None:
    """First axis = sample: a scalar input has one number for each row of the other."""
    inputs = [*FREE, {"name": "rate", "dtype": "int64", "shape": []}]
    found = chunks(tmp_path, inputs, x=f32(3, 4), rate=np.array([8, 16, 8]))
    assert [(feeds["x"].shape, feeds["rate"].shape) for feeds, _ in found] == [((1, 4), ())] * 3
    assert [feeds["rate"].item() for feeds, _ in found] == [8, 16, 8]


def test_strings_arrive_as_the_runtime_takes_them(tmp_path: Path) -> None:
    [(feeds, _)] = chunks(tmp_path, [{"name": "s", "dtype": "string", "shape": ["n"]}], s=np.array(["a", "bb"]))
    assert feeds["s"].dtype == object
    assert feeds["s"].tolist() == ["a", "bb"]


@pytest.mark.parametrize(
    ("inputs", "arrays", "message"),
    [
        (FREE, {"y": f32(2, 4)}, r"has arrays \['y'\], but the model's inputs are \['x'\]"),
        (FREE, {"x": f32(2, 4), "y": f32(2, 4)}, "has arrays"),
        ([*FREE, FREE[0] | {"name": "z"}], {"x": f32(2, 4), "z": f32(3, 4)}, "must be one length for all"),
        (FREE, {"x": f32(0, 4)}, "must be one length for all"),
        (FREE, {"x": np.float32(1)}, "must be one length for all"),
        (FREE, {"x": np.zeros((2, 4))}, "'x' is float64, but the model takes float32"),
        (FREE, {"x": np.array(["a"])}, "'x' is string, but the model takes float32"),
        (FREE, {"x": f32(2, 5)}, r"'x' has shape \[2, 5\], but the model takes \['batch', 4\]"),
        (FREE, {"x": f32(2)}, r"'x' has shape \[2\]"),
        (FREE, {"x": f32(2, 1, 1, 4)}, r"'x' has shape \[2, 1, 1, 4\]"),
        (FIXED, {"x": f32(3, 3, 4)}, r"'x' has shape \[3, 3, 4\]"),
        (FIXED, {"x": f32(1, 4)}, "'x' has 1 samples, but the model takes 2 at once"),
    ],
)
def test_samples_that_do_not_fit(
    tmp_path: Path, inputs: list[dict[str, Any]], arrays: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(ConfigError, match=rf"s.npz.*{message}"):
        chunks(tmp_path, inputs, **arrays)


def test_a_dtype_that_does_not_fit_comes_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        chunks(tmp_path, FREE, x=np.zeros((2, 4)))
    assert "astype('float32')" in caught.value.hint


@pytest.mark.parametrize("labels", [np.arange(3), np.zeros((4, 1), int), np.array(1)])
def test_labels_that_do_not_fit(tmp_path: Path, labels: np.ndarray) -> None:
    with pytest.raises(ConfigError, match=r"l.npy has shape .* but there are 4 samples"):
        chunks(tmp_path, FREE, labels, x=f32(4, 4))


def test_labels_are_classes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="labels are class numbers or names"):
        chunks(tmp_path, FREE, np.zeros(4), x=f32(4, 4))


def damaged_archive() -> bytes:
    """A compressed archive with one byte changed in the middle of its data."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32))
    content = bytearray(buffer.getvalue())
    content[len(content) // 2] ^= 0xFF
    return bytes(content)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 not a zip", damaged_archive(), damaged_archive()[:300]])
def test_files_that_are_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"s.npz cannot be read as .npz"):
        list(read_data({"inputs": FREE}, tmp_path / "s.npz", None))


def test_a_missing_file_and_a_pickle(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_data({"inputs": FREE}, tmp_path / "s.npz", None))
    np.savez(tmp_path / "s.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        list(read_data({"inputs": FREE}, tmp_path / "s.npz", None))
    assert "pickled objects are not read" in caught.value.hint


def test_a_single_array_for_samples(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", f32(2, 4))
    with pytest.raises(ConfigError, match=r"s.npy is one array"):
        list(read_data({"inputs": FREE}, tmp_path / "s.npy", None))


@pytest.mark.parametrize("kind", ["archive", "text", "damaged archive", "missing"])
def test_labels_that_cannot_be_read(tmp_path: Path, kind: str) -> None:
    write_npz(tmp_path / "s.npz", {"x": f32(4, 4)})
    labels = tmp_path / "labels"
    if kind == "archive":
        write_npz(labels, {"y": np.arange(4)})
    elif kind != "missing":
        labels.write_bytes(b"text" if kind == "text" else b"PK\x03\x04 not a zip")
    with pytest.raises(ConfigError, match="labels"):
        list(read_data({"inputs": FREE}, tmp_path / "s.npz", labels))
