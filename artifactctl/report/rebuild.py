"""What a rebuild found, for machines and for people."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactctl.folder import shown
from artifactctl.report.text import number, table

if TYPE_CHECKING:
    from artifactctl.steps.rebuild import Comparison

MOST_ROWS = 12


def rebuild_data(path: Path, found: Comparison) -> dict[str, Any]:
    return {
        "verdict": found.verdict,
        "path": shown(path),
        "recipe": found.recipe,
        "reasons": found.reasons,
        "files": found.files,
        "metadata": found.metadata,
        "graph": found.graph,
        "outputs": [
            {"compared": what, "passed": report.passed, "samples": report.samples, "reason": report.reason}
            | {"outputs": [asdict(output) for output in report.outputs]}
            for what, report in found.outputs.items()
        ],
        "environment": found.environment,
    }


def rebuild_text(path: Path, found: Comparison) -> str:
    lines = [table(("file", "rebuilt"), [(entry["path"], entry["status"]) for entry in found.files]), ""]
    for entry in found.metadata[:MOST_ROWS]:
        lines.append(f"metadata  {entry['key']}: recorded {entry['recorded']}, rebuilt {entry['rebuilt']}")
    if len(found.metadata) > MOST_ROWS:
        lines.append(f"metadata  and {len(found.metadata) - MOST_ROWS} more places")
    lines += _graph_lines(found.graph) if found.graph else []
    for what, report in found.outputs.items():
        error = f"max error {number(report.largest('max_error'))} on {report.samples} samples"
        lines.append(f"outputs   {what}: {'ok' if report.passed else 'DIFFERENT'}, {report.reason or error}")
    lines += [
        f"here      {entry['package']}: {entry['here'] or 'missing'}, recorded {entry['recorded'] or 'missing'}"
        for entry in found.environment
    ]
    lines.append(f"choice    recipe {found.recipe!r} as recorded: times were not taken again")
    if found.verdict == "equivalent":
        lines.append(f"warning   not to the byte: {'; '.join(found.reasons)}")
    return "\n".join([*lines, f"{shown(path)}: {found.verdict}"])


def _graph_lines(graph: dict[str, Any]) -> list[str]:
    if "failure" in graph:
        return [f"graph     cannot be compared: {graph['failure']}"]
    if graph["same"]:
        return ["graph     computes the same: only names, order or encoding differ"]
    rows = [f"{entry['operator']} {entry['recorded']} → {entry['rebuilt']}" for entry in graph["operators"]]
    more = f" and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    weights = graph["weights"]
    which = f" ({', '.join(weights['names'])})" if weights["names"] else ""
    return [
        f"graph     operators: {', '.join(rows[:MOST_ROWS]) or 'as many of each kind'}{more}",
        f"graph     weights: {weights['recorded']} only in the artifact, {weights['rebuilt']} only rebuilt{which}",
    ]
