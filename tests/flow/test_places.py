"""A candidate is a recipe on a provider: a build where OpenVINO is allowed and there, and what it left, elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from artifactctl import schema
from tests.act import git
from tests.conftest import ROOT, Finished, run_cli

Cli = Callable[..., Finished]
pytestmark = pytest.mark.xdist_group("openvino")
CONFIG: dict[str, Any] = {
    "schema_version": 1,
    "models": {
        "resize": {
            "source": {"onnx": "resize.onnx"},
            "latency": {"budget_s": 20},
            "optimize": {"recipes": ["fp32"], "session": True, "budget_s": 60},
            "providers": ["cpu", "openvino"],
        }
    },
}


def cubic(path: Path) -> None:
    """ONNX Runtime's own kernel for it is some forty times slower than OpenVINO's. The recipe fp32 writes down what is
    expanded, which makes the file larger and no run faster: on the CPU it is refused for that."""
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    bias = numpy_helper.from_array(np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4, 1, 1), "bias")
    sizes = numpy_helper.from_array(np.array([1, 4, 64, 64], np.int64), "sizes")
    nodes = [
        helper.make_node("Resize", ["x", "", "scales"], ["larger"], mode="cubic"),
        helper.make_node("Expand", ["bias", "sizes"], ["wide"]),
        helper.make_node("Add", ["larger", "wide"], ["sum"]),
        helper.make_node("GlobalAveragePool", ["sum"], ["y"]),
    ]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 32, 32])]
    answers = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 1, 1])]
    graph = helper.make_graph(nodes, "resize", values, answers, [scales, bias, sizes])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.fixture(scope="module")
def there(
    provider_python: Callable[[str], Path], build_packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Built with OpenVINO's ONNX Runtime."""
    place = tmp_path_factory.mktemp("places")
    cubic(place / "resize.onnx")
    (place / "artifactctl.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(build_packages)])}
    done = run_cli("build", cwd=place, env=env, python=provider_python("openvino"))
    assert done.code == 0, done.err
    missing = "cpu, the same file, proved too; the best there is source: build --provider cpu"
    assert f"session   openvino, proved faster; where it is missing: {missing}" in done.out
    return place


def metadata(place: Path) -> Any:
    return yaml.safe_load((place / "artifacts/resize/artifact_v1/metadata.yaml").read_text(encoding="utf-8"))


def test_the_faster_provider_is_chosen_and_recorded(there: Path) -> None:
    found = metadata(there)
    assert schema.problems(found, "metadata") == []
    session = found["session"]
    assert (session["provider"], session["execution_provider"]) == ("openvino", "OpenVINOExecutionProvider")
    assert set(session["placement"]) == {"OpenVINOExecutionProvider"}
    assert session["fallback"]["provider"] == "cpu"
    assert session["fallback"]["samples"] == found["equivalence"]["samples"]
    best = session["fallback"]["best"]
    assert (found["recipe"]["name"], best["recipe"]) == ("fp32", "source")
    assert [entry["path"] for entry in best["files"]] == ["model_opt.onnx"]
    assert best["files"][0]["sha256"] == found["source"]["files"][0]["sha256"], "the source goes as it is"
    assert (best["max_error"] <= 1e-3, best["samples"]) == (True, found["equivalence"]["samples"])
    chosen = [entry for entry in found["recipe"]["candidates"] if entry["status"] == "chosen"]
    assert [entry["provider"] for entry in chosen] == ["openvino"]
    assert chosen[0]["latency"]["ratio_high"] < 1
    evidence = there / "artifacts/resize/artifact_v1/evidence"
    assert {path.name for path in evidence.iterdir()} == {"equivalence.json", "latency.openvino.json"}
    assert set(json.loads((evidence / "equivalence.json").read_text())["providers"]) == {"cpu", "openvino"}


def test_a_machine_without_it_falls_back_to_what_was_proved(there: Path, cli: Cli) -> None:
    artifact = there / "artifacts/resize/artifact_v1"
    script = [sys.executable, str(artifact / "validate.py"), "--json"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["provider"] == "cpu"
    found = cli("verify", str(artifact), "--json")
    assert found.code == 0, found.err
    assert found.json["data"]["provider"] == "cpu"
    assert cli("check", str(artifact)).code == 0
    named = cli("verify", str(artifact), "--provider", "openvino")
    assert named.code == 9
    assert "onnxruntime-openvino" in named.err


def test_the_same_file_on_the_machine_that_has_it(
    there: Path, provider_python: Callable[[str], Path], build_packages: Path
) -> None:
    words = [provider_python("openvino"), str(there / "artifacts/resize/artifact_v1/validate.py"), "--json"]
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["provider"] == "openvino"


def test_a_provider_that_runs_a_part_only_is_no_place(
    provider_python: Callable[[str], Path], build_packages: Path, tmp_path: Path
) -> None:
    """OpenVINO knows no operator of ai.onnx.ml: the build goes on without it, and says why."""
    weights = numpy_helper.from_array(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8), "w")
    line = helper.make_node("LinearRegressor", ["h"], ["y"], domain="ai.onnx.ml", coefficients=[0.5] * 8)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), line]
    values, answers = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size])] for name, size in (("x", 8), ("y", 1))
    )
    graph = helper.make_graph(nodes, "line", values, answers, [weights])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "line.onnx")
    entry = {"optimize": {"recipes": ["fp32"]}, "providers": ["cpu", "openvino"]}
    candidates = on_openvino(tmp_path, "line", entry, provider_python, build_packages)
    found = [item for item in candidates if item["provider"] == "openvino"]
    assert found
    assert all(item["status"] == "rejected" and "CPUExecutionProvider" in item["reason"] for item in found)


def on_openvino(
    place: Path, name: str, entry: dict[str, Any], provider_python: Callable[[str], Path], packages: Path
) -> list[dict[str, Any]]:
    """The candidates of a build of NAME.onnx there."""
    entry = {"source": {"onnx": f"{name}.onnx"}, "latency": {"budget_s": 2}} | entry
    config = {"schema_version": 1, "models": {name: entry}}
    (place / "artifactctl.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(packages)])}
    done = run_cli("build", "--json", cwd=place, env=env, python=provider_python("openvino"))
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = done.json["data"]["artifacts"][0]["candidates"]
    return found


def test_a_recipe_that_its_provider_runs_in_part_ends_no_build(
    provider_python: Callable[[str], Path], build_packages: Path, tmp_path: Path
) -> None:
    """OpenVINO runs an LSTM, and not the one of ONNX Runtime's that int8 makes of it (nor any graph of three nodes)."""
    rng, sizes = np.random.default_rng(0), {"w": (1, 64, 16), "r": (1, 64, 16), "m": (16, 8)}
    tensors = [numpy_helper.from_array(rng.standard_normal(size, np.float32) / 4, key) for key, size in sizes.items()]
    tensors.append(numpy_helper.from_array(np.array([1], np.int64), "axes"))
    nodes = [
        helper.make_node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["steps", "w", "r"], ["s"], hidden_size=16),
        helper.make_node("Squeeze", ["s", "axes"], ["q"]),
        helper.make_node("Transpose", ["q"], ["rows"], perm=[1, 0, 2]),
        helper.make_node("MatMul", ["rows", "m"], ["v"]),
        helper.make_node("Tanh", ["v"], ["y"]),
    ]
    values, answers = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, size])] for name, size in (("x", 16), ("y", 8))
    )
    graph = helper.make_graph(nodes, "lstm", values, answers, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "lstm.onnx")
    entry = {"optimize": {"recipes": ["int8-dynamic-all"]}, "providers": ["openvino"]}
    recipe, source = on_openvino(tmp_path, "lstm", entry, provider_python, build_packages)
    assert (recipe["status"], source["status"]) == ("rejected", "chosen")
    assert "CPUExecutionProvider" in recipe["reason"]


def test_a_side_that_never_ran_is_proved_nowhere(
    provider_python: Callable[[str], Path], build_packages: Path, tmp_path: Path
) -> None:
    """What keeps a recipe from being chosen keeps the source on another provider from it too."""
    rng = np.random.default_rng(0)
    stored = {name: rng.standard_normal((64, 64), np.float32) / 8 for name in ("w", "v")} | {"most": np.float32(1e9)}

    def side(name: str, weight: str) -> onnx.GraphProto:
        node, value = helper.make_node("MatMul", ["x", weight], [name]), onnx.ValueInfoProto(name=name)
        value.type.tensor_type.elem_type = TensorProto.FLOAT
        return helper.make_graph([node], name, [], [value])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("Greater", ["largest", "most"], ["loud"]),
        helper.make_node("If", ["loud"], ["y"], then_branch=side("a", "w"), else_branch=side("b", "v")),
    ]
    values, answers = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64])] for name in ("x", "y"))
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "branch", values, answers, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "branch.onnx")
    entry = {"optimize": {"recipes": ["slim"]}, "providers": ["cpu", "openvino"]}
    candidates = on_openvino(tmp_path, "branch", entry, provider_python, build_packages)
    (there,) = [item for item in candidates if item["provider"] == "openvino"]
    assert (there["recipe"], there["status"]) == ("source", "rejected")
    assert "one side of the branch on 'loud' never ran" in there["reason"]


def test_a_build_without_it_is_of_what_is_here(there: Path, cli: Cli, tmp_path: Path) -> None:
    """The next version, built elsewhere, is timed against the one before as that was chosen, or says why not."""
    found = cli("-C", str(there), "build", "--force", "--output", str(tmp_path / "artifacts"), "--json")
    assert found.code == 0, found.err
    (made,) = found.json["data"]["artifacts"]
    (gone,) = [entry for entry in made["candidates"] if entry["provider"] == "openvino"]
    assert gone["status"] == "rejected"
    assert gone["reason"].startswith("not tried: provider openvino is not available here: onnxruntime-openvino")
    assert gone["reason"].endswith("pip install 'artifactctl[openvino]', then build --force")
    assert {entry["provider"] for entry in made["candidates"]} <= {"cpu", "openvino", None}


def test_it_is_released_where_the_provider_is_missing(there: Path, tmp_path: Path, cli: Cli) -> None:
    """Package, tag and baseline of a version whose session is another machine's."""
    place = Path(shutil.copytree(there, tmp_path / "project"))
    git(place, "init", "--quiet", "-b", "main")
    git(place, "config", "user.name", "Tester")
    git(place, "config", "user.email", "tester@example.org")
    git(place, "add", "resize.onnx", "artifactctl.yaml")
    git(place, "commit", "--quiet", "-m", "model")
    assert cli("-C", str(place), "release", "resize").code == 12, "every provider of the configuration must be proved"
    words = ("verify", "artifacts/resize/artifact_v1", "--provider", "cpu", "--save-evidence")
    assert cli("-C", str(place), *words).code == 0
    done = cli("-C", str(place), "release", "resize", "--json")
    assert done.code == 0, done.err
    assert git(place, "tag") == "resize/artifact_v1"
    assert (place / "baselines/resize.openvino.json").is_file()
    assert cli("verify", str(place / "dist/resize-artifact_v1.zip")).code == 0


def test_the_cpu_is_the_fall_back_wherever_it_is_named(
    provider_python: Callable[[str], Path], build_packages: Path, tmp_path: Path
) -> None:
    """Also where the build's own provider is the other one."""
    cubic(tmp_path / "resize.onnx")
    entry = CONFIG["models"]["resize"] | {"providers": ["openvino", "cpu"], "optimize": {"recipes": ["fp32"]}}
    config = {"schema_version": 1, "models": {"resize": entry}}
    (tmp_path / "artifactctl.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(build_packages)])}
    done = run_cli("build", cwd=tmp_path, env=env, python=provider_python("openvino"))
    assert done.code == 0, done.err
    session = metadata(tmp_path)["session"]
    assert (session["provider"], session["fallback"]["provider"]) == ("openvino", "cpu")
    assert session["fallback"]["best"] is None
    script = [sys.executable, str(tmp_path / "artifacts/resize/artifact_v1/validate.py"), "--json"]
    found = subprocess.run(script, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["data"]["provider"] == "cpu"
