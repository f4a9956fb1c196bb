"""Files that are made to hurt: refused with a name, before anything is read, run or written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from artifactctl.backends import core, graph
from artifactctl.errors import SourceError

from .small import floats, model, node, write

BOUNDS: dict[str, Any] = {"default": {"max_abs": 1e-3}, "outputs": {}}


def external(location: Any) -> onnx.ModelProto:
    made = model([node("Add", ["x", "w"], ["y"])], [floats("x", 4)], [floats("y", 4)], {"w": np.ones(4, np.float32)})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return made


@pytest.mark.parametrize("location", ["a\0b", "../up", "/etc/hostname", "a/" * 5000, "n" * 300, "C:/x", "", "loop"])
def test_a_location_that_is_no_plain_name(location: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    path = Path(write(external(location), tmp_path / "m.onnx"))
    with pytest.raises(SourceError, match="points outside the model's folder") as refused:
        graph.load(path)
    assert len(str(refused.value)) < 500
    assert str(tmp_path) not in str(refused.value)


def test_a_location_that_is_not_text(tmp_path: Path) -> None:
    stored = external("LOCATION").SerializeToString().replace(b"LOCATION", b"LOC\xff\xfeION")
    path = tmp_path / "m.onnx"
    path.write_bytes(stored)
    with pytest.raises(SourceError):
        graph.load(path)


@pytest.mark.parametrize("length", [graph.LONGEST_NAME + 1, 70_000])
def test_names_without_end(length: int, tmp_path: Path) -> None:
    long = "n" * length
    made = model([node("Neg", ["x"], [long])], [floats("x", 4)], [floats(long, 4)])
    with pytest.raises(SourceError, match="longer than"):
        graph.load(Path(write(made, tmp_path / "m.onnx")))
    made = model([node("Neg", ["x"], ["y"])], [floats("x", long)], [floats("y", long)])
    with pytest.raises(SourceError, match="longer than"):
        graph.load(Path(write(made, tmp_path / "m.onnx")))


def test_a_file_that_is_larger_than_protobuf(tmp_path: Path) -> None:
    path = tmp_path / "big.onnx"
    with path.open("wb") as file:
        file.truncate(graph.MOST_BYTES)  # sparse: takes no space
    with pytest.raises(SourceError, match="larger than 2 GiB"):
        graph.load(path)


def test_training_info_is_not_shipped(tmp_path: Path) -> None:
    made = model([node("Neg", ["x"], ["y"])], [floats("x", 4)], [floats("y", 4)])
    made.training_info.add().initialization.name = "elsewhere"
    graph.clean(made)
    assert not made.training_info


@pytest.mark.parametrize(
    ("one", "other"),
    [(complex(np.nan, 1), complex(np.nan, 5)), (complex(np.inf, np.nan), complex(1, np.nan)),
     (complex(np.nan, 1), complex(1, np.nan)), (1e-310j, 5e-310j)],
)  # fmt: skip
def test_complex_numbers_whose_parts_differ(one: complex, other: complex) -> None:
    comparison = core.Comparison()
    comparison.add({"y": np.array([one])}, {"y": np.array([other])})
    assert not comparison.outputs(BOUNDS)[0]["passed"]


def test_an_output_that_changes_its_type_between_samples() -> None:
    comparison = core.Comparison()
    comparison.add({"y": np.array([1.0])}, {"y": np.array([9.0])})
    comparison.add({"y": np.array([1])}, {"y": np.array([1])})
    assert not comparison.outputs(BOUNDS)[0]["passed"]
