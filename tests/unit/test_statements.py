from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from artifactctl import folder, metadata, statements
from artifactctl.errors import ArtifactDamaged
from tests.judges import demand_valid_statement

pytestmark = pytest.mark.xdist_group("built")

PACKAGE = ("mlp-artifact_v1.zip", "d" * 64)
BOUND = "max_abs ≤ 0.001 · max(1, |r|)"


@pytest.fixture
def data(built: Path) -> dict[str, Any]:
    return copy.deepcopy(metadata.read(built))


@pytest.fixture
def evidence(built: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((built / "evidence/latency.cpu.json").read_text())
    return found


def proved(data: dict[str, Any]) -> dict[str, Any]:
    found = demand_valid_statement(statements.render(statements.equivalence(data, *PACKAGE)))["predicate"]
    assert isinstance(found, dict)
    return found


def timed(data: dict[str, Any], evidence: dict[str, Any]) -> dict[str, Any]:
    found = demand_valid_statement(statements.render(statements.latency(data, evidence, "cpu", *PACKAGE)))["predicate"]
    assert isinstance(found, dict)
    return found


def chosen(data: dict[str, Any], evidence: dict[str, Any]) -> dict[str, Any]:
    """The entry of the candidate that was chosen, to be changed."""
    entry = next(entry for entry in evidence["candidates"] if entry["recipe"] == data["recipe"]["name"])
    assert isinstance(entry, dict)
    return entry


def results(predicate: dict[str, Any]) -> tuple[str, list[str], list[str], list[str]]:
    return tuple(predicate[key] for key in ("result", "passedTests", "warnedTests", "failedTests"))  # type: ignore[return-value]


def test_the_subject_is_the_package(data: dict[str, Any], evidence: dict[str, Any]) -> None:
    for text in statements.all_of(data, {"cpu": evidence}, *PACKAGE).values():
        made = demand_valid_statement(text)
        assert made["_type"] == "https://in-toto.io/Statement/v1"
        assert made["subject"] == [{"name": "mlp-artifact_v1.zip", "digest": {"sha256": "d" * 64}}]


def test_one_file_for_the_proof_and_one_for_each_provider(data: dict[str, Any], evidence: dict[str, Any]) -> None:
    other = copy.deepcopy(evidence)
    other["session"]["provider"] = "openvino"
    made = statements.all_of(data, {"openvino": other, "cpu": evidence}, *PACKAGE)
    assert list(made) == ["equivalence.intoto.json", "latency.cpu.intoto.json", "latency.openvino.intoto.json"]
    assert made == statements.all_of(data, {"cpu": evidence, "openvino": other}, *PACKAGE)
    assert "latency[openvino]/source" in made["latency.openvino.intoto.json"]


def test_the_configuration_is_named_with_its_digests(built: Path, data: dict[str, Any]) -> None:
    made = statements.of_artifact(built, data, *PACKAGE)
    assert list(made) == ["equivalence.intoto.json", "latency.cpu.intoto.json"]
    for name, text in made.items():
        configuration = demand_valid_statement(text)["predicate"]["configuration"]
        digests = {entry["name"]: entry["digest"]["sha256"] for entry in configuration}
        kind = name.removesuffix(".intoto.json")
        inside = {"SHA256SUMS", "metadata.yaml", "model_opt.onnx", "golden.npz", f"evidence/{kind}.json"}
        assert digests.keys() == {f"artifact_v1/{file}" for file in inside} | {"mlp.onnx"}
        for file in inside:
            assert digests[f"artifact_v1/{file}"] == folder.digest(built / file)
        assert digests["mlp.onnx"] == data["source"]["files"][0]["sha256"]


def test_an_output_within_its_bound_has_passed(data: dict[str, Any]) -> None:
    assert results(proved(data)) == ("PASSED", [f"equivalence[cpu]/y: {BOUND}"], [], [])


def test_an_output_that_proves_nothing_is_a_warning(data: dict[str, Any]) -> None:
    data["equivalence"]["outputs"][0]["vacuous"] = True
    result, passed, warned, failed = results(proved(data))
    assert (result, passed, failed) == ("WARNED", [], [])
    assert warned == [f"equivalence[cpu]/y: {BOUND}; constant over all samples, so nothing is proved"]


def test_an_output_outside_its_bound_has_failed(data: dict[str, Any]) -> None:
    good = data["equivalence"]["outputs"][0]
    data["equivalence"]["outputs"].append(good | {"name": "z", "passed": False, "vacuous": True, "reason": "error 2"})
    result, passed, warned, failed = results(proved(data))
    assert (result, len(passed), warned) == ("FAILED", 1, [])
    assert failed == [f"equivalence[cpu]/z: {BOUND}; error 2"]


def test_what_was_not_reached_is_a_warning(data: dict[str, Any]) -> None:
    data["reference"]["samples"]["branches"] = [{"condition": "large", "taken": [True]}]
    result, passed, warned, _ = results(proved(data))
    assert (result, len(passed)) == ("WARNED", 1)
    assert warned[0].startswith("coverage[cpu]: only one side of the branch on 'large'")


def test_each_output_is_held_to_its_own_measure(data: dict[str, Any]) -> None:
    proof = data["equivalence"]
    good = proof["outputs"][0]
    proof["bounds"]["outputs"] = {"loose": {"max_abs": 0.5}, "angle": {"max_abs": None, "min_cosine": 0.9}}
    proof["outputs"] = [good, *(good | {"name": name} for name in ("loose", "angle"))]
    proof["outputs"] += [good | {"name": "ids", "dtype": dtype} for dtype in ("int64", "bool", "string")]
    assert proved(data)["passedTests"] == [
        f"equivalence[cpu]/y: {BOUND}",
        "equivalence[cpu]/loose: max_abs ≤ 0.5 · max(1, |r|)",
        "equivalence[cpu]/angle: min_cosine ≥ 0.9",
        *["equivalence[cpu]/ids: equal"] * 3,
    ]


@pytest.mark.parametrize(
    ("accuracy", "result"), [({"passed": True}, "PASSED"), ({"passed": False}, "FAILED"), (None, "FAILED")]
)
def test_accuracy_is_a_test_where_it_is_the_measure(data: dict[str, Any], accuracy: Any, result: str) -> None:
    data["equivalence"]["bounds"]["default"] = {"max_abs": None, "max_accuracy_drop": 0.005}
    data["equivalence"]["accuracy"] = accuracy
    predicate = proved(data)
    assert predicate["result"] == result
    assert predicate[f"{result.lower()}Tests"][-1] == "accuracy[cpu]: max_accuracy_drop ≤ 0.005"
    assert predicate["passedTests"][0] == "equivalence[cpu]/y: by accuracy"


@pytest.mark.parametrize(
    ("verdict", "result"),
    [("not-slower", "PASSED"), ("regression", "FAILED"), ("not-proven", "WARNED"), ("not-comparable", "WARNED")],
)
@pytest.mark.parametrize("against", ["source", "previous", "oldest"])
def test_a_verdict_and_what_it_counts(
    data: dict[str, Any], evidence: dict[str, Any], against: str, verdict: str, result: str
) -> None:
    report = chosen(data, evidence)["latency"] | {"verdict": "not-slower"}
    chosen(data, evidence)["latency"] = report
    if against == "source":
        report["verdict"] = verdict
    else:
        evidence["versions"] = {against: report | {"verdict": verdict, "against": "artifact_v1"}}
    predicate = timed(data, evidence)
    assert predicate["result"] == result
    [name] = [name for name in predicate[f"{result.lower()}Tests"] if name.startswith(f"latency[cpu]/{against}: ")]
    assert ("artifact_v1" in name) is (against != "source")


def test_what_was_not_measured_has_not_passed(data: dict[str, Any], evidence: dict[str, Any]) -> None:
    chosen(data, evidence)["latency"] = None
    data["previous"] = {"version": 1, "sha256": "a" * 64}
    assert timed(data, evidence)["warnedTests"] == [
        "latency[cpu]/source: not measured",
        "latency[cpu]/previous: not measured",
    ]
    evidence["candidates"] = []
    assert timed(data, evidence)["result"] == "WARNED"


def test_a_report_without_a_verdict_has_not_passed(data: dict[str, Any], evidence: dict[str, Any]) -> None:
    del chosen(data, evidence)["latency"]["verdict"]
    assert timed(data, evidence)["warnedTests"] == ["latency[cpu]/source: not measured"]


def test_evidence_of_another_provider_is_no_evidence(data: dict[str, Any], evidence: dict[str, Any]) -> None:
    with pytest.raises(ArtifactDamaged, match="is of provider cpu"):
        statements.latency(data, evidence, "cuda", *PACKAGE)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000])
def test_evidence_that_cannot_be_read(built: Path, data: dict[str, Any], tmp_path: Path, content: bytes) -> None:
    copied = Path(shutil.copytree(built, tmp_path / "artifact_v1"))
    (copied / "evidence/latency.cpu.json").write_bytes(content)
    with pytest.raises(ArtifactDamaged, match=r"evidence/latency.cpu.json cannot be read"):
        statements.of_artifact(copied, data, *PACKAGE)


@pytest.mark.parametrize("name", ['"', "a\nb", "😀", "\u2028", "\x00", ""])
def test_odd_names_stay_data(data: dict[str, Any], name: str) -> None:
    data["equivalence"]["outputs"][0]["name"] = name
    data["source"]["files"][0]["path"] = f"x{name}"
    predicate = proved(data)
    assert predicate["passedTests"] == [f"equivalence[cpu]/{name}: {BOUND}"]
    assert predicate["configuration"][-1]["name"] == f"x{name}"
