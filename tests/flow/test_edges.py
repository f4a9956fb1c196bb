"""Builds at the edge of what is usual."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
import yaml
from onnx import TensorProto, helper, numpy_helper

from artifactctl import schema
from tests.conftest import MODELS, Finished, clean_environment

Cli = Callable[..., Finished]


def metadata_of(done: Finished, place: Path) -> dict:
    assert done.code == 0, done.err
    return yaml.safe_load((place / done.json["data"]["artifacts"][0]["path"] / "metadata.yaml").read_text())


def test_external_data_is_shipped_whole(cli: Cli, tmp_path: Path) -> None:
    """Entries without a length are legal: what is shipped is proved again, and its validate.py agrees."""
    model = onnx.load(MODELS / "mlp.onnx")
    offset, content = 0, b""
    for tensor in model.graph.initializer:
        raw = numpy_helper.to_array(tensor).tobytes()
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="model.onnx")
        tensor.external_data.add(key="offset", value=str(offset))
        offset, content = offset + len(raw), content + raw
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "model.onnx").write_bytes(content)
    done = cli("build", "net.onnx", "--recipe", "fp16", "--json")
    metadata = metadata_of(done, tmp_path)
    assert {entry["path"] for entry in metadata["source"]["files"]} == {"net.onnx", "model.onnx"}
    validate = tmp_path / done.json["data"]["artifacts"][0]["path"] / "validate.py"
    checked = subprocess.run([sys.executable, validate], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_a_model_without_inputs(cli: Cli, tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.arange(4, dtype=np.float32), "c")
    nodes = [helper.make_node("Constant", [], ["k"], value=tensor), helper.make_node("Exp", ["k"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])]
    made = helper.make_model(
        helper.make_graph(nodes, "g", [], outputs), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    onnx.save(made, tmp_path / "fixed.onnx")
    assert metadata_of(cli("build", "fixed.onnx", "--json"), tmp_path)["equivalence"]["samples"] == 1


def test_a_sequence_as_an_input(cli: Cli, tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, ["n", 4])
    node = helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=0)
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", 4])]
    graph = helper.make_graph([node], "g", [sequence], outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(made, tmp_path / "joined.onnx")
    done = cli("build", "joined.onnx", "--json")
    assert metadata_of(done, tmp_path)["model"]["inputs"][0]["dtype"] == "sequence(float32)"
    artifact = tmp_path / done.json["data"]["artifacts"][0]["path"]
    assert cli("verify", artifact, "--reference", "joined.onnx").code == 0
    checked = subprocess.run([sys.executable, artifact / "validate.py"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_a_tight_bound_gets_session_settings_that_hold(cli: Cli, tmp_path: Path) -> None:
    """Folding batch norm alone moves the outputs by more: the level that holds is recorded and used."""
    shutil.copy(MODELS / "cnn.onnx", tmp_path)
    text = "schema_version: 1\nmodels:\n  cnn:\n    source: {onnx: cnn.onnx}\n"
    (tmp_path / "artifactctl.yaml").write_text(text + "    equivalence: {max_abs: 1e-12, absolute: true}\n")
    done = cli("build", "--json")
    metadata = metadata_of(done, tmp_path)
    assert metadata["session"]["graph_level"] != "all"
    assert metadata["recipe"]["name"] == "source"
    levels = metadata["reference"]["noise"]["levels"]
    assert [entry["held"] for entry in levels] == [False] * (len(levels) - 1) + [True]
    assert "at the default even the source leaves the bound: " in done.err
    found = metadata["latency"]["defaults"]
    assert found["against"] == "the source at ONNX Runtime's defaults"
    assert found["ratio_low"] <= found["ratio"] <= found["ratio_high"]
    assert done.json["data"]["artifacts"][0]["latency"]["defaults"] == found
    artifact = tmp_path / done.json["data"]["artifacts"][0]["path"]
    evidence = json.loads((artifact / "evidence/latency.cpu.json").read_text())
    assert schema.problems(evidence, "latency") == []
    assert evidence["defaults"]["ratio"] == found["ratio"]
    assert cli("check", artifact).code == 0


def test_links_are_read_where_they_lie_and_names_do_not_clash(cli: Cli, tmp_path: Path) -> None:
    for name in ("store", "work", "other"):
        (tmp_path / name).mkdir()
    shutil.copy(MODELS / "mlp.onnx", tmp_path / "store" / "net-2024.onnx")
    shutil.copy(MODELS / "tokens.onnx", tmp_path / "store" / "net.onnx")
    (tmp_path / "work" / "net.onnx").symlink_to("../store/net-2024.onnx")
    metadata = metadata_of(cli("build", "work/net.onnx", "--recipe", "fp32", "--json"), tmp_path)
    assert metadata["model"]["inputs"][0]["name"] == "x"
    clash = cli("build", "work/net.onnx", "store/net.onnx", "--json")
    assert clash.code == 3
    assert "both be called 'net'" in clash.json["error"]["message"]


def test_inputs_of_an_older_version_give_no_new_one(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    for recipe, version in (("fp32", 1), ("fp16", 2)):
        done = cli("build", "mlp.onnx", "--recipe", recipe, "--json")
        assert done.json["data"]["artifacts"][0]["version"] == version
    again = cli("build", "mlp.onnx", "--recipe", "fp32", "--json").json["data"]["artifacts"][0]
    assert (again["status"], again["version"]) == ("unchanged", 1)


def test_one_bad_model_does_not_stop_the_others(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_text("no model")
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    done = cli("build", "bad.onnx", "mlp.onnx", "--recipe", "fp32", "--json")
    assert done.code == 4
    assert [entry["model"] for entry in done.json["data"]["artifacts"]] == ["mlp"]
    assert done.json["data"]["failed"] == [{"model": "bad", "error": "SourceError"}]


def test_the_exit_code_does_not_depend_on_the_reader(artifact: Path) -> None:
    (artifact / "README.md").write_text("edited")
    command = [sys.executable, "-m", "artifactctl", "verify", artifact, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment())
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=120) == 10


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return Path.touch, (self.path,)  # type: ignore[return-value]


def test_a_program_runs_no_code_of_its_own(cli: Cli, tmp_path: Path) -> None:
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.rand(2, 4),)), tmp_path / "good.pt2")
    sprung = tmp_path / "sprung"
    with zipfile.ZipFile(tmp_path / "good.pt2") as good, zipfile.ZipFile(tmp_path / "evil.pt2", "w") as evil:
        changed = [name for name in good.namelist() if "sample_inputs" in name]
        assert changed
        for name in good.namelist():
            evil.writestr(name, pickle.dumps(Trap(sprung)) if name in changed else good.read(name))
    done = cli("build", "evil.pt2", "--json")
    assert done.code == 4
    assert not sprung.exists()


def test_files_that_a_factory_opens_by_itself_are_part_of_the_source(cli: Cli, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    (tmp_path / "net.py").write_text(
        "import pathlib, torch\nfrom safetensors.torch import load_file\n"
        "def build():\n    model = torch.nn.Linear(4, 2)\n"
        "    model.load_state_dict(load_file(pathlib.Path(__file__).parent / 'weights.safetensors'))\n"
        "    return model\n"
    )
    text = "schema_version: 1\nmodels:\n  net:\n    optimize: {recipes: [fp16]}\n    source:\n"
    text += "      torch: net.py:build\n      inputs: {x: {shape: [batch, 4]}}\n"
    (tmp_path / "artifactctl.yaml").write_text(text)
    weights = tmp_path / "weights.safetensors"
    save_file(torch.nn.Linear(4, 2).state_dict(), weights)
    metadata = metadata_of(cli("build", "--json"), tmp_path)
    assert weights.name in {entry["path"] for entry in metadata["source"]["files"]}
    save_file(torch.nn.Linear(4, 2).state_dict(), weights)
    assert cli("build", "--json").json["data"]["artifacts"][0]["version"] == 2


def test_a_factory_that_asks_a_question_gets_no_answer(cli: Cli, tmp_path: Path) -> None:
    """The child's own pipe is not the user code's stdin: it must neither hang nor eat requests."""
    (tmp_path / "net.py").write_text("def build():\n    return input('which size? ')\n")
    text = "schema_version: 1\nmodels:\n  net:\n    source:\n      torch: net.py:build\n"
    (tmp_path / "artifactctl.yaml").write_text(text + "      inputs: {x: {shape: [batch, 4]}}\n")
    done = cli("build", "--json")
    assert done.code == 4
    assert "EOFError" in done.json["error"]["message"]
    assert "net.py:2 in build" in done.json["error"]["message"]
