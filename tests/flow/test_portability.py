"""Where a model runs: promised, refused, recorded, shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import yaml
from onnx import TensorProto, helper, numpy_helper

from artifactctl import metadata, schema
from artifactctl.crew import Crew
from artifactctl.portability import portability_warnings
from artifactctl.project import ModelConfig, Source
from artifactctl.records import Candidate, ReferenceModel, Session, SourceModel
from artifactctl.steps.portable import hold, look, look_at_proved
from tests.conftest import MODELS, Finished


def configure(place: Path, **optimize: Any) -> None:
    shutil.copy(MODELS / "cnn.onnx", place)
    model = {"source": {"onnx": "cnn.onnx"}, "optimize": optimize, "latency": {"budget_s": 1}}
    (place / "artifactctl.yaml").write_text(yaml.safe_dump({"schema_version": 1, "models": {"cnn": model}}))


def olive(place: Path, name: str, **config: Any) -> dict[str, str]:
    (place / name).write_text(json.dumps({"passes": {"p": config}}))
    return {"olive": name}


def test_a_candidate_that_breaks_the_promise_is_rejected(cli: Callable[..., Finished], tmp_path: Path) -> None:
    newer = olive(tmp_path, "newer.json", type="OnnxOpVersionConversion", target_opset=23)
    configure(tmp_path, recipes=["fp32", newer], min_runtime="1.18")
    done = cli("build", "--json")
    assert done.code == 0, done.err
    found = {entry["recipe"]: entry for entry in done.json["data"]["artifacts"][0]["candidates"]}
    refused = found["olive:newer.json"]
    assert refused["status"] == "rejected"
    assert refused["reason"].startswith("needs ONNX Runtime 1.23 for ")
    assert refused["reason"].endswith("and optimize.min_runtime is 1.18")
    assert "min_runtime" not in found["fp32"]["reason"]
    recorded = metadata.read(tmp_path / "artifacts/cnn/artifact_v1")
    assert recorded["model"]["min_runtime"] == "1.18"
    assert recorded["model"]["saturation"] == []
    card = (tmp_path / "artifacts/cnn/artifact_v1/README.md").read_text()
    assert f"| portability | {recorded['model']['portability']}, ONNX Runtime 1.18 or later |" in card


def test_a_source_that_breaks_the_promise_is_refused(cli: Callable[..., Finished], tmp_path: Path) -> None:
    configure(tmp_path, recipes=["fp32"], min_runtime="1.17")
    done = cli("build", "--json")
    assert done.code == 4
    assert "needs ONNX Runtime 1.18 for IR 10, and optimize.min_runtime is 1.17" in done.json["error"]["message"]
    assert "min_runtime" in done.json["error"]["hint"]


def test_a_promise_is_a_version_in_quotes(cli: Callable[..., Finished], tmp_path: Path) -> None:
    for value, words in ((1.2, "in quotes"), ("latest", "in quotes"), ("1.2", "older than 1.15")):
        configure(tmp_path, min_runtime=value)
        done = cli("check", "--json")
        assert done.code == 3
        assert words in done.out


def laid_out(place: Path) -> Path:
    """cnn.onnx as ONNX Runtime saves it with every optimization: for the CPU that it runs on."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(place / "tied.onnx")
    onnxruntime.InferenceSession(MODELS / "cnn.onnx", options, providers=["CPUExecutionProvider"])
    return place / "tied.onnx"


def reference(path: Path) -> ReferenceModel:
    source = SourceModel(ModelConfig("m", Source("onnx", path.name)), path.parent, path, ())
    session = Session("cpu", "CPUExecutionProvider", 1)
    return ReferenceModel(source, path, "f" * 64, 18, "fp32", 1, "onnx", {}, path.parent, session, {})


def test_no_recipe_of_ours_ties_a_model_to_a_cpu(tmp_path: Path) -> None:
    """What a user's own passes, or the source itself, tie to it is kept and said."""
    tied, plain = laid_out(tmp_path), MODELS / "cnn.onnx"
    assert any(node.domain == "com.microsoft.nchwc" for node in onnx.load(tied).graph.node)
    with Crew() as crew:
        refused = hold(reference(plain), Candidate("fp32", tied, "fp32", 1), crew)
        said = f"tied to this hardware: its graph is {look(tied, crew)['portability']}"
        assert (refused.path, refused.failure) == (None, said)
        assert look_at_proved(tied, crew)["portability"] in ("cpu:avx2", "cpu:avx512f", "cpu:neon")
        for origin, recipe, path in ((plain, "olive:x", tied), (tied, "fp32", tied), (plain, "fp32", plain)):
            candidate = Candidate(recipe, path, "fp32", 1)
            assert hold(reference(origin), candidate, crew) == candidate
        assert look(tied, crew)["min_runtime"] is None
    assert "laid out for one kind of CPU (avx2), and" in portability_warnings({"portability": "cpu:avx2"})[0]
    unclear = portability_warnings({"portability": "cpu:avx2-or-avx512f-or-neon"})[0]
    assert "(avx2, avx512f or neon, the file does not tell), and" in unclear
    assert "no other" in portability_warnings({"portability": "this-device"})[0]


def test_inspect_names_layers_that_may_saturate(cli: Callable[..., Finished], tmp_path: Path) -> None:
    weights = {"w": np.full((4, 6), 100, np.int8), "wz": np.array(0, np.int8)}
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["y"], name="dense"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [1, 6])
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "q.onnx").write_bytes(made.SerializeToString())
    found = cli("inspect", "q.onnx", "--json")
    assert schema.problems(found.json, "report") == []
    assert found.json["data"]["saturation"] == [{"layer": "dense", "operator": "MatMulInteger", "pairs": 12, "of": 12}]
    assert found.json["data"]["min_runtime"] == "1.15"
    shown = cli("inspect", "q.onnx").out
    assert "portability any, ONNX Runtime 1.15 or later" in shown
    assert "without VNNI" in shown
    assert "dense" in shown
