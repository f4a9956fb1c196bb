"""The pages that people read: the verdict first, then why, then what to type. Names of others stand in code spans."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artifactctl import verdicts
from artifactctl.report.names import code, markdown_table
from artifactctl.report.text import candidate_row, number

if TYPE_CHECKING:
    from artifactctl.ci.judging import CellResult

GOOD, BAD, OPEN = "✅", "❌", "⚠️"
LONG = 400
Entry = Mapping[str, Any]


def failed(step: str, name: str, message: str, hint: str, line: str | None = None) -> str:
    parts = [f"## {BAD} artifactctl {step}: {name}", *_lines(message), "**Next**", *_lines(hint)]
    return _page([*parts, *_reproduce(line)])


def planned(cells: Sequence[Entry]) -> str:
    rows = [
        (code(cell["model"]), code(cell["provider"]), code(", ".join(cell["runs_on"])), _emulated(cell["emulated"]))
        for cell in cells
    ]
    many = f"{len(cells)} cell" + ("s" if len(cells) > 1 else "")
    return _page([f"## artifactctl: {many} to prove", markdown_table(("model", "provider", "runs on", ""), rows)])


def built(entries: Sequence[Entry], errors: Sequence[Entry]) -> str:
    told = [text for error in errors for text in _error(error)]
    names = ", ".join(code(f"{entry['model']} artifact_v{entry['version']}") for entry in entries)
    head = f"## {BAD} artifactctl build failed" if errors else f"## {GOOD} artifactctl: {names} proved"
    return _page([head, *told, *(text for entry in entries for text in _artifact(entry))])


def verified(data: Entry, title: str, error: Mapping[str, str] | None, line: str) -> str:
    if not data.get("outputs"):
        assert error is not None
        return failed("verify", error["name"], error["message"], error["hint"], line)
    good = error is None
    head = f"## {GOOD if good else BAD} {code(title)} on {code(data['provider'])}: {data['verdict']}"
    why = [] if error is None else [*_lines(error["message"]), *_reproduce(line)]
    return _page([head, *([_emulated(True)] if data.get("emulated") else []), *why, _outputs(data["outputs"])])


def gated(results: Sequence[CellResult], build: Entry | None, remarks: Sequence[str]) -> str:
    red = [result for result in results if not result.good]
    good = bool(results) and not red and not (build or {}).get("error")
    told = f"{len(red)} of {len(results)} cells are not proved" if red or not results else "the build failed"
    head = "every cell is proved" if good else told
    rows = [
        (
            code(result.model), code(result.provider), f"{GOOD if result.good else BAD} {result.state}",
            _emulated(result.emulated), number(result.max_error), code(result.reason, LONG) if result.reason else "",
            code(result.line, LONG) if not result.good else "",
        )
        for result in results
    ]  # fmt: skip
    columns = ("model", "provider", "verdict", "", "max error", "why", "the same on your machine")
    parts = [f"## {GOOD if good else BAD} artifactctl: {head}", *remarks, markdown_table(columns, rows)]
    if build is not None:
        parts += _error(build["error"]) if build["error"] else []
        parts += [text for entry in build["artifacts"] for text in _artifact(entry)]
    return _page([*parts, *_links()])


def released(rows: Sequence[tuple[str, str, str]]) -> str:
    """Tag, what happened, where it is."""
    table = markdown_table(
        ("tag", "status", "where"), [(code(tag), code(word), code(at, LONG)) for tag, word, at in rows]
    )
    return _page([f"## {GOOD} artifactctl: released", table, *_links()])


def _artifact(entry: Entry) -> list[str]:
    title = (
        f"### {code(entry['model'])} artifact_v{entry['version']}: {entry['status']}, recipe {code(entry['recipe'])}"
    )
    rows = [
        tuple(code(text, LONG) if text != "–" else text for text in candidate_row(each)) for each in entry["candidates"]
    ]
    columns = ("recipe", "result", "size", "max error", "time ÷ source", "why")
    speed = [code(verdicts.sentence(report), LONG) for report in entry["latency"].values() if report]
    parts = [title, code(entry["reason"], LONG), markdown_table(columns, rows), *(f"Speed: {text}" for text in speed)]
    if entry.get("operators"):
        shares = [
            (code(each["operator"]), f"{each['share']:.0%}", f"{each['time_us']:.0f} µs", str(each["nodes"]))
            for each in entry["operators"]
        ]
        parts += ["Where its time goes:", markdown_table(("operator", "share", "of one run", "nodes"), shares)]
    return [*parts, f"Package {code(os.path.basename(entry['package']))}, sha256 {code(entry['package_sha256'])}"]  # noqa: PTH119


def _outputs(outputs: Sequence[Entry]) -> str:
    rows = [
        (
            code(each["name"]), GOOD if each["passed"] else BAD, number(each["max_abs"]), number(each["max_error"]),
            number(each["bound"]), number(each["rel_l2"]),
        )
        for each in outputs
    ]  # fmt: skip
    return markdown_table(("output", "", "max |Δ|", "max error", "bound", "rel L2"), rows)


def _error(error: Entry) -> list[str]:
    return [
        f"**{error['name']}**",
        *_lines(error["message"]),
        "**Next**",
        *_lines(error["hint"]),
        *_reproduce(error["line"]),
    ]


def _lines(text: str) -> list[str]:
    return ["\n".join(f"- {code(line.strip(), LONG)}" for line in text.splitlines() if line.strip())]


def _reproduce(line: str | None) -> list[str]:
    return [f"The same on your machine: {code(line, LONG)}"] if line else []


def _emulated(emulated: bool) -> str:
    return f"{OPEN} emulated" if emulated else ""


def _links() -> list[str]:
    server, repository, run = (os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    if not (server and repository and run):
        return []
    return [f"[Packages, evidence and model cards of this run]({server}/{repository}/actions/runs/{run}#artifacts)"]


def _page(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n\n"
