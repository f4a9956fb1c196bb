"""profile: where the time goes, of real models. No test looks at how long anything took."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from artifactctl import schema
from tests.conftest import MODELS, Finished
from tests.flow.refusal import refused

Cli = Callable[..., Finished]


def profiled(done: Finished, folder: Path) -> dict[str, Any]:
    """What holds of every profile: schema, shares, whole traces that hold every run."""
    assert done.code == 0, done.err
    assert schema.problems(done.json, "report") == []
    data: dict[str, Any] = done.json["data"]
    for side in filter(None, (data["candidate"], data["baseline"])):
        for kind in ("operators", "nodes"):
            assert sum(entry["share"] for entry in side[kind]) == pytest.approx(1)
            times = [entry["time_us"] for entry in side[kind]]
            assert times == sorted(times, reverse=True)
            assert sum(times) == pytest.approx(side["nodes_us"])
        assert 0 <= side["outside_share"] <= 1
        events = json.loads((folder / side["trace"]).read_text())
        assert sum(event["name"] == "model_run" for event in events) == side["runs"] + side["warm_up_runs"]
    return data


def test_convolutions(cli: Cli, tmp_path: Path, real_model: Callable[[str], Path]) -> None:
    side = profiled(cli("profile", real_model("mtcnn_onet"), "--runs", 5, "--json"), tmp_path)["candidate"]
    assert {"Conv", "FusedConv"} & {entry["operator"] for entry in side["operators"]}
    assert side["runs"] == 5
    assert side["trace"] == "profiles/mtcnn_onet.candidate.json"
    assert {node["provider"] for node in side["nodes"]} == {"CPUExecutionProvider"}
    assert all(node["outputs"] and node["calls"] == 1 and node["inside"] == [] for node in side["nodes"])


def test_control_flow_is_counted_once(cli: Cli, tmp_path: Path, real_model: Callable[[str], Path]) -> None:
    """Of a single run the parts add up exactly: the nodes and what is outside of them to the run, bodies to nodes."""
    side = profiled(cli("profile", real_model("silero_vad"), "--runs", 1, "--json"), tmp_path)["candidate"]
    inside = [node for node in side["nodes"] if node["inside"]]
    assert max(len(node["inside"]) for node in inside) >= 2
    bodies = {node["inside"][-1] for node in inside}
    assert bodies == {node["name"] for node in side["nodes"] if node["operator"] == "If"}
    assert side["nodes_us"] + side["outside_us"] == side["run_us"]
    assert side["nodes_us"] == sum(node["with_body_us"] for node in side["nodes"] if not node["inside"])
    for name in bodies:
        (around,) = (node for node in side["nodes"] if node["name"] == name)
        body = sum(node["with_body_us"] for node in inside if node["inside"][-1] == name)
        assert around["time_us"] == around["with_body_us"] - body


def test_text_and_kept_traces(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "branch.onnx", tmp_path)
    first = cli("profile", "branch.onnx")
    assert first.code == 0, first.err
    lines = first.out.splitlines()
    assert lines[0].split() == ["operator", "time", "share", "calls", "nodes", "provider"]
    assert any(line.startswith("node ") and line.endswith("shapes") for line in lines)
    assert "profiles/branch.candidate.json" in first.out
    assert "chrome://tracing" in first.out
    assert "on this machine" in first.out
    before = (tmp_path / "profiles/branch.candidate.json").read_bytes()
    assert "profiles/branch.candidate.2.json" in cli("profile", "branch.onnx", "--runs", 1).out
    assert (tmp_path / "profiles/branch.candidate.json").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "profiles").iterdir()) == [
        "branch.candidate.2.json",
        "branch.candidate.json",
    ]


def test_equal_models_have_equal_nodes(cli: Cli, tmp_path: Path) -> None:
    model = MODELS / "cnn.onnx"
    done = cli("profile", model, "--against", model, "--runs", 3, "--output", "kept/here", "--json")
    data = profiled(done, tmp_path)
    names = [{(*node["inside"], node["name"]) for node in data[side]["nodes"]} for side in ("candidate", "baseline")]
    assert names[0] == names[1]
    assert {change["status"] for part in data["changes"].values() for change in part} == {"both"}
    for part in data["changes"].values():
        sizes = [abs(change["change_us"]) for change in part]
        assert sizes == sorted(sizes, reverse=True)
    assert (tmp_path / "kept/here/cnn.candidate.json").is_file()
    assert (tmp_path / "kept/here/cnn.baseline.json").is_file()


def save(path: Path, nodes: list[Any], element: int = TensorProto.FLOAT, name: str = "x") -> Path:
    x, y = (helper.make_tensor_value_info(one, element, [1, 4]) for one in (name, "y"))
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def test_nodes_of_one_side_only(cli: Cli, tmp_path: Path) -> None:
    one = [helper.make_node("Sin", ["x"], ["m"], name="shared"), helper.make_node("Abs", ["m"], ["y"], name="gone")]
    two = [helper.make_node("Sin", ["x"], ["m"], name="shared"), helper.make_node("Cos", ["m"], ["y"], name="here")]
    baseline, candidate = save(tmp_path / "one.onnx", one), save(tmp_path / "two.onnx", two)
    done = cli("profile", candidate, "--against", baseline, "--runs", 3, "--json")
    changes = profiled(done, tmp_path)["changes"]
    assert {entry["name"]: entry["status"] for entry in changes["nodes"]} == {
        "shared": "both", "gone": "removed", "here": "added",
    }  # fmt: skip
    assert {entry["operator"]: entry["status"] for entry in changes["operators"]} == {
        "Sin": "both", "Abs": "removed", "Cos": "added",
    }  # fmt: skip
    assert "removed" in done.err


def test_a_name_that_json_must_escape(cli: Cli, tmp_path: Path) -> None:
    name = 'a "quoted"\\\n\tname'
    model = save(tmp_path / "odd.onnx", [helper.make_node("Sin", ["x"], ["y"], name=name)])
    side = profiled(cli("profile", model, "--runs", 2, "--json"), tmp_path)["candidate"]
    assert [node["name"] for node in side["nodes"]] == [name]


@pytest.mark.xdist_group("built")
def test_artifact_against_its_source(cli: Cli, tmp_path: Path, artifact: Path) -> None:
    before = sorted(artifact.rglob("*"))
    done = cli("profile", artifact, "--against", MODELS / "mlp.onnx", "--provider", "cpu", "--json")
    data = profiled(done, tmp_path)
    assert data["inputs"].startswith("the first sample of golden.npz")
    assert (data["provider"], data["candidate"]["model"], data["baseline"]["model"]) == ("cpu", "mlp", "mlp")
    assert sorted(artifact.rglob("*")) == before
    (artifact / "golden.npz").write_bytes(b"")
    refused(cli("profile", artifact, "--json"), 10, "golden.npz")
    refused(cli("profile", MODELS / "mlp.onnx", "--against", artifact, "--json"), 10, "golden.npz")


def test_other_inputs_are_not_comparable(cli: Cli, tmp_path: Path) -> None:
    done = cli("profile", MODELS / "mlp.onnx", "--against", MODELS / "tokens.onnx", "--json")
    refused(done, 9, "mlp.onnx takes x", "tokens.onnx takes ids", "int64")
    assert list(tmp_path.iterdir()) == []
    wide = save(tmp_path / "wide.onnx", [helper.make_node("Sin", ["x"], ["y"])])
    refused(cli("profile", wide, "--against", MODELS / "mlp.onnx", "--json"), 4, "mlp.onnx cannot be run")


def test_bad_input(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.onnx").write_text("not a model")
    (tmp_path / "empty").mkdir()
    model = MODELS / "mlp.onnx"
    refused(cli("profile", "none.onnx", "--json"), 4, "none.onnx does not exist")
    refused(cli("profile", model, "--against", "none.onnx", "--json"), 4, "none.onnx does not exist")
    refused(cli("profile", "notes.onnx", "--json"), 4, "notes.onnx")
    refused(cli("profile", "empty", "--json"), 10, "empty is not an artifact")
    refused(cli("profile", model, "--output", "notes.onnx", "--json"), 2, "notes.onnx")
    refused(cli("profile", model, "--runs", 0, "--json"), 2, "--runs")
    refused(cli("profile", model, "--provider", "qnn", "--json"), 9, "qnn is not available here")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "notes.onnx"]


def test_a_folder_that_cannot_be_made(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(cli("profile", MODELS / "mlp.onnx", "--runs", 1, "--output", "file/inside", "--json"), 9)
    assert (tmp_path / "file").read_text() == ""


def test_a_model_that_refuses_every_input(cli: Cli, tmp_path: Path) -> None:
    """An operator that this ONNX Runtime does not have."""
    model = save(tmp_path / "own.onnx", [helper.make_node("Sin", ["x"], ["y"], domain="nobody")])
    refused(cli("profile", model, "--json"), 4)
    assert [path.name for path in tmp_path.iterdir()] == ["own.onnx"]
