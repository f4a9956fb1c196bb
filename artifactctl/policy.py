"""What a consumer requires, in one line: `equivalence,latency[cpu],signature`. Pure: facts in, reasons out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artifactctl import cells, verdicts
from artifactctl.errors import ArtifactctlError, LatencyRegression, NotEquivalent, NotProven, perhaps
from artifactctl.folder import BOM
from artifactctl.metadata import bounds_on
from artifactctl.providers import PROVIDERS
from artifactctl.records import SOURCE_RECIPE, EquivalenceReport

FORMS = ("equivalence", "equivalence[PROVIDER]", "latency[PROVIDER]", "accuracy", "signature", "license", "bom")
_ITEM = re.compile(r"([a-z]+)(?:\[([^\[\]]*)\])?")
_SEPARATOR = re.compile(r",(?![^\[]*\])")


@dataclass(frozen=True, slots=True)
class Requirement:
    name: str
    provider: str | None = None

    def __str__(self) -> str:
        return f"{self.name}[{self.provider}]" if self.provider else self.name


@dataclass(frozen=True, slots=True)
class Facts:
    """What the artifact records, and what this `verify` found out by itself."""

    metadata: Mapping[str, Any]
    equivalence: Mapping[str, Any]  # evidence/equivalence.json
    latency: Mapping[str, Mapping[str, Any]]  # by provider, evidence/latency.<provider>.json
    files: frozenset[str]
    report: EquivalenceReport  # proved now
    signed: bool  # a signature was checked now
    sha256: str = ""  # of its SHA256SUMS, which proofs beside it name
    cells: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by provider, artifact_vN.cells/


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a requirement is met or not, the error that it amounts to, and what can be typed about it."""

    requirement: Requirement
    met: bool
    reason: str
    advice: str = ""
    kind: type[ArtifactctlError] = field(default=NotProven)

    def as_json(self) -> dict[str, Any]:
        return {"name": str(self.requirement), "met": self.met, "reason": self.reason}


def parse(texts: Sequence[str]) -> tuple[Requirement, ...]:
    """Each text is a list with commas; a ValueError says what is wrong, and what there is."""
    items = [item.strip() for text in texts for item in _SEPARATOR.split(text)]
    return tuple(dict.fromkeys(map(_requirement, items)))


def _requirement(item: str) -> Requirement:
    known = list(dict.fromkeys(form.partition("[")[0] for form in FORMS))
    match = _ITEM.fullmatch(item)
    name, provider = match.groups() if match else (item, None)
    if name not in known:
        raise ValueError(f"nothing is called {item!r}{perhaps(name, known)}; known are {', '.join(FORMS)}")
    form = name if provider is None else f"{name}[PROVIDER]"
    if form not in FORMS:
        right = ", ".join(known for known in FORMS if known.partition("[")[0] == name)
        raise ValueError(f"{item!r} is written {right}, with a provider such as cpu where it says so")
    if provider is not None and provider not in PROVIDERS:
        raise ValueError(f"{item!r} names no provider; known are {', '.join(PROVIDERS)}")
    return Requirement(name, provider)


def judge(requirements: Sequence[Requirement], facts: Facts) -> list[Finding]:
    return [_JUDGES[requirement.name](requirement, facts) for requirement in requirements]


def unjudged(requirements: Sequence[Requirement], reason: str) -> list[Finding]:
    """Of an artifact that is damaged nothing is believed."""
    return [Finding(requirement, False, reason) for requirement in requirements]


def problem_of(findings: Sequence[Finding], name: str) -> ArtifactctlError | None:
    """Everything that is not met in one error: the worst kind gives its code."""
    unmet = [finding for finding in findings if not finding.met]
    if not unmet:
        return None
    kinds = [finding.kind for finding in unmet]
    kind = next(kind for kind in (NotEquivalent, LatencyRegression, NotProven) if kind in kinds)
    reasons = "; ".join(f"{finding.requirement}: {finding.reason}" for finding in unmet)
    advice = dict.fromkeys(finding.advice.format(artifact=name) for finding in unmet if finding.advice)
    return kind(f"{name} is not what was required: {reasons}", hint="\n".join(advice) or None)


def _equivalence(requirement: Requirement, facts: Facts) -> Finding:
    report, provider = facts.report, requirement.provider
    if provider is None or provider == report.provider:
        found = _proof(requirement, report, f"proved now on {report.samples} samples, provider {report.provider}")
        if found.met or provider is None:
            return found
    advice = f"Prove it where there is one: artifactctl verify {{artifact}} --provider {provider}"
    recorded = _chosen(facts, facts.equivalence["providers"].get(provider, ()), "report")
    if facts.equivalence["reference"]["sha256"] != facts.metadata["reference"]["sha256"]:
        return Finding(requirement, False, "the evidence is of another reference than metadata.yaml", advice)
    if recorded is None:
        return _beside(requirement, facts, advice)
    old = EquivalenceReport.from_dict(recorded)
    return _proof(requirement, old, f"proved at the build on {old.samples} samples, provider {old.provider}")


def _beside(requirement: Requirement, facts: Facts, advice: str) -> Finding:
    """A proof that was added after the build. No signature of the artifact reaches it."""
    provider = requirement.provider or ""
    cell = facts.cells.get(provider)
    if cell is None:
        return Finding(requirement, False, f"no proof on {provider} is recorded", advice)
    if facts.signed:
        reason = f"the proof on {provider} lies beside the artifact, where the signature does not reach"
        return Finding(requirement, False, reason, advice)
    if why := cells.why_no_proof(cell, facts.metadata, facts.sha256, provider):
        kind = NotEquivalent if why.startswith("it is different") else NotProven
        return Finding(requirement, False, why, advice, kind)
    return Finding(requirement, True, f"proved after the build on {cell['samples']} samples, provider {provider}")


def _proof(requirement: Requirement, report: EquivalenceReport, words: str) -> Finding:
    if not report.passed:
        return Finding(requirement, False, f"different: {report.reason}", kind=NotEquivalent)
    if report.vacuous:
        advice = "Let it see more: artifactctl verify {artifact} without --samples, or with --reference FILE"
        return Finding(requirement, False, "its outputs are constant over all samples, which proves nothing", advice)
    return Finding(requirement, True, words)


def _latency(requirement: Requirement, facts: Facts) -> Finding:
    """The recorded verdict: against the version before, or for a first version against the source."""
    provider, first = requirement.provider or "", facts.metadata["previous"] is None
    advice = f"See how it stands here and now: artifactctl bench {{artifact}} --provider {provider}"
    evidence = facts.latency.get(provider)
    if evidence is None:
        return Finding(requirement, False, f"no measurement on {provider} is recorded", advice)
    report = _chosen(facts, evidence["candidates"], "latency") if first else evidence["versions"].get("previous")
    if report is None:
        other = "the source" if first else "the version before"
        return Finding(requirement, False, f"no measurement against {other} is recorded", advice)
    told = facts.metadata["latency"] or {}
    told = told if first else told.get("previous") or {}
    if facts.metadata["session"]["provider"] == provider and told.get("verdict") != report["verdict"]:
        return Finding(requirement, False, "metadata.yaml and the evidence record two verdicts", advice)
    words = verdicts.sentence(report)
    if report["provider"] != provider:
        return Finding(requirement, False, f"the measurement was made on {report['provider']}", advice)
    if report["verdict"] == verdicts.REGRESSION:
        return Finding(requirement, False, words, advice, LatencyRegression)
    if first and facts.metadata["recipe"]["name"] == SOURCE_RECIPE:
        return Finding(requirement, True, "it is the source itself")
    return Finding(requirement, report["verdict"] == verdicts.NOT_SLOWER, words, advice)


def _accuracy(requirement: Requirement, facts: Facts) -> Finding:
    equivalence, drop = facts.metadata["equivalence"], facts.metadata["accuracy_drop"]
    accuracy, limit = equivalence["accuracy"], bounds_on(facts.metadata)["default"].get("max_accuracy_drop")
    advice = "Build a version with data.labels and equivalence.max_accuracy_drop in artifactctl.yaml: artifactctl build"
    if accuracy is None or drop is None:
        return Finding(requirement, False, "no drop of accuracy was measured", advice)
    now = facts.report.accuracy
    if not accuracy["passed"] or (now is not None and not now.passed):
        why = accuracy["reason"] or (now.reason if now else "")
        return Finding(requirement, False, f"the accuracy drops too far: {why}", kind=NotEquivalent)
    words = f"drop {drop:+.4f} on {accuracy['samples']} labelled samples"
    if limit is None and drop > 0:
        return Finding(requirement, False, f"{words}, and no bound was set", advice)
    return Finding(requirement, True, words if limit is None else f"{words}, allowed {limit:g}")


def _signature(requirement: Requirement, facts: Facts) -> Finding:
    advice = "Name the publisher's key: artifactctl verify {artifact} --public-key FILE --require signature"
    reason = "a valid signature was checked" if facts.signed else "no signature was checked"
    return Finding(requirement, facts.signed, reason, advice)


def _license(requirement: Requirement, facts: Facts) -> Finding:
    found = facts.metadata["source"].get("license")
    advice = "Set the model's license in artifactctl.yaml and build a new version: artifactctl build"
    return Finding(requirement, bool(found), str(found) if found else "the licence is not recorded", advice)


def _bom(requirement: Requirement, facts: Facts) -> Finding:
    there = BOM in facts.files
    advice = "Build a new version, which has one: artifactctl build"
    return Finding(requirement, there, f"{BOM} is {'there' if there else 'missing'}", advice)


def _chosen(facts: Facts, entries: Sequence[Mapping[str, Any]], key: str) -> Mapping[str, Any] | None:
    """What the evidence says of the model that the artifact holds."""
    return next((entry[key] for entry in entries if entry["recipe"] == facts.metadata["recipe"]["name"]), None)


_JUDGES: Mapping[str, Callable[[Requirement, Facts], Finding]] = {
    "equivalence": _equivalence,
    "latency": _latency,
    "accuracy": _accuracy,
    "signature": _signature,
    "license": _license,
    "bom": _bom,
}
