from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from artifactctl.backends import graph, streams
from artifactctl.errors import SourceError
from tests.conftest import MODELS

from .small import floats, model, node, write

WEIGHT = np.arange(16, dtype=np.float32).reshape(4, 4)


def external(folder: Path, location: str = "w.bin", **entries: str) -> Path:
    """A model whose only weight lies in another file, 64 bytes from offset 0 unless told otherwise."""
    made = model([node("MatMul", ["x", "w"], ["y"])], [floats("x", "n", 4)], [floats("y", "n", 4)], {"w": WEIGHT})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": location, "offset": "0", "length": "64"} | entries).items():
        if value:
            tensor.external_data.add(key=key, value=value)
    write(made, folder / "m.onnx")
    inside = folder / location
    if location and inside.resolve().is_relative_to(folder.resolve()):
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.write_bytes(WEIGHT.tobytes())
    return folder / "m.onnx"


def test_a_good_file(tmp_path: Path) -> None:
    assert graph.load(MODELS / "mlp.onnx").graph.output[0].name == "y"


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello, this is text\n", "is not a"),
        (POINTER, "is a git-lfs pointer"),
        ((MODELS / "mlp.onnx").read_bytes()[:-100], "is not a whole ONNX file"),
        (b"PK\x03\x04" + bytes(60), "is not a"),
        (bytes(100), "is not a"),
        (onnx.ModelProto(ir_version=10).SerializeToString(), "is not an ONNX model"),
    ],
    ids=["empty", "text", "git-lfs", "truncated", "zip", "zeros", "no graph"],
)
def test_files_that_are_no_models(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(SourceError, match=rf"m.onnx {message}") as caught:
        graph.load(tmp_path / "m.onnx")
    assert caught.value.hint


@pytest.mark.parametrize("suffix", ["json", "textproto", "onnxtxt", "txt", "pb"])
def test_text_under_other_names_is_no_model_either(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m.{suffix}"
    path.write_text("hello: world\n")
    with pytest.raises(SourceError):
        graph.load(path)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.onnx", tmp_path):
        with pytest.raises(SourceError, match="cannot be read"):
            graph.load(path)


def test_every_truncation_is_a_source_error(tmp_path: Path) -> None:
    whole = (MODELS / "tokens.onnx").read_bytes()
    for size in range(1, len(whole), 37):
        (tmp_path / "m.onnx").write_bytes(whole[:size])
        with pytest.raises(SourceError):
            graph.load(tmp_path / "m.onnx")


def test_external_data_is_loaded(tmp_path: Path) -> None:
    path = external(tmp_path)
    assert numpy_helper.to_array(graph.load(path).graph.initializer[0]).tolist() == WEIGHT.tolist()
    assert graph.external_files(graph.load(path, with_data=False), path) == ["w.bin"]
    assert graph.inspect(str(path))["external_data"] == ["w.bin"]
    assert graph.inspect(str(path))["size_bytes"] == path.stat().st_size + 64


def shorten(path: Path) -> None:
    (path.parent / "w.bin").write_bytes(bytes(40))


@pytest.mark.parametrize(
    ("entries", "spoil", "message"),
    [
        ({}, lambda path: (path.parent / "w.bin").unlink(), "its external data 'w.bin' is missing"),
        ({}, shorten, r"its external data 'w.bin' is truncated \(40 of 64 bytes\)"),
        ({"length": ""}, shorten, "truncated"),
        ({"offset": "32"}, lambda path: None, "truncated"),
        ({"length": "many"}, lambda path: None, "has a damaged external data entry"),
        ({"offset": "-8"}, lambda path: None, "has a damaged external data entry"),
    ],
    ids=["missing", "truncated", "truncated, no length", "beyond the end", "no number", "negative"],
)
def test_damaged_external_data(
    tmp_path: Path, entries: dict[str, str], spoil: Callable[[Path], Any], message: str
) -> None:
    path = external(tmp_path, **entries)
    spoil(path)
    with pytest.raises(SourceError, match=message):
        graph.load(path)


@pytest.mark.parametrize(
    "location", ["/etc/hostname", "../w.bin", "a/../../w.bin", "a/../w.bin", "..\\w.bin", "C:\\w.bin", ""]
)
def test_external_data_outside_the_models_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    path = external(folder, location)
    for with_data in (True, False):
        with pytest.raises(SourceError, match="points outside the model's folder"):
            graph.load(path, with_data=with_data)


def test_a_link_that_leads_outside(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    path = external(folder)
    (folder / "w.bin").rename(tmp_path / "w.bin")
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(SourceError, match="points outside"):
        graph.load(path)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_inside_is_refused_in_words(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    """onnx itself loads neither; the user must learn it as a SourceError."""
    path = external(tmp_path)
    (tmp_path / "w.bin").rename(tmp_path / "real.bin")
    link(tmp_path / "real.bin", tmp_path / "w.bin")
    with pytest.raises(SourceError, match=r"w\.bin"):
        graph.load(path)


def test_staging_copies_the_model_and_its_data(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    path = external(tmp_path / "from", "weights/w.bin")
    staged = streams.stage_onnx(str(path), str(tmp_path / "to"))
    assert graph.load(Path(staged["path"])).graph.initializer[0].raw_data == WEIGHT.tobytes()
    assert [entry["size_bytes"] for entry in staged["files"]] == [path.stat().st_size, 64]


def test_staging_names_files_by_their_place_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    path = external(tmp_path / "from", "weights/w.bin")
    staged = streams.stage_onnx(str(path), str(tmp_path / "to"))
    assert [entry["name"] for entry in staged["files"]] == ["m.onnx", "weights/w.bin"]


def relu(
    dtype: int = TensorProto.FLOAT, kind: str = "Relu", domain: str = "", **weights: np.ndarray
) -> onnx.ModelProto:
    value = [helper.make_tensor_value_info(name, dtype, ["n", 4]) for name in "xy"]
    return model([node(kind, ["x"], ["y"], domain=domain)], value[:1], value[1:], weights, (domain,) if domain else ())


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (relu(), "fp32"),
        (relu(w=np.zeros(4, np.float32)), "fp32"),
        (relu(w=np.zeros(4, np.float16)), "fp16"),
        (relu(w=np.zeros(9, np.float16), v=np.zeros(8, np.float32)), "fp16"),
        (relu(w=np.zeros(8, np.float16), v=np.zeros(9, np.float32)), "fp32"),
        (relu(w=np.zeros(4, np.float64)), "fp64"),
        (relu(w=np.zeros(100, np.int64), v=np.zeros(1, np.float16)), "fp16"),
        (relu(kind="DynamicQuantizeLinear", w=np.zeros(4, np.float32)), "int8"),
        (relu(kind="QLinearMatMul", w=np.zeros(4, np.float32)), "int8"),
        (relu(kind="DynamicQuantizeMatMul", domain="com.microsoft", w=np.zeros(4, np.float32)), "int8"),
        (relu(kind="DynamicQuantizeLSTM", domain="com.microsoft", w=np.zeros(4, np.float32)), "int8"),
        (relu(kind="MatMulIntegerToFloat", domain="com.microsoft", w=np.zeros(4, np.float32)), "int8"),
        (relu(kind="QAttention", domain="com.microsoft", w=np.zeros(4, np.float32)), "int8"),
        (relu(kind="MatMulNBits", domain="com.microsoft", w=np.zeros(4, np.float32)), "int4"),
    ],
)
def test_precision_is_what_most_of_the_weights_are(made: onnx.ModelProto, expected: str) -> None:
    assert graph.precision(made) == expected


def with_function(kind: str, domain: str) -> onnx.ModelProto:
    """A model whose only node is a function of its own, with one operator inside."""
    made = relu(kind="Own", domain="own.functions")
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(domain, 1)] if domain else [helper.make_opsetid("", 18)]
    inner = [node(kind, ["a"], ["b"], domain=domain)]
    made.functions.append(helper.make_function("own.functions", "Own", ["a"], ["b"], inner, opsets))
    return made


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (relu(), "any"),
        (relu(kind="Scaler", domain="ai.onnx.ml"), "any"),
        (relu(kind="Gelu", domain="com.microsoft"), "ort-only"),
        (relu(kind="SimplifiedLayerNormalization"), "ort-only"),
        (relu(kind="Conv", domain="com.microsoft.nchwc"), "cpu:avx2-or-avx512f-or-neon"),
        (relu(kind="EPContext", domain="com.microsoft"), "this-device"),
        (relu(kind="Magic", domain="my.ops"), "custom:my.ops"),
        (relu(kind="BertTokenizer", domain="ai.onnx.contrib"), "custom:ai.onnx.contrib"),
        (with_function("Relu", ""), "any"),
        (with_function("Gelu", "com.microsoft"), "ort-only"),
        (with_function("Magic", "my.ops"), "custom:my.ops"),
    ],
    ids=[
        "plain",
        "ml",
        "ort",
        "ort under ONNX's name",
        "nchwc",
        "device",
        "custom",
        "extensions",
        "function",
        "ort inside",
        "custom inside",
    ],
)
def test_portability(made: onnx.ModelProto, expected: str) -> None:
    assert graph.portability(made) == expected


def test_inspect_tells_inputs_outputs_and_operators() -> None:
    found = graph.inspect(str(MODELS / "mlp.onnx"))
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}]
    assert found["outputs"] == [{"name": "y", "dtype": "float32", "shape": ["batch", 4]}]
    assert found["operators"] == [
        {"domain": "ai.onnx", "operator": "Gemm", "count": 2},
        {"domain": "ai.onnx", "operator": "Relu", "count": 1},
    ]
    assert found["parameters"] == 8 * 16 + 16 + 16 * 4 + 4
    assert (found["ir_version"], found["opsets"], found["precision"]) == (10, {"ai.onnx": 18}, "fp32")


def test_inspect_looks_into_branches() -> None:
    kinds = {entry["operator"] for entry in graph.inspect(str(MODELS / "branch.onnx"))["operators"]}
    assert {"If", "Neg", "Exp"} <= kinds


def test_shapes_without_names_and_without_rank() -> None:
    values = [floats("a", None, 3), helper.make_tensor_value_info("b", TensorProto.DOUBLE, None)]
    values.append(helper.make_tensor_sequence_value_info("c", TensorProto.FLOAT, None))
    assert graph.inspect_values(values) == [
        {"name": "a", "dtype": "float32", "shape": [None, 3]},
        {"name": "b", "dtype": "float64", "shape": None},
        {"name": "c", "dtype": "sequence(float32)", "shape": None},
    ]


def test_saving_takes_out_what_depends_on_the_machine(tmp_path: Path) -> None:
    made = relu(w=np.zeros(4, np.float32))
    plain = write(made, tmp_path / "plain.onnx")
    made.graph.node[0].doc_string = "File /home/someone/model.py, line 3"
    made.graph.node[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value="/home/someone")
    made.opset_import.append(helper.make_opsetid("not.used", 1))
    traced = write(made, tmp_path / "traced.onnx")
    for source in (plain, traced):
        graph.save_normalized(source, source + ".saved")
    saved = Path(plain + ".saved").read_bytes()
    assert saved == Path(traced + ".saved").read_bytes()
    assert b"someone" not in saved


def test_verbatim_keeps_the_bytes(tmp_path: Path) -> None:
    saved = graph.save_normalized(str(MODELS / "cnn.onnx"), str(tmp_path / "m.onnx"), verbatim=True)
    assert (tmp_path / "m.onnx").read_bytes() == (MODELS / "cnn.onnx").read_bytes()
    assert saved["size_bytes"] == (MODELS / "cnn.onnx").stat().st_size


def test_external_data_becomes_part_of_the_saved_file(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    graph.save_normalized(str(external(tmp_path / "from")), str(tmp_path / "m.onnx"))
    assert graph.load(tmp_path / "m.onnx").graph.initializer[0].raw_data == WEIGHT.tobytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["from", "m.onnx"]
