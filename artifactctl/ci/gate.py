"""Collects the evidence of all cells; red, missing, stale or double is a failure, and so is no cell at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

from artifactctl.ci import inputs, judging, page, stage
from artifactctl.ci.blame import line_of
from artifactctl.ci.finished import Finished, Remark
from artifactctl.ci.judging import DAMAGED, DIFFERENT, CellResult, Evidence
from artifactctl.errors import ArtifactDamaged, ConfigError, NotEquivalent, NotProven

READ_ONLY = "This is a pull request: it is built and proved, and nothing is released."


def gate() -> Finished:
    planned = inputs.document("matrix")["include"]
    if not planned:
        raise ConfigError("there are no cells to judge", hint="Give models and providers in artifactctl.yaml.")
    build = stage.read(Path(inputs.required("build")))
    results = judging.judge(planned, build["artifacts"] if build else [], _evidence(Path(inputs.required("evidence"))))
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


def _evidence(place: Path) -> list[Evidence]:
    """Every file of the folder; what cannot be read is kept as such, never left out."""
    found = []
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            data = None
        found.append(Evidence(path.relative_to(place).as_posix(), data))
    return found


def _remark(result: CellResult) -> Remark:
    name = "NotEquivalent" if result.state == DIFFERENT else "NotProven"
    text = f"{result.model} on {result.provider}: {result.state}: {result.reason}"
    text += f"\nThe same on your machine: {result.line}" if result.line else ""
    return Remark(name, text, line_of(name, "", result.model, result.provider))
