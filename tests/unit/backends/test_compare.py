"""What diff reads of a model: weights by digest wherever they are stored, and a graph without names."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from artifactctl.backends.compare import describe_for_diff, weight_changes
from artifactctl.errors import SourceError
from tests.conftest import MODELS

from .small import floats, model, node, write

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)


def matmul(weight: TensorProto) -> ModelProto:
    made = model([node("MatMul", ["x", "w"], ["y"])], [floats("x", "n", 3)], [floats("y", "n", 4)])
    made.graph.initializer.append(weight)
    return made


def described(made: ModelProto, folder: Path, name: str = "m") -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return describe_for_diff(write(made, folder / f"{name}.onnx"))


def raw() -> TensorProto:
    return numpy_helper.from_array(WEIGHT, "w")


def typed() -> TensorProto:
    return helper.make_tensor("w", TensorProto.FLOAT, WEIGHT.shape, WEIGHT.reshape(-1).tolist())


def external(folder: Path, **entries: str) -> TensorProto:
    """Behind 4,096 other bytes, and before 10 more."""
    (folder / "w.bin").write_bytes(bytes(4096) + WEIGHT.tobytes() + b"afterwards")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=WEIGHT.shape, data_location=TensorProto.EXTERNAL)
    for key, value in ({"location": "w.bin", "offset": "4096", "length": "48"} | entries).items():
        if value:
            tensor.external_data.add(key=key, value=value)
    return tensor


def test_how_a_weight_is_stored_does_not_matter(tmp_path: Path) -> None:
    tensors = [raw(), typed(), external(tmp_path), external(tmp_path, length="")]
    found = [described(matmul(tensor), tmp_path) for tensor in tensors]
    for each in found:
        weight = each["weights"][0]
        assert weight["sha256"] == hashlib.sha256(WEIGHT.tobytes()).hexdigest()
        assert (weight["name"], weight["dtype"], weight["shape"]) == ("w", "float32", [3, 4])
        assert (each["content"], each["structure"]) == (found[0]["content"], found[0]["structure"])


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.BFLOAT16, TensorProto.FLOAT8E5M2])
def test_small_types_have_one_form(kind: int, tmp_path: Path) -> None:
    tensor = helper.make_tensor("w", kind, [5], [1, 0, 2, 0, 1])
    packed = numpy_helper.from_array(numpy_helper.to_array(tensor), "w")
    digests = []
    for each in (tensor, packed):
        made = model([node("Cast", ["w"], ["y"], to=1)], [], [floats("y", 5)])
        made.graph.initializer.append(each)
        digests.append(described(made, tmp_path)["weights"][0]["sha256"])
    assert digests[0] == digests[1]


def test_texts_do_not_run_together(tmp_path: Path) -> None:
    digests = set()
    for words in ([b"a\0b", b"c"], [b"a", b"b\0c"], [b"a", b"bc"]):
        made = model([node("Identity", ["w"], ["y"])], [], [floats("y", 2)])
        made.graph.initializer.append(helper.make_tensor("w", TensorProto.STRING, [2], words))
        digests.add(described(made, tmp_path)["weights"][0]["sha256"])
    assert len(digests) == 3


def test_a_constant_is_a_weight_and_no_operator(tmp_path: Path) -> None:
    made = matmul(raw())
    before = described(made, tmp_path)
    made.graph.node.insert(0, node("Constant", [], ["w"], value=made.graph.initializer.pop()))
    after = described(made, tmp_path)
    assert after["operators"] == before["operators"]
    assert after["content"] == before["content"]
    assert after["weights"] == [before["weights"][0] | {"stored": "constant"}]


@pytest.mark.parametrize(
    ("attribute", "value", "dtype", "shape"),
    [
        ("value_float", 1.5, "float32", []), ("value_floats", [1.5, 2], "float32", [2]), ("value_int", 3, "int64", []),
        ("value_ints", [3], "int64", [1]), ("value_string", "a", "string", []), ("value_strings", ["a"], "string", [1]),
    ],
)  # fmt: skip
def test_constants_of_plain_numbers(attribute: str, value: Any, dtype: str, shape: list[int], tmp_path: Path) -> None:
    made = model([node("Constant", [], ["c"], **{attribute: value}), node("Identity", ["c"], ["y"])], [], [floats("y")])
    found = described(made, tmp_path)
    assert [(each["name"], each["dtype"], each["shape"]) for each in found["weights"]] == [("c", dtype, shape)]
    assert found["operators"] == [{"domain": "ai.onnx", "operator": "Identity", "count": 1}]


def test_weights_of_branches_have_names_of_their_own(tmp_path: Path) -> None:
    bodies = {}
    for side, number in (("then_branch", 1.0), ("else_branch", 2.0)):
        weight = numpy_helper.from_array(np.array([number], np.float32), "c")
        body = [node("Add", ["x", "c"], [f"{side}_y"])]
        bodies[side] = helper.make_graph(body, side, [], [floats(f"{side}_y", 1)], [weight])
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    made = model([node("If", ["flag"], ["y"], name="choose", **bodies)], [flag, floats("x", 1)], [floats("y", 1)])
    names = sorted(each["name"] for each in described(made, tmp_path)["weights"])
    assert names == ["choose.else_branch/c", "choose.then_branch/c"]


def test_the_structure_knows_no_weights_and_the_content_does(tmp_path: Path) -> None:
    one, other = matmul(raw()), matmul(numpy_helper.from_array(WEIGHT + 1, "w"))
    found = [described(made, tmp_path) for made in (one, other)]
    assert found[0]["structure"] == found[1]["structure"]
    assert found[0]["content"] != found[1]["content"]
    other.graph.node[0].op_type = "Gemm"
    assert described(other, tmp_path)["structure"] != found[0]["structure"]


def test_a_domain_that_no_node_uses_is_no_opset(tmp_path: Path) -> None:
    made = matmul(raw())
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    assert described(made, tmp_path)["opsets"] == {"ai.onnx": 18}


@pytest.mark.parametrize("name", ["mlp", "cnn", "branch", "tokens"])
def test_another_process_finds_the_same(name: str, tmp_path: Path) -> None:
    path = MODELS / f"{name}.onnx"
    code = (
        f"import json; from artifactctl.backends.compare import *; print(json.dumps(describe_for_diff({str(path)!r})))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=tmp_path, capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(answers) == 1


def changes(before: np.ndarray, after: np.ndarray, folder: Path) -> dict[str, Any]:
    paths = []
    for name, array in (("a", before), ("b", after)):
        made = model([node("Identity", ["w"], ["y"])], [], [floats("y")])
        made.graph.initializer.append(numpy_helper.from_array(array, "w"))
        paths.append(write(made, folder / f"{name}.onnx"))
    return weight_changes(*paths, ["w"])["w"]


def test_one_bit(tmp_path: Path) -> None:
    other = WEIGHT.copy()
    other[2, 3] = np.nextafter(other[2, 3], np.float32(99))
    found = changes(WEIGHT, other, tmp_path)
    step = float(other[2, 3]) - 11.0
    assert found == {"elements_changed": 1, "max_abs": step, "max_rel": pytest.approx(step / 11)}


def test_rounded_to_half_precision(tmp_path: Path) -> None:
    array = np.linspace(0, 1, 700_001, dtype=np.float32)  # several blocks
    found = changes(array, array.astype(np.float16), tmp_path)
    assert found["max_abs"] == float(np.abs(array.astype(np.float16).astype(np.float64) - array).max())
    assert found["elements_changed"] == int((array.astype(np.float16) != array).sum())


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_has_no_distance(odd: float, tmp_path: Path) -> None:
    other = WEIGHT.copy()
    other[0, 0] = odd
    assert changes(WEIGHT, other, tmp_path) == {"elements_changed": 1, "max_abs": None, "max_rel": None}
    moved = other.copy()
    moved[0, 1] += 2
    assert changes(other, moved, tmp_path) == {"elements_changed": 1, "max_abs": 2.0, "max_rel": pytest.approx(2 / 11)}


def test_from_zero_nothing_is_relative(tmp_path: Path) -> None:
    found = changes(np.zeros(3, np.float32), np.ones(3, np.float32), tmp_path)
    assert found == {"elements_changed": 3, "max_abs": 1.0, "max_rel": None}


def test_external_data_is_compared_block_by_block(tmp_path: Path) -> None:
    one = write(matmul(external(tmp_path)), tmp_path / "a.onnx")
    other = write(matmul(numpy_helper.from_array(WEIGHT + np.float32(0.5), "w")), tmp_path / "b.onnx")
    assert weight_changes(one, other, ["w"])["w"]["max_abs"] == 0.5


def short_raw(_: Path) -> TensorProto:
    tensor = raw()
    tensor.raw_data = tensor.raw_data[:-4]
    return tensor


def short_list(_: Path) -> TensorProto:
    tensor = typed()
    tensor.float_data.pop()
    return tensor


def short_entry(folder: Path) -> TensorProto:
    return external(folder, length="40")


def beyond_the_end(folder: Path) -> TensorProto:
    return external(folder, offset="4200")


@pytest.mark.parametrize("make", [short_raw, short_list, short_entry, beyond_the_end])
def test_a_weight_that_is_not_whole_is_damage(make: Callable[[Path], TensorProto], tmp_path: Path) -> None:
    path = write(matmul(make(tmp_path)), tmp_path / "m.onnx")
    with pytest.raises(SourceError) as caught:
        describe_for_diff(path)
    assert caught.value.hint


def test_external_data_that_is_missing(tmp_path: Path) -> None:
    path = write(matmul(external(tmp_path)), tmp_path / "m.onnx")
    (tmp_path / "w.bin").unlink()
    with pytest.raises(SourceError, match=r"its external data 'w.bin' is missing"):
        describe_for_diff(path)


def test_every_real_model_of_the_folder_can_be_described() -> None:
    for path in sorted(MODELS.glob("*.onnx")):
        found = describe_for_diff(str(path))
        assert found["parameters"] == sum(int(np.prod(each["shape"])) for each in found["weights"])
        assert onnx.load_model(str(path)).ir_version == found["ir_version"]
