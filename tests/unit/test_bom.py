from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from artifactctl import bom, metadata
from tests.judges import demand_valid_bill

pytestmark = pytest.mark.xdist_group("built")

HOSTILE = ['"', "\\", "a\nb\r\t", "\u2028", "😀 \U0010ffff", "{x}", "</script>", "\x00\x1f", "", "urn:cdx:x"]


@pytest.fixture
def data(built: Path) -> dict[str, Any]:
    return copy.deepcopy(metadata.read(built))


def model_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)["metadata"]["component"]
    return found


def metrics(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    listed = model_of(text)["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    found = {(entry["type"], entry["slice"]): entry for entry in listed}
    assert len(found) == len(listed)
    return found


def properties(component: dict[str, Any]) -> dict[str, str]:
    return {entry["name"].removeprefix("artifactctl:"): entry["value"] for entry in component["properties"]}


def test_the_bill_of_an_artifact_is_valid_and_a_function_of_its_metadata(built: Path, data: dict[str, Any]) -> None:
    text = (built / "bom.cdx.json").read_text(encoding="utf-8")
    assert bom.render(data) == text
    demand_valid_bill(text)
    assert bom.problems(built, data) == []


def test_what_it_says_of_the_model(data: dict[str, Any]) -> None:
    model = model_of(bom.render(data))
    digest = next(entry["sha256"] for entry in data["files"] if entry["path"] == "model_opt.onnx")
    assert (model["name"], model["version"], model["type"]) == ("mlp", "1", "machine-learning-model")
    assert model["hashes"] == [{"alg": "SHA-256", "content": digest}]
    said = properties(model)
    assert (said["recipe"], said["precision"], said["provider"]) == (data["recipe"]["name"], data["precision"], "cpu")
    assert said["opset"] == str(data["opset"])
    parameters = model["modelCard"]["modelParameters"]
    assert parameters["inputs"] == [{"format": "x: float32 [batch, 8]"}]
    assert parameters["outputs"] == [{"format": "y: float32 [batch, 4]"}]
    assert not parameters.keys() & {"task", "modelArchitecture", "approach"}


def test_the_numbers_are_those_of_the_metadata(data: dict[str, Any]) -> None:
    found = metrics(bom.render(data))
    output, latency = data["equivalence"]["outputs"][0], data["latency"]
    assert float(found["equivalence.max_abs", "output y"]["value"]) == output["max_abs"]
    assert float(found["equivalence.max_error", "output y"]["value"]) == output["max_error"]
    assert float(found["equivalence.bound", "output y"]["value"]) == 0.001
    ratio = found["latency.ratio", "cpu, against source"]
    assert float(ratio["value"]) == latency["ratio"]
    interval = {key: float(value) for key, value in ratio["confidenceInterval"].items()}
    assert interval == {"lowerBound": latency["ratio_low"], "upperBound": latency["ratio_high"]}
    assert float(found["latency.p50_ms", "cpu"]["value"]) == data["latency_ms"]
    assert ("accuracy_drop", "") not in {(kind, "") for kind, _ in found}


def test_what_was_not_measured_is_not_there(data: dict[str, Any]) -> None:
    data |= {"latency": None, "latency_ms": None, "accuracy_drop": None}
    demand_valid_bill(bom.render(data))
    assert {kind.partition(".")[0] for kind, _ in metrics(bom.render(data))} == {"equivalence"}


def test_accuracy_and_datasets(data: dict[str, Any]) -> None:
    data["equivalence"]["accuracy"] = {"passed": True, "source": 0.9, "candidate": 0.875, "drop": 0.025, "samples": 40}
    files = {"samples": "d/s.npz", "labels": "d/l.npy", "calibration": "d/s.npz"}
    data["source"]["data"] = files
    data["source"]["files"] += [
        {"path": path, "sha256": "a" * 64, "size_bytes": 3} for path in sorted({*files.values()})
    ]
    text = bom.render(data)
    bill = demand_valid_bill(text)
    assert metrics(text)["accuracy_drop", "40 labelled samples"]["value"] == "0.025"
    kinds = {component["name"]: component["type"] for component in bill["components"]}
    assert (kinds["d/s.npz"], kinds["d/l.npy"], kinds["mlp.onnx"]) == ("data", "data", "file")
    refs = [entry["ref"] for entry in model_of(text)["modelCard"]["modelParameters"]["datasets"]]
    assert refs == ["source:d/l.npy", "source:d/s.npz", "artifact:golden.npz"]
    samples = next(component for component in bill["components"] if component["name"] == "d/s.npz")
    assert [entry["name"] for entry in samples["data"]] == ["samples", "calibration"]
    assert samples["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]


def test_what_limits_the_proof_limits_the_model(data: dict[str, Any]) -> None:
    assert "considerations" not in model_of(bom.render(data))["modelCard"]
    data["equivalence"]["outputs"][0]["vacuous"] = True
    data["reference"]["samples"] |= {"unwatched_branches": 2, "single_size": ["batch"]}
    report = {key: data["latency"][key] for key in data["latency"] if key not in ("previous", "oldest")}
    data["latency"]["previous"] = report | {"verdict": "not-proven", "against": "artifact_v1"}
    text = bom.render(data)
    demand_valid_bill(text)
    limits = model_of(text)["modelCard"]["considerations"]["technicalLimitations"]
    assert limits == metadata.warnings(data)
    assert len(limits) == 4
    assert ("latency.ratio", "cpu, against artifact_v1") in metrics(text)


@pytest.mark.parametrize("name", HOSTILE)
def test_odd_names_stay_data(data: dict[str, Any], name: str) -> None:
    for value in (*data["model"]["inputs"], *data["model"]["outputs"], *data["equivalence"]["outputs"]):
        value["name"] = name
    data["equivalence"]["outputs"][0]["vacuous"] = True
    data["model"]["outputs"][0]["shape"] = [name, 1]
    data["source"]["target"] = name
    data["source"]["files"][0]["path"] = name
    text = bom.render(data)
    bill = demand_valid_bill(text)
    assert text.encode().decode() == text
    assert model_of(text)["modelCard"]["modelParameters"]["outputs"] == [{"format": f"{name}: float32 [{name}, 1]"}]
    assert name in [component["name"] for component in bill["components"]]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("Apache-2.0", "Apache-2.0"),
        ("apache-2.0", "Apache-2.0"),
        ("mit or (Apache-2.0 and BSD-3-Clause)", "MIT OR (Apache-2.0 AND BSD-3-Clause)"),
        ("GPL-2.0-only WITH Classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0"),
        ("LicenseRef-Ours", "LicenseRef-Ours"),
    ],
)
def test_an_spdx_expression(data: dict[str, Any], text: str, expression: str) -> None:
    data["source"]["license"] = text
    rendered = bom.render(data)
    demand_valid_bill(rendered)
    assert model_of(rendered)["licenses"] == [{"expression": expression, "acknowledgement": "declared"}]


@pytest.mark.parametrize("text", ["Proprietary", "Apache 2.0", "MIT or", "(MIT", "ask\nus", "(" * 5000, *HOSTILE[:5]])
def test_any_other_licence_is_a_name(data: dict[str, Any], text: str) -> None:
    data["source"]["license"] = text
    rendered = bom.render(data)
    demand_valid_bill(rendered)
    assert model_of(rendered)["licenses"] == [{"license": {"name": text, "acknowledgement": "declared"}}]


def test_no_licence_is_invented(data: dict[str, Any]) -> None:
    assert data["source"]["license"] is None
    assert "licenses" not in model_of(bom.render(data))


def test_packages_say_whether_they_run_it_or_made_it(data: dict[str, Any]) -> None:
    data["environment"]["packages"] = {
        "numpy": "2.4.6",
        "onnxruntime-gpu": "1.31.1",
        "torch": "2.13.0",
        "onnx": "1.23.2",
    }
    bill = demand_valid_bill(bom.render(data))
    scopes = {entry["purl"]: entry["scope"] for entry in bill["components"] if entry["type"] == "library"}
    assert {purl for purl, scope in scopes.items() if scope == "excluded"} == {
        "pkg:pypi/torch@2.13.0",
        "pkg:pypi/onnx@1.23.2",
    }
    needed = ["pkg:pypi/numpy@2.4.6", "pkg:pypi/onnxruntime-gpu@1.31.1"]
    assert bill["dependencies"] == [{"ref": "model", "dependsOn": needed}]


def test_external_data_is_part_of_the_model(built: Path, data: dict[str, Any], tmp_path: Path) -> None:
    entry = {"path": "model_opt.onnx.data", "sha256": "b" * 64, "size_bytes": 3}
    data["files"].append(entry)
    text = bom.render(data)
    demand_valid_bill(text)
    [part] = model_of(text)["components"]
    assert part["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]
    (tmp_path / "bom.cdx.json").write_text(text)
    assert bom.problems(tmp_path, data) == []
    entry["sha256"] = "c" * 64
    assert bom.problems(tmp_path, data) == ["bom.cdx.json is not of this model: its components is another"]


def test_the_only_time_is_the_one_that_was_asked_for(data: dict[str, Any]) -> None:
    assert "timestamp" not in json.loads(bom.render(data))["metadata"]
    data["environment"]["date"] = "2023-11-14T22:13:20+00:00"
    assert demand_valid_bill(bom.render(data))["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_the_serial_number_follows_the_content(data: dict[str, Any]) -> None:
    first = json.loads(bom.render(data))["serialNumber"]
    assert json.loads(bom.render(copy.deepcopy(data)))["serialNumber"] == first
    data["latency_ms"] = 12.5
    assert json.loads(bom.render(data))["serialNumber"] != first


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "not a CycloneDX document"),
        (b"{}", "not a CycloneDX document"),
        (b'{"bomFormat": "CycloneDX", "specVersion": "1.6", "metadata": []}', "not a CycloneDX document"),
        (b'{"bomFormat": "CycloneDX", "specVersion": 1.6, "metadata": {"component": {}}}', "not a CycloneDX document"),
        (b'{"bomFormat": "CycloneDX", "specVersion": "1.6", "metadata": {"component": {"type": "file"}}}', "its type"),
    ],
)
def test_a_bill_that_cannot_be_trusted(data: dict[str, Any], tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "bom.cdx.json").write_bytes(content)
    assert reason in bom.problems(tmp_path, data)[0]


def test_a_folder_in_its_place(data: dict[str, Any], tmp_path: Path) -> None:
    assert bom.problems(tmp_path, data) == []
    (tmp_path / "bom.cdx.json").mkdir()
    assert "cannot be read" in bom.problems(tmp_path, data)[0]


@pytest.mark.parametrize(("key", "value"), [("model_name", "other"), ("version", 2)])
def test_a_bill_of_another_version(built: Path, data: dict[str, Any], key: str, value: Any) -> None:
    data[key] = value
    assert "not of this model" in bom.problems(built, data)[0]
