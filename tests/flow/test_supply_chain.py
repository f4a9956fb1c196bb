"""A model with a licence, data of its own and names that nobody would choose, from its file to bill and statements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml

from artifactctl import card, folder, inspection, schema, statements
from tests.conftest import MODELS, Finished, run_cli
from tests.judges import demand_valid_bill, demand_valid_statement

Cli = Callable[..., Finished]

INPUT, OUTPUT = 'in"put\n😀', "lo\\gits' | <b>\u2028"


def renamed(target: Path) -> None:
    model = onnx.load(MODELS / "mlp.onnx")
    names = {"x": INPUT, "y": OUTPUT}
    for value in (*model.graph.input, *model.graph.output):
        value.name = names[value.name]
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    onnx.save(model, target)


def configure(place: Path, **more: Any) -> None:
    model = {
        "source": {"onnx": "odd.onnx"},
        "data": {"samples": "data/s.npz", "labels": "data/l.npy", "calibration": "data/s.npz"},
        "optimize": {"recipes": ["fp32"]},
    }
    text = yaml.safe_dump({"schema_version": 1, "models": {"odd": model | more}}, allow_unicode=True)
    (place / "artifactctl.yaml").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("odd")
    (place / "data").mkdir()
    renamed(place / "odd.onnx")
    rng = np.random.default_rng(7)
    np.savez(place / "data/s.npz", **{INPUT: rng.standard_normal((12, 8)).astype(np.float32)})
    np.save(place / "data/l.npy", rng.integers(0, 4, 12))
    configure(place, license="apache-2.0 or MIT")
    done = run_cli("build", "--json", cwd=place)
    assert done.code == 0, done.err
    return place


@pytest.mark.xdist_group("supply-chain")
def test_from_the_file_to_the_statements(cli: Cli, place: Path) -> None:
    artifact = place / "artifacts/odd/artifact_v1"
    data = inspection.whole_artifact(artifact)
    assert data["source"]["license"] == "apache-2.0 or MIT"
    assert data["source"]["data"] == {"samples": "data/s.npz", "labels": "data/l.npy", "calibration": "data/s.npz"}
    assert "| license | apache-2.0 or MIT |" in (artifact / "README.md").read_text(encoding="utf-8")

    bill = demand_valid_bill((artifact / "bom.cdx.json").read_text(encoding="utf-8"))
    model = bill["metadata"]["component"]
    assert model["licenses"][0]["expression"] == "Apache-2.0 OR MIT"
    assert model["hashes"][0]["content"] == folder.digest(artifact / "model_opt.onnx")
    about = model["modelCard"]
    assert about["modelParameters"]["inputs"] == [{"format": f"{INPUT}: float32 [batch, 8]"}]
    kinds = {entry["type"] for entry in about["quantitativeAnalysis"]["performanceMetrics"]}
    assert {"equivalence.max_error", "accuracy_drop", "latency.p50_ms"} <= kinds
    hashes = {entry["name"]: entry.get("hashes", [{}])[0].get("content") for entry in bill["components"]}
    for name in ("odd.onnx", "data/s.npz", "data/l.npy"):
        assert hashes[name] == folder.digest(place / name)
    assert hashes["golden.npz"] == folder.digest(artifact / "golden.npz")
    assert "bom.cdx.json" in [entry["path"] for entry in data["files"]]
    assert "bom.cdx.json" in (artifact / "SHA256SUMS").read_text()

    made = statements.of_artifact(artifact, data, "odd-artifact_v1.zip", "0" * 64)
    proof = demand_valid_statement(made["equivalence.intoto.json"])["predicate"]
    assert (proof["result"], proof["failedTests"]) == ("PASSED", [])
    assert proof["passedTests"] == [f"equivalence[cpu]/{OUTPUT}: max_abs ≤ 0.001 · max(1, |r|)"]
    assert demand_valid_statement(made["latency.cpu.intoto.json"])["predicate"]["failedTests"] == []
    assert cli("check", cwd=place).code == 0
    assert card.render(data) == (artifact / "README.md").read_text(encoding="utf-8")


@pytest.mark.xdist_group("supply-chain")
def test_another_licence_is_another_version(cli: Cli, place: Path) -> None:
    same = cli("build", "--json", cwd=place)
    assert same.json["data"]["artifacts"][0]["status"] == "unchanged"
    configure(place, license="ask | us\nfirst")
    checked = cli("check", "artifactctl.yaml", "--json", cwd=place)
    assert (checked.code, schema.problems(checked.json, "report")) == (0, [])
    (warned,) = checked.json["data"]["checked"][0]["warnings"]
    assert warned.startswith("odd: license 'ask | us\\nfirst' is not an expression of SPDX")
    assert f"warning   {warned}" in checked.err
    done = cli("build", "--json", cwd=place)
    assert "odd: warning: license 'ask | us\\nfirst' is not an expression of SPDX" in done.err
    assert done.json["data"]["artifacts"][0]["version"] == 2, done.err
    artifact = place / "artifacts/odd/artifact_v2"
    bill = demand_valid_bill((artifact / "bom.cdx.json").read_text(encoding="utf-8"))
    assert bill["metadata"]["component"]["licenses"][0]["license"]["name"] == "ask | us\nfirst"
    assert "| license | ask \\| us first |" in (artifact / "README.md").read_text(encoding="utf-8")
    made = statements.of_artifact(artifact, inspection.whole_artifact(artifact), "odd-artifact_v2.zip", "0" * 64)
    timed = demand_valid_statement(made["latency.cpu.intoto.json"])["predicate"]
    tests = [*timed["passedTests"], *timed["warnedTests"], *timed["failedTests"]]
    assert [name.split(":")[0] for name in tests if "artifact_v1" in name] == ["latency[cpu]/previous"]
