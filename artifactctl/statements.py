"""What was proved and measured, as in-toto statements about a package. Pure but for `of_artifact`, which reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from artifactctl import folder, jsontext, verdicts
from artifactctl.errors import ArtifactDamaged
from artifactctl.metadata import bounds_on, coverage_texts
from artifactctl.project import Bound
from artifactctl.versions import folder_name

TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
SUFFIX = "intoto.json"
PASSED, WARNED, FAILED = "PASSED", "WARNED", "FAILED"
LEVELS = {verdicts.NOT_SLOWER: PASSED, verdicts.REGRESSION: FAILED}  # what else may be said is a warning

Metadata = Mapping[str, Any]
Test = tuple[str, str]  # one of the three results, and the test's name: `equivalence[cpu]/logits: what was asked`


def of_artifact(artifact: Path, metadata: Metadata, package_name: str, package_sha256: str) -> dict[str, str]:
    """Every statement that an artifact's evidence allows; `metadata` is of an artifact that was found whole."""
    evidence = {}
    for file in sorted((artifact / "evidence").glob("latency.*.json")):
        try:
            evidence[file.name.split(".")[1]] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ArtifactDamaged(f"{artifact}: evidence/{file.name} cannot be read ({error})") from None
    own = {name: folder.digest(artifact / name) for name in (folder.SUMS, folder.METADATA)}
    return all_of(metadata, evidence, package_name, package_sha256, own)


def all_of(
    metadata: Metadata,
    evidence_by_provider: Mapping[str, Mapping[str, Any]],
    package_name: str,
    package_sha256: str,
    own: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """By the end of their file's name. `own`: digests of what metadata cannot know, itself and SHA256SUMS."""
    found = {f"equivalence.{SUFFIX}": equivalence(metadata, package_name, package_sha256, own)}
    for provider, evidence in sorted(evidence_by_provider.items()):
        made = latency(metadata, evidence, provider, package_name, package_sha256, own)
        found[f"latency.{provider}.{SUFFIX}"] = made
    return {name: render(statement) for name, statement in found.items()}


def render(statement: Mapping[str, Any]) -> str:
    return jsontext.render(statement)


def equivalence(
    metadata: Metadata, package_name: str, package_sha256: str, own: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """One test for each output; what the samples did not reach is a warning."""
    tests = list(_equivalence_tests(metadata))
    configuration = _configuration(metadata, "evidence/equivalence.json", own)
    return _statement(tests, configuration, package_name, package_sha256)


def latency(
    metadata: Metadata,
    evidence: Mapping[str, Any],
    provider: str,
    package_name: str,
    package_sha256: str,
    own: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Against the source, the version before and the oldest; only what is proved not slower has passed."""
    if evidence["session"]["provider"] != provider:
        raise ArtifactDamaged(f"evidence/latency.{provider}.json is of provider {evidence['session']['provider']}")
    tests = list(_latency_tests(metadata, evidence, provider))
    configuration = _configuration(metadata, f"evidence/latency.{provider}.json", own)
    return _statement(tests, configuration, package_name, package_sha256)


def _equivalence_tests(metadata: Metadata) -> Iterator[Test]:
    provider, proof, bounds = metadata["session"]["provider"], metadata["equivalence"], bounds_on(metadata)
    for output in proof["outputs"]:
        name = f"equivalence[{provider}]/{output['name']}: {_asked(bounds, output)}"
        if not output["passed"]:
            yield FAILED, f"{name}; {output['reason']}"
        elif output["vacuous"]:
            yield WARNED, f"{name}; constant over all samples, so nothing is proved"
        else:
            yield PASSED, name
    accuracy, allowed = proof["accuracy"], bounds["default"].get("max_accuracy_drop")
    if allowed is not None:
        held = bool(accuracy and accuracy["passed"])
        yield PASSED if held else FAILED, f"accuracy[{provider}]: max_accuracy_drop ≤ {allowed:g}"
    for text in coverage_texts(metadata):
        yield WARNED, f"coverage[{provider}]: {text}"


def _asked(bounds: Mapping[str, Any], output: Mapping[str, Any]) -> str:
    """What one output was held to; the accuracy is of the whole model, and is a test of its own."""
    bound = Bound(**bounds["outputs"].get(output["name"], bounds["default"]))
    floats = str(output.get("dtype")).startswith(("float", "bfloat", "complex"))
    if bound.max_abs is not None and not floats:
        return "equal"
    return replace(bound, max_accuracy_drop=None).describe() or "by accuracy"


def _latency_tests(metadata: Metadata, evidence: Mapping[str, Any], provider: str) -> Iterator[Test]:
    recipe, before = metadata["recipe"]["name"], metadata["previous"]
    chosen = [entry["latency"] for entry in evidence["candidates"] if entry["recipe"] == recipe]
    versions = evidence.get("versions", {})
    reports = {"source": chosen[0] if chosen else None}
    if before is not None:
        reports["previous"] = None
    for name, report in (reports | versions).items():
        label = f"latency[{provider}]/{name}"
        if not report or not {"verdict", "against", "limit", "reason"} <= report.keys():
            yield WARNED, f"{label}: not measured"
        else:
            yield LEVELS.get(report["verdict"], WARNED), f"{label}: {verdicts.sentence(report)}"


def _configuration(metadata: Metadata, evidence: str, own: Mapping[str, str] | None) -> list[dict[str, Any]]:
    """The files that the tests were made with: the artifact's own, then its source's, by their recorded names."""
    place = folder_name(metadata["version"])
    inside = {**(own or {}), **{entry["path"]: entry["sha256"] for entry in metadata["files"]}}
    wanted = (folder.SUMS, folder.METADATA, folder.MODEL, f"{folder.MODEL}.data", folder.GOLDEN, evidence)
    named = [(f"{place}/{name}", inside[name]) for name in wanted if name in inside]
    named += [(entry["path"], entry["sha256"]) for entry in metadata["source"]["files"]]
    return [{"name": name, "digest": {"sha256": sha256}} for name, sha256 in named]


def _statement(
    tests: list[Test], configuration: list[dict[str, Any]], package_name: str, package_sha256: str
) -> dict[str, Any]:
    by_result = {result: [name for found, name in tests if found == result] for result in (PASSED, WARNED, FAILED)}
    result = next((result for result in (FAILED, WARNED, PASSED) if by_result[result]), WARNED)
    return {
        "_type": TYPE,
        "subject": [{"name": package_name, "digest": {"sha256": package_sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "result": result,
            "configuration": configuration,
            "passedTests": by_result[PASSED],
            "warnedTests": by_result[WARNED],
            "failedTests": by_result[FAILED],
        },
    }
