from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from artifactctl.backends import core
from artifactctl.backends.samples import plan_inputs, write_samples
from artifactctl.errors import SourceError
from tests.conftest import MODELS

from .small import SETTINGS, floats, ints, model, node, write


def plan(path: str, seed: int = 1, *, probe: bool = True, **declared: dict[str, Any]) -> dict[str, Any]:
    return plan_inputs(path, declared, SETTINGS, seed, probe, None)


def plan_of(name: str, folder: Path, seed: int = 1) -> dict[str, Any]:
    shutil.copy(MODELS / f"{name}.onnx", folder)
    return plan(str(folder / f"{name}.onnx"), seed)


def all_inputs(made: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    return [core.make_inputs(made, [made["seed"]], index) for index in range(len(made["sets"]))]


def test_token_ids_stay_inside_the_table(tmp_path: Path) -> None:
    made = plan_of("tokens", tmp_path)
    [spec] = made["inputs"]
    assert spec["range"] == [0, 19]
    ids = np.concatenate([feeds["ids"].reshape(-1) for feeds in all_inputs(made)])
    assert ids.min() >= 0
    assert ids.max() == 19


def test_both_sides_of_a_branch_are_taken(tmp_path: Path) -> None:
    made = plan_of("branch", tmp_path)
    assert made["branches"] == [{"condition": "large", "taken": [False, True]}]
    means = [feeds["x"].mean() for feeds in all_inputs(made)]
    assert min(means) < 0.6 < max(means)


def test_batches_and_single_samples(tmp_path: Path) -> None:
    made = plan_of("mlp", tmp_path)
    assert made["batched"]
    assert {feeds["x"].shape for feeds in all_inputs(made)} >= {(1, 8), (3, 8)}
    assert made["outside"] == []


def test_a_batch_that_is_fixed(tmp_path: Path) -> None:
    path = write(model([node("Relu", ["x"], ["y"])], [floats("x", 1, 4)], [floats("y", 1, 4)]), tmp_path / "m.onnx")
    made = plan(path)
    assert not made["batched"]
    assert {feeds["x"].shape for feeds in all_inputs(made)} == {(1, 4)}


def test_sizes_that_the_model_refuses_are_outside_its_domain(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "to"], ["y"])]
    made = model(nodes, [floats("x", "batch", 4)], [floats("y", 1, 4)], {"to": np.array([1, 4])})
    found = plan(write(made, tmp_path / "m.onnx"))
    assert not found["batched"]
    assert {feeds["x"].shape for feeds in all_inputs(found)} == {(1, 4)}
    assert {"batch": 3} in [entry["dims"] for entry in found["outside"]]
    assert all(entry["message"] for entry in found["outside"])


def test_other_free_sizes_are_tried_too(tmp_path: Path) -> None:
    shapes = {feeds["image"].shape[2:] for feeds in all_inputs(plan_of("cnn", tmp_path))}
    assert len({height for height, _ in shapes}) > 1
    assert len({width for _, width in shapes}) > 1


@pytest.mark.parametrize("unknown", [None, "unk__7", "?"])
def test_dimensions_without_a_name(tmp_path: Path, unknown: str | None) -> None:
    """The first axis is one batch for all inputs; any other axis is a size of its own."""
    inputs = [floats("a", unknown, unknown), floats("b", unknown, 4)]
    nodes = [node("ReduceMean", ["a", "axes"], ["m"], keepdims=1), node("Add", ["m", "b"], ["y"])]
    made = plan(write(model(nodes, inputs, [floats("y", None, 4)], {"axes": np.array([1])}), tmp_path / "m.onnx"))
    assert [spec["shape"] for spec in made["inputs"]] == [["batch?", "a:1"], ["batch?", 4]]
    assert made["batched"]
    assert all(feeds["a"].shape[0] == feeds["b"].shape[0] for feeds in all_inputs(made))


def test_two_unnamed_sizes_that_must_be_equal(tmp_path: Path) -> None:
    made = model(
        [node("Add", ["a", "b"], ["y"])], [floats("a", None, None), floats("b", None, None)], [floats("y", None, None)]
    )
    found = plan(write(made, tmp_path / "m.onnx"))
    assert found["sets"]
    assert {"a:1", "b:1"} <= found["sets"][0]["dims"].keys()


def test_a_declared_shape_counts(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "to"], ["y"])]
    path = write(model(nodes, [floats("x", "n")], [floats("y", 7, 7)], {"to": np.array([7, 7])}), tmp_path / "m.onnx")
    with pytest.raises(SourceError, match="refuses every input that was tried") as caught:
        plan(path)
    assert "data: {samples: FILE.npz}" in caught.value.hint
    made = plan(path, x={"shape": [49], "dtype": "float32"})
    assert {feeds["x"].shape for feeds in all_inputs(made)} == {(49,)}


def test_outputs_that_need_other_inputs_to_vary_get_them(tmp_path: Path) -> None:
    """The logarithm of the largest, cut at 4.5: only pixels are that large, and no constant says so."""
    nodes = [node("Abs", ["x"], ["a"]), node("Clip", ["a", "low"], ["p"]), node("Log", ["p"], ["y"])]
    made = model(nodes, [floats("x", 1, 4)], [floats("y", 1, 4)], {"low": np.array(100, np.float32)})
    found = plan(write(made, tmp_path / "m.onnx"))
    assert "pixels" in [entry["kind"] for entry in found["sets"]]


def test_a_model_without_inputs_has_one_set(tmp_path: Path) -> None:
    made = model([node("Neg", ["w"], ["y"])], [], [floats("y", 2)], {"w": np.ones(2, np.float32)})
    found = plan(write(made, tmp_path / "m.onnx"))
    assert (found["inputs"], len(found["sets"])) == ([], 1)


def test_inputs_that_cannot_be_made_up(tmp_path: Path) -> None:
    table = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    words = node("DictVectorizer", ["b"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "c"])
    made = model([words], [helper.make_value_info("b", table)], [floats("y", 1, 2)], domains=("ai.onnx.ml",))
    with pytest.raises(SourceError, match="input 'b' is of type map, which cannot be made up"):
        plan(write(made, tmp_path / "m.onnx"))


def test_a_sequence_is_a_list_of_arrays(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    made = plan(
        write(model([node("SequenceAt", ["s", "i"], ["y"])], [sequence, ints("i")], [floats("y")]), tmp_path / "m.onnx")
    )
    entries = write_samples(made, str(tmp_path / "samples"), None, None)
    assert len(entries) >= 5
    stored = core.read_golden(tmp_path / "samples" / "00000.npz")[0]["inputs"]["s"]
    expected = all_inputs(made)[0]["s"]
    assert isinstance(stored, list)
    assert [item.tolist() for item in stored] == [item.tolist() for item in expected]


def test_a_model_that_the_runtime_cannot_load(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], [floats("x", 1)], [floats("y", 1)])
    made.opset_import[0].version = 999
    with pytest.raises(SourceError, match="ONNX Runtime cannot load the model") as caught:
        plan(write(made, tmp_path / "m.onnx"))
    assert "newer than this ONNX Runtime" in caught.value.hint


@pytest.mark.parametrize("name", ["mlp", "tokens", "branch"])
def test_the_same_seed_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    content = []
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / folder).mkdir()
        made = plan_of(name, tmp_path / folder, seed)
        write_samples(made, str(tmp_path / folder / "samples"), None, None)
        content.append({file.name: file.read_bytes() for file in (tmp_path / folder / "samples").iterdir()})
    assert content[0] == content[1]
    assert content[0] != content[2]


def test_samples_are_written_and_read_back_whatever_the_names(tmp_path: Path) -> None:
    odd = "a/b:0 %2F"
    made = plan(
        write(model([node("Relu", [odd], ["y"])], [floats(odd, "n", 2)], [floats("y", "n", 2)]), tmp_path / "m.onnx")
    )
    np.savez(tmp_path / "data.npz", **{odd: np.ones((5, 2), np.float32)})
    np.save(tmp_path / "labels.npy", np.arange(5))
    entries = write_samples(made, str(tmp_path / "s"), str(tmp_path / "data.npz"), str(tmp_path / "labels.npy"))
    assert [entry["origin"] for entry in entries] == ["data"] + ["seeded"] * len(made["sets"])
    [first] = core.read_golden(tmp_path / "s" / "00000.npz")
    assert first["inputs"][odd].tolist() == [[1, 1]] * 5
    assert first["labels"].tolist() == [0, 1, 2, 3, 4]
    [second] = core.read_golden(tmp_path / "s" / "00001.npz")
    assert second["labels"] is None
    assert np.array_equal(second["inputs"][odd], all_inputs(made)[0][odd])


def test_the_users_word_goes_before_the_graphs(tmp_path: Path) -> None:
    shutil.copy(MODELS / "tokens.onnx", tmp_path)
    made = plan(str(tmp_path / "tokens.onnx"), ids={"range": [2, 5], "shape": ["batch", 7]})
    ids = np.concatenate([feeds["ids"].reshape(-1) for feeds in all_inputs(made)])
    assert (ids.min(), ids.max()) == (2, 5)
    assert {feeds["ids"].shape[1] for feeds in all_inputs(made)} == {7}
    chosen = plan(str(tmp_path / "tokens.onnx"), ids={"values": [4, 9]})
    assert {value for feeds in all_inputs(chosen) for value in feeds["ids"].reshape(-1).tolist()} == {4, 9}
