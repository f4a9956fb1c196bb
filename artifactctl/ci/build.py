"""Build, package, and hand over; the same commands that a person would type."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artifactctl import folder
from artifactctl.ci import command, inputs, page, stage
from artifactctl.ci.blame import line_of
from artifactctl.ci.finished import Finished, Remark, told
from artifactctl.ci.restore import restore_released
from artifactctl.steps.package import DIST

OPERATORS = 5


def build() -> Finished:
    models = inputs.words("models")
    restore_released(models)
    words = [
        "build",
        f"--package={DIST}",
        *inputs.repeated("recipe", "recipe"),
        *inputs.options("provider", "max-regression"),
        "--",
        *models,
    ]
    done = command.run(*words)
    errors = [_told(done)] if done.error else []
    entries = [_entry(found) for found in done.data.get("artifacts", []) if found["package"]]
    place = Path(inputs.text("output") or stage.default())
    stage.fill(place, entries, errors[0] if errors else None)
    code = errors[0]["exit_code"] if errors else 0
    return Finished(code, page.built(entries, errors), _outputs(entries, place), _remarks(done, errors))


def _told(done: command.Outcome) -> dict[str, Any]:
    assert done.error is not None
    return {**done.error, "exit_code": done.code, "line": done.line}


def _entry(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **found,
        "digest": folder.digest(Path(found["path"]) / folder.SUMS),
        "package": found["package"]["path"],
        "package_sha256": found["package"]["sha256"],
        "operators": _operators(found["path"]) if found["status"] == "built" else [],
    }


def _operators(path: str) -> list[dict[str, Any]]:
    """Where the time of a new version goes."""
    with tempfile.TemporaryDirectory(prefix="artifactctl-") as scratch:  # a release wants a clean working tree
        profile = command.run("profile", path, "--output", scratch)
    return list(profile.data["candidate"]["operators"][:OPERATORS]) if not profile.error else []


def _outputs(entries: list[dict[str, Any]], place: Path) -> dict[str, str]:
    """One model: plain values. Several: the same as JSON objects, by model."""
    fields = {"version": "version", "path": "path", "digest": "digest", "status": "status"}
    fields |= {"package": "package", "package-digest": "package_sha256"}
    by_model = {name: {entry["model"]: entry[field] for entry in entries} for name, field in fields.items()}
    alone = len(entries) == 1
    outputs = {name: str(next(iter(of.values()))) if alone else json.dumps(of) for name, of in by_model.items()}
    versions = {"versions": json.dumps(by_model["version"]), "digests": json.dumps(by_model["digest"])}
    return outputs | versions | {"folder": str(place)}


def _remarks(done: command.Outcome, errors: list[dict[str, Any]]) -> tuple[Remark, ...]:
    """One for each model that failed, at the line that set what it failed."""
    failed = done.data.get("failed", [])
    if not failed:
        return tuple(
            Remark(error["name"], told(error, error["line"]), line_of(error["name"], error["message"]))
            for error in errors
        )
    remarks = []
    for item in failed:
        (error,) = errors[:1]
        said = [line for line in error["message"].splitlines() if line.startswith(f"{item['model']}: ")]
        text = told(error | {"message": "\n".join(said) or error["message"]}, error["line"])
        remarks.append(Remark(item["error"], text, line_of(item["error"], error["message"], item["model"])))
    return tuple(remarks)
