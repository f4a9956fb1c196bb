"""Model files that are missing, damaged or hostile."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import MODELS, Finished
from tests.flow.refusal import contents, fails, leftovers, refused, versions

Cli = Callable[..., Finished]

MLP = (MODELS / "mlp.onnx").read_bytes()


def _flipped(*bits: int) -> bytes:
    content = bytearray(MLP)
    for bit in bits:
        content[bit // 8] ^= 1 << bit % 8
    return bytes(content)


def test_a_missing_file(cli: Cli, tmp_path: Path) -> None:
    fails(cli, tmp_path, 4, "build", "gone.onnx", names=("gone.onnx", "does not exist"))
    assert not (tmp_path / "artifacts").exists()


def test_a_folder_instead_of_a_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").mkdir()
    fails(cli, tmp_path, 4, "build", "model.onnx", names=("model.onnx", "folder"))


def test_a_link_to_nowhere(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").symlink_to("gone")
    fails(cli, tmp_path, 4, "build", "model.onnx", names=("model.onnx",))


@pytest.mark.parametrize("command", ["build", "check"])
@pytest.mark.parametrize("kind", ["missing", "folder", "link"])
def test_a_configured_file_that_cannot_be_read(cli: Cli, tmp_path: Path, command: str, kind: str) -> None:
    if kind == "folder":
        (tmp_path / "net.onnx").mkdir()
    elif kind == "link":
        (tmp_path / "net.onnx").symlink_to("gone")
    (tmp_path / "artifactctl.yaml").write_text("schema_version: 1\nmodels: {net: {source: {onnx: net.onnx}}}\n")
    fails(cli, tmp_path, 4, command, names=("net.onnx",))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"These are the weights, I was told.\n" * 20, id="text"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(600), id="png"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00" * 512, id="zeros"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", id="lfs-pointer"),
        pytest.param(MLP[:10], id="truncated-to-its-head"),
        pytest.param(MLP[: len(MLP) // 2], id="truncated-to-half"),
        pytest.param(MLP[:-1], id="truncated-by-one-byte"),
    ],
)
def test_not_a_whole_onnx_file(cli: Cli, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    fails(cli, tmp_path, 4, "build", "model.onnx", names=("model.onnx",))


# The operator's name and the input's name are no longer UTF-8; the IR version is 14; an output has no type.
@pytest.mark.parametrize("bit", [191, 7815, 10, 8011])
def test_a_flipped_bit_that_makes_no_model(cli: Cli, tmp_path: Path, bit: int) -> None:
    (tmp_path / "flipped.onnx").write_bytes(_flipped(bit))
    fails(cli, tmp_path, 4, "build", "flipped.onnx", names=("flipped",))


# 8217 takes the opset from the standard domain, and ONNX Runtime runs the model all the same.
@pytest.mark.parametrize("bits", [(8217,), *(random.Random(seed).sample(range(len(MLP) * 8), 4) for seed in (1, 2))])
def test_flipped_bits_are_an_error_or_another_valid_model(cli: Cli, tmp_path: Path, bits: list[int]) -> None:
    (tmp_path / "flipped.onnx").write_bytes(_flipped(*bits))
    done = cli("build", "flipped.onnx", "--json")
    assert done.code in (0, 4, 6), done.err
    if done.code:
        refused(done, done.code, "flipped")
    assert len(versions(tmp_path)) == (done.code == 0)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("seed", range(8))
def test_flipped_bits_do_not_confuse_inspect(cli: Cli, tmp_path: Path, seed: int) -> None:
    bits = random.Random(100 + seed).sample(range(720), 2)  # among names, types and shapes, not among weights
    (tmp_path / "model.onnx").write_bytes(_flipped(*bits))
    done = cli("inspect", "model.onnx", "--json")
    assert done.code in (0, 4), done.err
    if done.code:
        refused(done, 4, "model.onnx")


def _external(folder: Path, location: str, *, in_function: bool = False) -> None:
    """mlp.onnx with w1 in a file of its own; `location` is what the model says of it, whether true or not."""
    model = onnx.load_from_string(MLP)
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "w1")
    content = weight.raw_data
    (folder / "w1.bin").write_bytes(content)
    (folder.parent / "outside.bin").write_bytes(content)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(len(content)))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    if in_function:
        constant = helper.make_node("Constant", [], ["w"], value=weight)
        model.functions.append(
            helper.make_function("own", "Stored", [], ["w"], [constant], [helper.make_opsetid("", 18)])
        )
        model.graph.initializer.remove(weight)
        model.graph.node.insert(0, helper.make_node("Stored", [], ["w1"], domain="own"))
        model.opset_import.append(helper.make_opsetid("own", 1))
    (folder / "model.onnx").write_bytes(model.SerializeToString())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with something of the same user's beside it."""
    inner = tmp_path / "project"
    inner.mkdir()
    return inner


def test_external_data_that_is_missing(cli: Cli, place: Path) -> None:
    _external(place, "w1.bin")
    (place / "w1.bin").unlink()
    error = fails(cli, place, 4, "build", "model.onnx", names=("model.onnx", "w1.bin", "missing"))
    assert "w1.bin" in error["hint"]


def test_external_data_that_is_truncated(cli: Cli, place: Path) -> None:
    _external(place, "w1.bin")
    whole = (place / "w1.bin").read_bytes()
    (place / "w1.bin").write_bytes(whole[:-1])
    fails(cli, place, 4, "build", "model.onnx", names=("model.onnx", "w1.bin", "truncated", str(len(whole))))


@pytest.mark.parametrize(
    ("way", "in_function"),
    [("up", False), ("absolute", False), ("link", False), ("up-and-down", False), ("up", True), ("absolute", True)],
)
@pytest.mark.parametrize("command", ["build", "inspect"])
def test_external_data_outside_the_folder(cli: Cli, place: Path, command: str, way: str, in_function: bool) -> None:
    outside = place.parent / "outside.bin"
    location = {
        "up": "../outside.bin",
        "absolute": str(outside),
        "link": "inside.bin",
        "up-and-down": f"../{place.name}/../outside.bin",
    }[way]
    _external(place, location, in_function=in_function)
    if way == "link":
        (place / "inside.bin").symlink_to(outside)
    fails(cli, place, 4, command, "model.onnx", names=("model.onnx", location, "outside"))


@pytest.mark.parametrize("location", ["weights/w1.bin", "model.onnx"])
def test_external_data_inside_the_folder_is_no_error(cli: Cli, place: Path, location: str) -> None:
    """In a folder of its own, or under a name that we might use ourselves."""
    _external(place, location)
    (place / "model.onnx").rename(place / "net.onnx")
    (place / location).parent.mkdir(exist_ok=True)
    (place / "w1.bin").rename(place / location)
    for status in ("built", "unchanged"):
        done = cli("build", "net.onnx", "--recipe", "fp32", "--json", cwd=place)
        assert done.code == 0, done.err
        assert [entry["status"] for entry in done.json["data"]["artifacts"]] == [status]


def test_a_model_that_onnx_runtime_refuses(cli: Cli, tmp_path: Path) -> None:
    model = onnx.load_from_string(MLP)
    model.opset_import[0].version = 99
    (tmp_path / "future.onnx").write_bytes(model.SerializeToString())
    error = fails(cli, tmp_path, 4, "build", "future.onnx", names=("future", "99"))
    assert "opset" in error["hint"]


def test_a_model_with_an_operator_that_nobody_knows(cli: Cli, tmp_path: Path) -> None:
    model = onnx.load_from_string(MLP)
    model.graph.node[1].op_type = "Rleu"
    (tmp_path / "typo.onnx").write_bytes(model.SerializeToString())
    fails(cli, tmp_path, 4, "build", "typo.onnx", names=("typo", "Rleu"))


def test_a_model_that_brings_the_runtime_down(cli: Cli, tmp_path: Path) -> None:
    """Functions that call one another, 20 000 deep: ONNX Runtime inlines them until its stack ends (SIGSEGV)."""
    depth = 20_000
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    calls = [helper.make_node(f"F{level + 1}", ["a"], ["b"], domain="own") for level in range(depth - 1)]
    calls.append(helper.make_node("Neg", ["a"], ["b"]))
    functions = [
        helper.make_function("own", f"F{level}", ["a"], ["b"], [call], opsets) for level, call in enumerate(calls)
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("F0", ["x"], ["y"], domain="own")], "deep", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)
    (tmp_path / "deep.onnx").write_bytes(model.SerializeToString())
    fails(cli, tmp_path, 4, "build", "deep.onnx", names=("deep", "crashed", "SIG"))


def test_a_model_that_takes_no_input_we_can_make(cli: Cli, tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    seven = numpy_helper.from_array(np.array([7, 7, 7], np.int64), "shape")
    reshape = helper.make_node("Reshape", ["x", "shape"], ["y"])
    graph = helper.make_graph([reshape], "picky", values[:1], values[1:], [seven])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (tmp_path / "picky.onnx").write_bytes(model.SerializeToString())
    error = fails(cli, tmp_path, 4, "build", "picky.onnx", names=("picky", "refuses"))
    assert "samples" in error["hint"]


def test_a_model_that_does_not_agree_with_itself(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "noisy.onnx", tmp_path)
    error = fails(cli, tmp_path, 6, "build", "noisy.onnx", names=("noisy", "does not agree with itself"))
    assert "random" in error["hint"]


def test_a_constant_model_proves_nothing_about_changed_ones(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "constant.onnx", tmp_path)
    done = cli("build", "constant.onnx", "--json")
    assert done.code == 0, done.err
    (built,) = done.json["data"]["artifacts"]
    assert built["recipe"] == "source"
    others = [entry for entry in built["candidates"] if entry["recipe"] != "source"]
    assert others
    assert {entry["status"] for entry in others} == {"rejected"}
    proved = [entry for entry in others if entry["equivalence"]]
    assert proved, "no recipe changed the model, so this test would show nothing"
    assert all("not proved" in entry["reason"] for entry in proved), json.dumps(others)
    assert (tmp_path / built["path"] / "model_opt.onnx").read_bytes() == (MODELS / "constant.onnx").read_bytes()
    assert "constant over all samples" in done.err
    assert leftovers(tmp_path) == []
    assert contents(tmp_path)["constant.onnx"] == (MODELS / "constant.onnx").read_bytes()
