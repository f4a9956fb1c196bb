"""Collects the evidence of all cells; red, missing, stale or double is a failure, and so is no cell at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from artifactctl.ci import evidence, inputs, judging, page, stage
from artifactctl.ci.blame import line_of
from artifactctl.ci.finished import Finished, Remark
from artifactctl.ci.judging import DAMAGED, DIFFERENT, CellResult
from artifactctl.errors import ArtifactDamaged, ConfigError, NotEquivalent, NotProven

READ_ONLY = "This is a pull request: it is built and proved, and nothing is released."


def gate() -> Finished:
    planned = _planned()
    build = stage.read(Path(inputs.required("build")))
    found = evidence.read(Path(inputs.required("evidence")))
    results = judging.judge(planned, build["artifacts"] if build else [], found)
    remarks = tuple(_remark(result) for result in results if not result.good)
    notes = [READ_ONLY] if os.environ.get("GITHUB_EVENT_NAME") == "pull_request" else []
    code = _code(results) or (build["error"]["exit_code"] if build and build["error"] else 0)
    outputs = {"verdict": "proved" if code == 0 else "not-proved"}
    return Finished(code, page.gated(results, build, notes), outputs, remarks)


def _code(results: list[CellResult]) -> int:
    states = {result.state for result in results if not result.good}
    if DIFFERENT in states:
        return NotEquivalent.exit_code
    return ArtifactDamaged.exit_code if DAMAGED in states else NotProven.exit_code if states else 0


def _planned() -> list[dict[str, Any]]:
    found = inputs.document("matrix")
    cells = found.get("include") if isinstance(found, dict) else None
    if not cells:
        raise ConfigError("there are no cells to judge", hint="Give models and providers in artifactctl.yaml.")
    named = isinstance(cells, list) and all(
        isinstance(cell, dict) and all(isinstance(cell.get(key), str) for key in ("model", "provider"))
        for cell in cells
    )
    if not named:
        hint = "Hand over the output of 'artifactctl matrix --format github', unchanged."
        raise ConfigError("the input 'matrix' holds something other than cells", hint=hint)
    return list(cells)


def _remark(result: CellResult) -> Remark:
    name = {DIFFERENT: "NotEquivalent", DAMAGED: "ArtifactDamaged"}.get(result.state, "NotProven")
    text = f"{result.model} on {result.provider}: {result.state}: {result.reason}"
    text += f"\nThe same on your machine: {result.line}" if result.line else ""
    return Remark(name, text, line_of(name, "", result.model, result.provider, result.outputs))
