"""Whether every cell is proved: what was planned, what was built, what came back. Values in, values out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artifactctl.ci.evidence import Evidence

PROVED, DIFFERENT, MISSING, STALE, DAMAGED, TWICE, UNPLANNED, UNBUILT = (
    "proved", "different", "missing", "stale", "damaged", "twice", "not planned", "not built",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CellResult:
    model: str
    provider: str
    state: str
    reason: str = ""
    line: str = ""  # that a person types to see the same
    emulated: bool = False
    max_error: float | None = None
    outputs: tuple[str, ...] = ()  # those that failed

    @property
    def good(self) -> bool:
        return self.state == PROVED


def judge(
    planned: Sequence[Mapping[str, Any]], built: Sequence[Mapping[str, Any]], found: Sequence[Evidence]
) -> list[CellResult]:
    """One result for every planned cell, and one for every file that belongs to none."""
    artifacts = {entry["model"]: entry for entry in built}
    damaged = {each.name: each.damage for each in found}
    read = [each for each in found if not damaged[each.name]]
    keys = {(cell["model"], cell["provider"]) for cell in planned}
    results = [
        _cell(
            cell,
            artifacts.get(cell["model"]),
            [each for each in read if each.cell == (cell["model"], cell["provider"])],
        )
        for cell in planned
    ]
    results += [
        CellResult(*each.cell, UNPLANNED, f"{each.name} is of a cell that was not planned")
        for each in read if each.cell not in keys
    ]  # fmt: skip
    return results + [
        CellResult("?", "?", DAMAGED, f"{name} cannot be read as evidence: {why}")
        for name, why in damaged.items() if why
    ]  # fmt: skip


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
        why = f"it proves version {data['version']} with digest {proved}…, built was {artifact['version']} with {made}…"
        return CellResult(model, provider, STALE, why, line, emulated, worst)
    failed = {each["name"]: why for each in data["outputs"] if (why := _why_failed(each))}
    if data["verdict"] != "equivalent" or failed or not data["outputs"] or not data["samples"]:
        told = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        why = told or ("the verdict is different" if data["outputs"] and data["samples"] else "nothing was compared")
        return CellResult(model, provider, DIFFERENT, why, line, emulated, worst, tuple(failed))
    return CellResult(model, provider, PROVED, "", line, emulated, worst)


def _why_failed(output: Mapping[str, Any]) -> str:
    """What it claims is believed only where its own numbers agree; empty where it passed."""
    error, bound = output.get("max_error"), output.get("bound")
    if not output["passed"]:
        return output.get("reason") or "no reason"
    if error is not None and bound is not None and error > bound:
        return f"it claims to have passed with {error:g} over {bound:g}"
    return ""


def _worst(outputs: Sequence[Mapping[str, Any]]) -> float | None:
    return max((each["max_error"] for each in outputs if each.get("max_error") is not None), default=None)
