from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from artifactctl.backends import graph, streams
from artifactctl.errors import SourceError
from tests.unit.backends.small import floats, model, node

RNG = np.random.default_rng(5)
LARGE = RNG.standard_normal((700, 600)).astype(np.float32)  # more than one block
MIDDLE, SMALL = RNG.standard_normal((30, 20)).astype(np.float32), np.array([1, 700], np.int64)


def spread(home: Path) -> Path:
    """A model with weights in two files and one of its own; one of the external ones is a shape."""
    nodes = [
        node("Reshape", ["x", "shape"], ["flat"]),
        node("MatMul", ["flat", "large"], ["m"]),
        node("Slice", ["m", "start", "end", "axis"], ["s"]),
        node("MatMul", ["s", "middle"], ["y"]),
    ]
    limits = {"start": np.array([0]), "end": np.array([30]), "axis": np.array([1])}
    made = model(
        nodes, [floats("x", 700)], [floats("y", 1, 20)], {"large": LARGE, "middle": MIDDLE, "shape": SMALL} | limits
    )
    for name, file in (("large", "a.bin"), ("shape", "b.bin")):
        tensor = next(entry for entry in made.graph.initializer if entry.name == name)
        with (home / file).open("wb") as writer:
            writer.write(b"\0" * 8 + tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": file, "offset": "8"}.items():
            tensor.external_data.add(key=key, value=value)
    (home / "m.onnx").write_bytes(made.SerializeToString())
    return home / "m.onnx"


def test_a_model_goes_from_files_to_one_file_and_its_data(tmp_path: Path) -> None:
    source, target = spread(tmp_path), tmp_path / "to" / "model.onnx"
    target.parent.mkdir()
    streams.save(graph.load(source, with_data=False), tmp_path, target)
    onnx.checker.check_model(str(target), full_check=True)
    stored = {tensor.name: tensor for tensor in onnx.load(str(target), load_external_data=False).graph.initializer}
    outside = {name for name, tensor in stored.items() if tensor.data_location == TensorProto.EXTERNAL}
    assert outside == {"large", "middle"}  # a shape stays where others can read it
    assert (target.parent / "model.onnx.data").stat().st_size == LARGE.nbytes + MIDDLE.nbytes
    read = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.load(target).graph.initializer}
    for name, values in {"large": LARGE, "middle": MIDDLE, "shape": SMALL}.items():
        np.testing.assert_array_equal(read[name], values)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    source, written = spread(tmp_path), []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        streams.save(graph.load(source, with_data=False), tmp_path, tmp_path / name / "model.onnx")
        written.append([(tmp_path / name / file).read_bytes() for file in ("model.onnx", "model.onnx.data")])
    assert written[0] == written[1]


def test_data_that_end_early_are_said_to(tmp_path: Path) -> None:
    source = spread(tmp_path)
    loaded = graph.load(source, with_data=False)
    (tmp_path / "a.bin").write_bytes(b"\0" * 100)
    (tmp_path / "to").mkdir()
    with pytest.raises(SourceError, match="ended early"):
        streams.save(loaded, tmp_path, tmp_path / "to" / "model.onnx")


def test_a_light_model_has_its_shapes_but_not_its_weights(tmp_path: Path) -> None:
    stored = {tensor.name: tensor for tensor in graph.load_light(spread(tmp_path)).graph.initializer}
    assert stored["large"].data_location == TensorProto.EXTERNAL
    assert numpy_helper.to_array(stored["shape"]).tolist() == SMALL.tolist()


def test_a_changed_graph_has_the_data_of_its_source_beside_it(tmp_path: Path) -> None:
    source, target = spread(tmp_path), tmp_path / "to" / "model.onnx"
    target.parent.mkdir()
    light = graph.load(source, with_data=False)
    light.graph.name = "changed"
    graph.save_beside(light, source, target)
    assert graph.load(target).graph.name == "changed"
    assert {file.name for file in target.parent.iterdir()} == {"model.onnx", "a.bin", "b.bin"}


def test_what_is_large_by_itself_is_laid_out_beside_its_data(tmp_path: Path) -> None:
    file = spread(tmp_path)
    size = file.stat().st_size
    assert streams.lay_out(file, tmp_path / "new", size) == file
    assert not (tmp_path / "new").exists()
    found = streams.lay_out(file, tmp_path / "new", size - 1)
    assert {path.name for path in found.parent.iterdir()} == {"m.onnx", "m.onnx.data"}
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(found).graph.initializer}
    assert np.array_equal(stored["large"], LARGE)
    assert np.array_equal(stored["middle"], MIDDLE)
    assert stored["shape"].tolist() == SMALL.tolist()
    light = {tensor.name: tensor for tensor in onnx.load(found, load_external_data=False).graph.initializer}
    assert light["middle"].data_location == TensorProto.EXTERNAL
    assert file.stat().st_size == size


def listed(path: Path, values: int) -> Path:
    """A weight that is an input too."""
    made = model([node("Mul", ["x", "w"], ["y"])], [floats("x", values), floats("w", values)], [floats("y", values)])
    made.graph.initializer.append(numpy_helper.from_array(np.arange(values, dtype=np.float32), "w"))
    onnx.save(made, path)
    return path


def test_weights_that_are_inputs_lie_beside_the_model(tmp_path: Path) -> None:
    saved = graph.save_normalized(str(listed(tmp_path / "from.onnx", 256)), str(tmp_path / "m.onnx"))
    data = tmp_path / "m.onnx.data"
    assert data.read_bytes() == np.arange(256, dtype=np.float32).tobytes()
    assert saved["size_bytes"] == (tmp_path / "m.onnx").stat().st_size + 1024
    graph.save_normalized(str(tmp_path / "m.onnx"), str(tmp_path / "m.onnx"))  # onto itself
    assert data.stat().st_size == 1024
    graph.save_normalized(str(listed(tmp_path / "from.onnx", 255)), str(tmp_path / "small.onnx"))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["from.onnx", "m.onnx", "m.onnx.data", "small.onnx"]


def test_tensors_begin_where_a_runtime_can_compute_with_them(tmp_path: Path) -> None:
    made = model([node("Mul", ["x", "w"], ["y"])], [floats("x", 300)], [floats("y", 300)], {})
    for name, values in (("odd", np.zeros(1025, np.int8)), ("w", np.ones(300, np.float32))):
        made.graph.initializer.append(numpy_helper.from_array(values, name))
    streams.save(made, tmp_path, tmp_path / "m.onnx")
    saved = graph.load(tmp_path / "m.onnx", with_data=False)
    entries = {entry.key: entry.value for entry in saved.graph.initializer[1].external_data}
    assert int(entries["offset"]) % 64 == 0
    np.testing.assert_array_equal(numpy_helper.to_array(graph.load(tmp_path / "m.onnx").graph.initializer[1]), 1)
