"""What a consumer requires: the grammar, and each requirement met, unmet and refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl import folder, metadata, policy
from artifactctl.errors import LatencyRegression, NotEquivalent, NotProven
from artifactctl.policy import Facts, Requirement
from artifactctl.records import AccuracyReport, EquivalenceReport

pytestmark = pytest.mark.xdist_group("built")


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ((), ()),
        (("equivalence",), (Requirement("equivalence"),)),
        (("bom, latency[cpu] ",), (Requirement("bom"), Requirement("latency", "cpu"))),
        (("bom", "license,bom"), (Requirement("bom"), Requirement("license"))),
        (("latency[cpu],latency[cuda]",), (Requirement("latency", "cpu"), Requirement("latency", "cuda"))),
    ],
)  # fmt: skip
def test_grammar(texts: tuple[str, ...], found: tuple[Requirement, ...]) -> None:
    assert policy.parse(texts) == found
    assert policy.parse([",".join(map(str, found))] if found else []) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "nothing is called ''"),
        ("bom,,license", "nothing is called ''"),
        ("equivalance", "perhaps you meant 'equivalence'"),
        ("speed", "known are equivalence, equivalence[PROVIDER], latency[PROVIDER], accuracy, signature, license, bom"),
        ("latency", "latency[PROVIDER]"),
        ("bom[cpu]", "'bom[cpu]' is written bom"),
        ("latency[gpu]", "known are cpu, cpu-arm64"),
        ("latency[]", "names no provider"),
        ("latency[cpu", "nothing is called"),
        ("latency[cpu,cuda]", "names no provider"),
        ("Bom", "nothing is called 'Bom'"),
    ],
)
def test_what_is_no_requirement(text: str, said: str) -> None:
    with pytest.raises(ValueError) as found:
        policy.parse([text])
    assert said in str(found.value)


@pytest.fixture
def facts(built: Path) -> Facts:
    """Of the real artifact, as if it were optimized and measured well, whatever this machine made of it."""
    meta = copy.deepcopy(metadata.read(built))
    evidence = {
        name: json.loads((built / f"evidence/{name}.json").read_text()) for name in ("equivalence", "latency.cpu")
    }
    report = next(
        entry["report"] for entry in evidence["equivalence"]["providers"]["cpu"] if entry["status"] == "chosen"
    )
    made = Facts(
        meta, evidence["equivalence"], {"cpu": evidence["latency.cpu"]}, frozenset(folder.listing(built)),
        EquivalenceReport.from_dict(report), False,
    )  # fmt: skip
    rename(made, "fp32")
    measured(made)["verdict"] = meta["latency"]["verdict"] = "not-slower"
    return made


def rename(facts: Facts, recipe: str) -> None:
    was, meta = facts.metadata["recipe"]["name"], facts.metadata
    meta["recipe"]["name"] = recipe  # type: ignore[index]
    for entries in (facts.equivalence["providers"]["cpu"], facts.latency["cpu"]["candidates"]):
        for entry in entries:
            entry["recipe"] = recipe if entry["recipe"] == was else f"not {entry['recipe']}"


def measured(facts: Facts) -> dict[str, Any]:
    """The measurement of the model that was chosen, against the source."""
    found: dict[str, Any] = next(
        entry["latency"]
        for entry in facts.latency["cpu"]["candidates"]
        if entry["recipe"] == facts.metadata["recipe"]["name"]
    )
    return found


def of(facts: Facts, text: str) -> policy.Finding:
    return policy.judge(policy.parse([text]), facts)[0]


def second(facts: Facts, verdict: str | None, told: str | None = None) -> Facts:
    """As a second version, with a verdict against the first in the evidence, and in metadata.yaml."""
    meta: Any = facts.metadata
    meta["previous"] = {"version": 1, "sha256": "0" * 64}
    report = measured(facts) | {"verdict": verdict, "against": "artifact_v1", "reason": "it is another machine"}
    facts.latency["cpu"]["versions"].update({"previous": report} if verdict else {})
    meta["latency"]["previous"] = {"verdict": told or verdict} if told or verdict else None
    return facts


def test_equivalence(facts: Facts) -> None:
    assert of(facts, "equivalence").met
    assert "proved now" in of(facts, "equivalence[cpu]").reason
    bad = replace(facts.report, outputs=tuple(replace(o, passed=False, reason="far off") for o in facts.report.outputs))
    found = of(replace(facts, report=bad), "equivalence")
    assert (found.met, found.kind) == (False, NotEquivalent)
    assert "far off" in found.reason
    assert not of(replace(facts, report=replace(facts.report, outputs=())), "equivalence").met
    constant = tuple(replace(output, vacuous=True) for output in facts.report.outputs)
    found = of(replace(facts, report=replace(facts.report, outputs=constant)), "equivalence")
    assert (found.met, found.kind) == (False, NotProven)


def test_equivalence_of_a_provider_that_is_not_this_one(facts: Facts) -> None:
    """The evidence speaks where this machine cannot."""
    elsewhere = replace(facts, report=replace(facts.report, provider="openvino"))
    assert "proved at the build" in of(elsewhere, "equivalence[cpu]").reason
    assert of(elsewhere, "equivalence[cpu]").met
    assert of(elsewhere, "equivalence[openvino]").met
    found = of(facts, "equivalence[cuda]")
    assert (found.met, found.kind) == (False, NotProven)
    assert "--provider cuda" in found.advice
    entry = next(e for e in facts.equivalence["providers"]["cpu"] if e["recipe"] == "fp32")
    entry["report"]["outputs"][0]["passed"] = False
    assert of(elsewhere, "equivalence[cpu]").kind is NotEquivalent
    entry["report"] = None
    assert not of(elsewhere, "equivalence[cpu]").met


def test_equivalence_that_was_proved_after_the_build(facts: Facts) -> None:
    """A cell beside the artifact counts as evidence does; what does not fit to the last word does not."""
    outputs = [{"name": "y", "passed": True, "vacuous": False}]
    cell = {
        "schema_version": 1, "model": "mlp", "version": 1, "artifact_sha256": "5" * 64, "provider": "cuda",
        "verdict": "equivalent", "samples": 8, "outputs": outputs, "machine": {},
    }  # fmt: skip
    fresh = replace(facts, sha256="5" * 64, cells={"cuda": cell})
    found = of(fresh, "equivalence[cuda]")
    assert (found.met, found.reason) == (True, "proved after the build on 8 samples, provider cuda")
    assert not of(fresh, "equivalence[openvino]").met
    assert "does not reach" in of(replace(fresh, signed=True), "equivalence[cuda]").reason
    different: list[dict[str, Any]] = [{"verdict": "different"}, {"outputs": [outputs[0] | {"passed": False}]}]
    for change in different:
        found = of(replace(fresh, cells={"cuda": cell | change}), "equivalence[cuda]")
        assert (found.met, found.kind) == (False, NotEquivalent), change
    unproved: list[dict[str, Any]] = [
        {"artifact_sha256": "6" * 64}, {"model": "other"}, {"version": 2}, {"provider": "cpu"}, {"samples": 0},
        {"outputs": []}, {"outputs": [outputs[0] | {"vacuous": True}]}, {"outputs": [{"name": "y", "passed": True}]},
    ]  # fmt: skip
    for change in unproved:
        found = of(replace(fresh, cells={"cuda": cell | change}), "equivalence[cuda]")
        assert (found.met, found.kind) == (False, NotProven), change


def test_evidence_of_another_reference(facts: Facts) -> None:
    facts.equivalence["reference"]["sha256"] = "0" * 64
    elsewhere = replace(facts, report=replace(facts.report, provider="openvino"))
    assert "another reference" in of(elsewhere, "equivalence[cpu]").reason


@pytest.mark.parametrize("verdict", ["not-slower", "regression", "not-proven", "not-comparable", None])
@pytest.mark.parametrize("version", [1, 2])
def test_latency(facts: Facts, version: int, verdict: str | None) -> None:
    if version == 2:
        second(facts, verdict)
    elif verdict is None:
        facts.latency["cpu"]["candidates"].clear()
    else:
        measured(facts)["verdict"] = verdict
        facts.metadata["latency"]["verdict"] = verdict
    found = of(facts, "latency[cpu]")
    assert found.met == (verdict == "not-slower")
    assert found.kind is (LatencyRegression if verdict == "regression" else NotProven)
    assert found.met or "artifactctl bench {artifact} --provider cpu" in found.advice


def test_latency_of_the_source_itself(facts: Facts) -> None:
    """A machine too noisy to see that a file is as fast as itself does not make it slower."""
    rename(facts, "source")
    measured(facts)["verdict"] = "not-proven"
    facts.metadata["latency"]["verdict"] = "not-proven"
    assert of(facts, "latency[cpu]").met
    assert not of(second(facts, "not-proven"), "latency[cpu]").met


def test_latency_of_two_stories_or_another_provider(facts: Facts) -> None:
    assert "two verdicts" in of(second(facts, "not-slower", told="regression"), "latency[cpu]").reason
    assert not of(facts, "latency[cuda]").met
    other = replace(facts, latency={"cuda": facts.latency["cpu"]})
    assert "made on cpu" in of(other, "latency[cuda]").reason


def test_accuracy(facts: Facts) -> None:
    meta: Any = facts.metadata
    assert "no drop of accuracy was measured" in of(facts, "accuracy").reason
    record = {"passed": True, "reason": None, "source": 0.9, "candidate": 0.899, "drop": 0.001, "samples": 1000}
    meta["equivalence"]["accuracy"], meta["accuracy_drop"] = record, 0.001
    assert "no bound was set" in of(facts, "accuracy").reason
    meta["equivalence"]["bounds"]["default"]["max_accuracy_drop"] = 0.005
    assert of(facts, "accuracy").met
    now = replace(facts, report=replace(facts.report, accuracy=AccuracyReport(False, "drops by 0.1")))
    assert of(now, "accuracy").kind is NotEquivalent
    record["passed"] = False
    assert not of(facts, "accuracy").met


def test_signature_license_and_bom(facts: Facts) -> None:
    bare = replace(facts, files=facts.files - {folder.BOM})
    for name in ("signature", "bom"):
        assert not of(bare, name).met
    meta: Any = facts.metadata
    for value, met in ((None, False), ("", False), ("Apache-2.0", True)):
        meta["source"]["license"] = value
        assert of(facts, "license").met is met
    del meta["source"]["license"]
    assert not of(facts, "license").met
    assert of(replace(facts, signed=True), "signature").met
    assert of(replace(facts, files=facts.files | {folder.BOM}), "bom").met


def test_the_worst_gives_the_error_and_each_is_named(facts: Facts) -> None:
    names = policy.parse(["equivalence,latency[cpu],latency[cuda],signature"])
    slow = second(facts, "regression")
    bad = replace(facts.report, outputs=tuple(replace(o, passed=False, reason="off") for o in facts.report.outputs))
    expected: tuple[tuple[Callable[[], Facts], type[Exception]], ...] = (
        (lambda: replace(slow, report=bad), NotEquivalent),
        (lambda: slow, LatencyRegression),
        (lambda: replace(slow, latency={}), NotProven),
    )
    for make, kind in expected:
        problem = policy.problem_of(policy.judge(names, make()), "here")
        assert type(problem) is kind
        assert "latency[cuda]: no measurement on cuda" in str(problem)
        assert "signature: no signature was checked" in str(problem)
        assert "artifactctl verify here --public-key FILE" in problem.hint
    assert policy.problem_of(policy.judge(policy.parse(["equivalence"]), facts), "here") is None
    assert [finding.as_json() for finding in policy.unjudged(names[:1], "why")] == [
        {"name": "equivalence", "met": False, "reason": "why"}
    ]
