"""diff: what changed between two models, of real files and of artifacts that were really built."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from artifactctl import folder, schema
from tests.conftest import MODELS, Finished, run_cli
from tests.flow.refusal import refused

Cli = Callable[..., Finished]
Edit = Callable[[ModelProto], None]


def read(name: str = "mlp") -> ModelProto:
    return onnx.load_model(str(MODELS / f"{name}.onnx"))


def write(made: ModelProto, path: Path) -> Path:
    path.write_bytes(made.SerializeToString(deterministic=True))
    return path


def compared(cli: Cli, before: object, after: object, **options: Any) -> dict[str, Any]:
    done = cli("diff", before, after, "--json", **options)
    assert done.code == 0, done.err
    assert schema.problems(done.json, "report") == []
    data: dict[str, Any] = done.json["data"]
    return data


def weight(made: ModelProto, name: str) -> TensorProto:
    return next(tensor for tensor in made.graph.initializer if tensor.name == name)


def replace(made: ModelProto, name: str, array: np.ndarray) -> None:
    weight(made, name).CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))


def one_bit(made: ModelProto) -> None:
    tensor = weight(made, "w1")
    tensor.raw_data = bytes([tensor.raw_data[0] ^ 1]) + tensor.raw_data[1:]


def transpose(made: ModelProto) -> None:
    replace(made, "w1", numpy_helper.to_array(weight(made, "w1")).T)
    made.graph.node[0].attribute.append(helper.make_attribute("transB", 1))


def rename(made: ModelProto) -> None:
    weight(made, "w1").name = "first"
    made.graph.node[0].input[1] = "first"


def add_node(made: ModelProto) -> None:
    made.graph.node[-1].output[0] = "before"
    made.graph.node.append(helper.make_node("Softmax", ["before"], ["y"]))


def opset(made: ModelProto) -> None:
    made.opset_import[0].version = 19


def to_constant(made: ModelProto) -> None:
    tensor = made.graph.initializer.pop(0)
    made.graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))


def reorder(made: ModelProto) -> None:
    weights = list(made.graph.initializer)
    del made.graph.initializer[:]
    made.graph.initializer.extend(reversed(weights))


def half_output(made: ModelProto) -> None:
    made.graph.node[-1].output[0] = "full"
    made.graph.node.append(helper.make_node("Cast", ["full"], ["y"], to=TensorProto.FLOAT16))
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16


@pytest.mark.parametrize(
    ("edit", "equal", "summary"),
    [
        (lambda made: None, "bytes", "the same model: 3 operators, 4 weights, equal bytes"),
        (reorder, "model", "the same model: 3 operators, 4 weights, equal graph and weights; the bytes differ"),
        (rename, "model", "equal graph and weights; the bytes differ (1 weight renamed)"),
        (to_constant, "model", "equal graph and weights; the bytes differ (1 weight stored otherwise)"),
        (one_bit, "graph", "the same graph of 3 operators; the weights differ: 3 of 4 weights kept"),
        (opset, "graph", "the same graph of 3 operators; the same weights; other opset"),
        (transpose, "nothing", "another graph: 3 → 3 operators; 3 of 4 weights kept"),
        (add_node, "nothing", "another graph: 3 → 4 operators; 4 of 4 weights kept"),
    ],
    ids=["nothing", "reorder", "rename", "to_constant", "one_bit", "opset", "transpose", "add_node"],
)
def test_how_much_is_equal(edit: Edit, equal: str, summary: str, cli: Cli, tmp_path: Path) -> None:
    made = read()
    edit(made)
    data = compared(cli, MODELS / "mlp.onnx", write(made, tmp_path / "other.onnx"))
    assert (data["equal"], data["same"], data["breaking"]) == (equal, equal in ("bytes", "model"), False)
    assert summary in data["summary"]
    back = compared(cli, tmp_path / "other.onnx", MODELS / "mlp.onnx")
    assert back["equal"] == equal


def test_a_single_bit_is_found(cli: Cli, tmp_path: Path) -> None:
    made = read()
    one_bit(made)
    [change] = compared(cli, MODELS / "mlp.onnx", write(made, tmp_path / "b.onnx"))["weights"]["changed"]
    assert (change["name"], change["elements_changed"]) == ("w1", 1)
    assert 0 < change["max_abs"] < 1e-6
    assert change["before"]["sha256"] != change["after"]["sha256"]


def test_equal_weights_at_other_places_are_not_the_same_model(cli: Cli, tmp_path: Path) -> None:
    paths = []
    for names in (("p", "q"), ("q", "p")):
        made = read()
        for name, number in (("p", 1), ("q", 2)):
            made.graph.initializer.append(numpy_helper.from_array(np.full(4, number, np.float32), name))
        made.graph.node[-1].output[0] = "h0"
        made.graph.node.append(helper.make_node("Add", ["h0", names[0]], ["h1"]))
        made.graph.node.append(helper.make_node("Add", ["h1", names[1]], ["y"]))
        paths.append(write(made, tmp_path / f"{names[0]}.onnx"))
    data = compared(cli, *paths)
    assert (data["same"], data["equal"], data["weights"]["same"]) == (False, "graph", 6)
    assert data["summary"] == "the same graph of 5 operators; the same weights, at other places"


def test_breaking_changes_come_first(cli: Cli, tmp_path: Path) -> None:
    made = read()
    half_output(made)
    path = write(made, tmp_path / "half.onnx")
    data = compared(cli, MODELS / "mlp.onnx", path)
    assert data["breaking"]
    [change] = data["outputs"]
    assert (change["before"]["dtype"], change["after"]["dtype"], change["breaking"]) == ("float32", "float16", True)
    text = cli("diff", MODELS / "mlp.onnx", path).out
    assert text.startswith("BREAKING  output y: float32 [batch, 4] → float16 [batch, 4]\n")
    notes = cli("diff", MODELS / "mlp.onnx", path, "--markdown").out
    assert notes.splitlines()[2] == "**Breaking:** 1 change of inputs and outputs, see below."


def test_half_precision(cli: Cli, tmp_path: Path) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    path = write(convert_float_to_float16(read(), keep_io_types=True), tmp_path / "half.onnx")
    data = compared(cli, MODELS / "mlp.onnx", path)
    assert not data["breaking"]
    assert [change["name"] for change in data["weights"]["changed"]]
    for change in data["weights"]["changed"]:
        assert (change["before"]["dtype"], change["after"]["dtype"], change["compared"]) == ("float32", "float16", True)
        assert 0 < change["max_rel"] < 1e-3
    assert {"section": "model", "what": "precision", "before": "fp32", "after": "fp16"} in data["changes"]


def test_int8(cli: Cli, tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(str(MODELS / "mlp.onnx"), str(tmp_path / "int8.onnx"))
    data = compared(cli, MODELS / "mlp.onnx", tmp_path / "int8.onnx")
    kinds = {change["operator"]: (change["before"], change["after"]) for change in data["operators"]}
    assert kinds["MatMulInteger"] == (0, 2)
    assert kinds["Gemm"] == (2, 0)
    assert {"w1", "w2"} <= {entry["name"] for entry in data["weights"]["removed"]}
    assert {"section": "model", "what": "precision", "before": "fp32", "after": "int8"} in data["changes"]


def test_external_data(cli: Cli, tmp_path: Path) -> None:
    made = read()
    path = tmp_path / "apart.onnx"
    onnx.save_model(made, str(path), save_as_external_data=True, location="apart.bin", size_threshold=0)
    data = compared(cli, MODELS / "mlp.onnx", path)
    assert (data["equal"], data["weights"]["same"]) == ("model", 4)
    (tmp_path / "copy").mkdir()
    for name in ("apart.onnx", "apart.bin"):
        shutil.copy(tmp_path / name, tmp_path / "copy")
    assert compared(cli, path, tmp_path / "copy" / "apart.onnx")["equal"] == "bytes"
    content = bytearray((tmp_path / "apart.bin").read_bytes())
    content[0] ^= 1
    (tmp_path / "copy" / "apart.bin").write_bytes(content)
    data = compared(cli, path, tmp_path / "copy" / "apart.onnx")
    assert (data["equal"], len(data["weights"]["changed"])) == ("graph", 1)
    (tmp_path / "apart.bin").unlink()
    refused(cli("diff", MODELS / "mlp.onnx", path, "--json"), 4, "apart.bin", "is missing")


def test_models_with_nothing_in_common(cli: Cli) -> None:
    data = compared(cli, MODELS / "mlp.onnx", MODELS / "cnn.onnx")
    assert (data["in_common"], data["same"], data["breaking"]) == (False, False, True)
    assert data["summary"].startswith("nothing in common")


def test_real_models(cli: Cli, real_model: Callable[[str], Path]) -> None:
    for name in ("silero_vad", "mtcnn_onet"):
        data = compared(cli, real_model(name), real_model(name))
        assert data["equal"] == "bytes"
        assert data["weights"]["same"] == data["weights"]["before"] > 10
    data = compared(cli, real_model("silero_vad"), real_model("mtcnn_onet"))
    assert not data["same"]


def test_long_lists_are_cut_for_people_and_whole_for_machines(cli: Cli, tmp_path: Path) -> None:
    made = read()
    for number in range(30):
        made.graph.initializer.append(numpy_helper.from_array(np.full(2, number, np.float32), f"extra{number:02}"))
    path = write(made, tmp_path / "many.onnx")
    assert len(compared(cli, MODELS / "mlp.onnx", path)["weights"]["added"]) == 30
    for more in ((), ("--markdown",)):
        text = cli("diff", MODELS / "mlp.onnx", path, *more).out
        assert "… and 10 more" in text
        assert "extra19" in text
        assert "extra20" not in text


@pytest.mark.parametrize("place", [0, 1])
def test_bad_input(cli: Cli, tmp_path: Path, artifact: Path, place: int) -> None:
    def ask(bad: Path) -> Finished:
        pair = [MODELS / "mlp.onnx", bad] if place else [bad, MODELS / "mlp.onnx"]
        return cli("diff", *pair, "--json")

    (tmp_path / "text.onnx").write_text("hello, this is text\n")
    refused(ask(tmp_path / "text.onnx"), 4, "text.onnx")
    refused(ask(tmp_path / "nothing.onnx"), 4, "nothing.onnx", "does not exist")
    (tmp_path / "empty").mkdir()
    refused(ask(tmp_path / "empty"), 10, "is not an artifact")
    (artifact / folder.MODEL).write_bytes(b"other")
    refused(ask(artifact), 10, "model_opt.onnx was changed")


def test_two_models_are_needed(cli: Cli) -> None:
    refused(cli("diff", MODELS / "mlp.onnx", "--json"), 2, "'B'")


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions of a dense model: as fp32 and, under another bound, as int8."""
    place = tmp_path_factory.mktemp("releases")
    rng = np.random.default_rng(4)
    names = ["w1", "w2"]
    stored = [numpy_helper.from_array(rng.standard_normal((1024, 1024), dtype=np.float32) / 32, name) for name in names]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("MatMul", ["h", "w2"], ["y"])]
    nodes.append(helper.make_node("Exp", ["h"], ["unused"]))  # what fp32 takes out
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 1024]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "dense", values[:1], values[1:], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    write(made, place / "dense.onnx")
    for recipe, bound in (("fp32", {}), ("int8-dynamic", {"max_abs": None, "min_cosine": 0.9})):
        model = {"source": {"onnx": "dense.onnx"}, "optimize": {"recipes": [recipe]}, "equivalence": bound}
        model["latency"] = {"budget_s": 5, "max_regression": "900%"}
        text = json.dumps({"schema_version": 1, "models": {"dense": model}})
        (place / "artifactctl.yaml").write_text(text)
        done = run_cli("build", "dense", "--json", cwd=place)
        assert done.code == 0, done.err
        assert done.json["data"]["artifacts"][0]["recipe"] == recipe
    return place / "artifacts" / "dense"


def test_two_releases(cli: Cli, releases: Path) -> None:
    one, other = releases / "artifact_v1", releases / "artifact_v2"
    data = compared(cli, one, other)
    rows = {(change["section"], change["what"]): (change["before"], change["after"]) for change in data["changes"]}
    assert rows["model", "precision"] == ("fp32", "int8")
    assert rows["recipe", "recipe"] == ("fp32", "int8-dynamic")
    assert rows["proof", "statement"] == ("max_abs ≤ 0.001 · max(1, |r|)", "min_cosine ≥ 0.9")
    before, after = rows["model", "size_bytes"]
    assert after < before / 2
    assert (data["a"]["version"], data["b"]["version"]) == (1, 2)
    paired = data["latency"]["paired"]
    assert (paired["against"], paired["verdict"]) == ("artifact_v1", "not-slower")
    assert paired["ratio_low"] <= paired["ratio"] <= paired["ratio_high"]
    text = cli("diff", one, other).out
    assert "speed     not slower than artifact_v1 by more than 900.0%, proved" in text
    back = compared(cli, other, one)
    assert back["latency"]["paired"] is None
    assert "numbers of different runs are history" in cli("diff", other, one).out


def test_notes_of_a_release_do_not_depend_on_where_it_lies(cli: Cli, releases: Path, tmp_path: Path) -> None:
    notes = cli("diff", releases / "artifact_v1", releases / "artifact_v2", "--markdown").out
    moved = Path(shutil.copytree(releases, tmp_path / "elsewhere"))
    again = cli("diff", "elsewhere/artifact_v1", "elsewhere/artifact_v2", "--markdown", env={"PYTHONHASHSEED": "7"}).out
    assert notes == again
    assert notes.startswith("# dense artifact_v2\n\n")
    assert str(moved) not in again
    assert str(releases.parent) not in notes
    for title in ("Inputs and outputs", "Operators", "Weights", "Proof", "Speed", "Accuracy"):
        assert f"\n## {title}\n" in notes
    assert "| what | before | after |" in notes
    assert "Proved: `min_cosine ≥ 0.9`" in notes
