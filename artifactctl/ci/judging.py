"""Whether every cell is proved: what was planned, what was built, what came back. Values in, values out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artifactctl import schema

PROVED, DIFFERENT, MISSING, STALE, DAMAGED, TWICE, UNPLANNED, UNBUILT = (
    "proved", "different", "missing", "stale", "damaged", "twice", "not planned", "not built",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evidence:
    """A file that came back, and what it says; None where it is no JSON."""

    name: str
    data: Any


@dataclass(frozen=True, slots=True)
class CellResult:
    model: str
    provider: str
    state: str
    reason: str = ""
    line: str = ""  # that a person types to see the same
    emulated: bool = False
    max_error: float | None = None

    @property
    def good(self) -> bool:
        return self.state == PROVED


def judge(
    planned: Sequence[Mapping[str, Any]], built: Sequence[Mapping[str, Any]], found: Sequence[Evidence]
) -> list[CellResult]:
    """One result for every planned cell, and one for every file that belongs to none."""
    artifacts = {entry["model"]: entry for entry in built}
    unread = [each for each in found if not isinstance(each.data, dict) or schema.problems(each.data, "cell")]
    read = [each for each in found if each not in unread]
    keys = {(cell["model"], cell["provider"]) for cell in planned}
    results = [
        _cell(
            cell,
            artifacts.get(cell["model"]),
            [each for each in read if _key(each) == (cell["model"], cell["provider"])],
        )
        for cell in planned
    ]
    results += [
        CellResult(*_key(each), UNPLANNED, f"{each.name} is of a cell that was not planned")
        for each in read if _key(each) not in keys
    ]  # fmt: skip
    return results + [CellResult("?", "?", DAMAGED, f"{each.name} cannot be read as evidence") for each in unread]


def _key(evidence: Evidence) -> tuple[str, str]:
    return evidence.data["model"], evidence.data["provider"]


def _cell(cell: Mapping[str, Any], artifact: Mapping[str, Any] | None, found: Sequence[Evidence]) -> CellResult:
    model, provider = cell["model"], cell["provider"]
    if artifact is None:
        return CellResult(
            model, provider, UNBUILT, "the build made no artifact", shlex.join(["artifactctl", "build", model])
        )
    place = f"artifacts/{model}/artifact_v{artifact['version']}"
    line = shlex.join(["artifactctl", "verify", place, "--provider", provider])
    if not found:
        return CellResult(model, provider, MISSING, "no evidence came back: the cell failed, or never ran", line)
    if len(found) > 1:
        names = " and ".join(sorted(each.name for each in found))
        return CellResult(model, provider, TWICE, f"{len(found)} files claim this cell: {names}", line)
    data = found[0].data
    emulated, worst = bool(data.get("emulated")), _worst(data["outputs"])
    if (data["artifact_sha256"], data["version"]) != (artifact["digest"], artifact["version"]):
        proved, made = data["artifact_sha256"][:12], artifact["digest"][:12]
        why = f"it proves version {data['version']} with digest {proved}…, built was {made}…"
        return CellResult(model, provider, STALE, why, line, emulated, worst)
    if data["verdict"] != "equivalent" or not data["outputs"] or not all(each["passed"] for each in data["outputs"]):
        failed = "; ".join(f"{each['name']}: {each['reason']}" for each in data["outputs"] if not each["passed"])
        return CellResult(model, provider, DIFFERENT, failed or "no output was compared", line, emulated, worst)
    return CellResult(model, provider, PROVED, "", line, emulated, worst)


def _worst(outputs: Sequence[Mapping[str, Any]]) -> float | None:
    return max((each["max_error"] for each in outputs if each["max_error"] is not None), default=None)
