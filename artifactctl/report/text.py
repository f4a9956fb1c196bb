"""Tables and sentences for people, and the data that goes into JSON beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactctl import verdicts
from artifactctl.folder import KEPT_MODEL, ArtifactFolder, shown
from artifactctl.metadata import (
    candidate_name,
    decision_texts,
    margin_text,
    session_texts,
    sizes_text,
    speed_texts,
    warnings,
)
from artifactctl.portability import portability_text, portability_warnings
from artifactctl.providers import PROVIDERS
from artifactctl.report.upkeep import info_text

if TYPE_CHECKING:
    from artifactctl.policy import Finding
    from artifactctl.records import EquivalenceReport
    from artifactctl.steps.signing import Signed

LATENCIES = ("previous", "oldest", "defaults")


def mark(good: bool) -> str:
    return "ok     " if good else "problem"


def number(value: float | None, form: str = ".2e") -> str:
    return "–" if value is None else format(value, form)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def build_data(built: Sequence[ArtifactFolder]) -> dict[str, Any]:
    return {
        "artifacts": [
            {
                "model": item.model,
                "version": item.version,
                "path": shown(item.path),
                "status": item.status,
                "recipe": item.metadata["recipe"]["name"],
                "reason": item.metadata["recipe"]["reason"],
                "accuracy_drop": item.metadata["accuracy_drop"],
                "latency": {name: (item.metadata["latency"] or {}).get(name) for name in LATENCIES},
                "candidates": [
                    entry | {"worst": shown(item.kept[entry["recipe"]]) if entry["recipe"] in item.kept else None}
                    for entry in item.metadata["recipe"]["candidates"]
                ],
            }
            for item in built
        ]
    }


def build_text(built: Sequence[ArtifactFolder]) -> str:
    return "\n\n".join(_unchanged_text(item) if item.status == "unchanged" else _built_text(item) for item in built)


def _unchanged_text(item: ArtifactFolder) -> str:
    return f"{item.model}: unchanged, {shown(item.path)} was made from just these inputs"


def _built_text(item: ArtifactFolder) -> str:
    meta = item.metadata
    rows = [candidate_row(entry) for entry in meta["recipe"]["candidates"]]
    lines = [table(("recipe", "result", "size", "max error", "time ÷ source", "why"), rows), ""]
    proof = meta["equivalence"]
    lines.append(
        f"proved    {proof['statement']} against {meta['reference']['framework']} on {proof['samples']} samples"
    )
    noise = meta["reference"]["noise"].get("float64")
    lines += [f"margin    {text}" for text in [margin_text(proof["outputs"], noise, meta)] if text]
    lines += [f"decisions {text}" for text in decision_texts(proof["outputs"], meta)]
    lines += [f"session   {text}" for text in session_texts(meta)]
    if (accuracy := proof["accuracy"]) and accuracy["drop"] is not None:
        numbers = f"source {accuracy['source']:.4f}, artifact {accuracy['candidate']:.4f}"
        lines.append(f"accuracy  drop {accuracy['drop']:+.4f} ({numbers}, {accuracy['samples']} labelled samples)")
    lines += [f"timed     {text}" for text in [sizes_text(meta)] if text]
    lines += [f"speed     {text}" for text in speed_texts(meta)]
    lines += [f"warning   {text}" for text in warnings(meta)]
    if item.kept:
        recipe, kept = next(iter(item.kept.items()))
        model = shown(kept.parents[1] / KEPT_MODEL)
        lines.append(f"different {', '.join(item.kept)}: the worst samples are kept. Look again, for {recipe}:")
        lines.append(f"          artifactctl verify {model} --replay {shown(kept)}")
    for result in meta["recipe"]["passes"]:
        lines.append(
            f"pass      {result['name']}: {result['status']}{': ' + result['detail'] if result['detail'] else ''}"
        )
    lines.append(f"written   {shown(item.path)} (recipe {meta['recipe']['name']})")
    lines.append(f"check it  python {shown(item.path / 'validate.py')}")
    return "\n".join(lines)


def candidate_row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    latency, equivalence = entry["latency"] or {}, entry["equivalence"] or {}
    spread = verdicts.spread(latency, unit="", digits=2) if latency else ""
    size = "–" if entry["size_bytes"] is None else f"{entry['size_bytes'] / 1e6:.2f} MB"
    reason = entry["reason"] if len(entry["reason"]) <= 110 else f"{entry['reason'][:109]}…"
    return (
        candidate_name(entry),
        entry["status"],
        size,
        number(equivalence.get("max_error")),
        spread or "–",
        reason.replace("\n", " "),
    )


def verify_data(
    report: EquivalenceReport,
    *,
    checked: bool = True,
    worst: Path | None = None,
    signed: Signed | None = None,
    findings: Sequence[Finding] = (),
) -> dict[str, Any]:
    return {
        "verdict": "equivalent" if report.passed else "different",
        "integrity": "ok" if checked else "not-checked",
        "samples": report.samples,
        "provider": report.provider,
        "emulated": PROVIDERS[report.provider].emulated,
        "placement": report.placement,
        "outputs": [asdict(output) for output in report.outputs],
        "accuracy": asdict(report.accuracy) if report.accuracy else None,
        "search": report.search,
        "worst": shown(worst) if worst else None,
        "signature": signed.as_json() if signed else None,
        "required": [finding.as_json() for finding in findings],
    }


def damaged_data(provider: str | None, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    found = {"verdict": "different", "integrity": "damaged", "samples": 0, "provider": provider, "outputs": []}
    return found | {"required": [finding.as_json() for finding in findings]}


def verify_text(path: Path, report: EquivalenceReport, meta: Mapping[str, Any] | None = None) -> str:
    rows = [
        (
            output.name, number(output.max_abs), number(output.max_error), number(output.bound), number(output.rel_l2),
            number(output.cosine, ".6f"), number(output.top1, ".4f"),
            output.reason or ("ok" if not output.vacuous else "ok, but constant over all samples"),
        )
        for output in report.outputs
    ]  # fmt: skip
    verdict = "equivalent" if report.passed else "DIFFERENT"
    lines = [table(("output", "max |Δ|", "max error", "bound", "rel L2", "cosine", "top-1", "verdict"), rows), ""]
    outputs = [asdict(output) for output in report.outputs]
    noise = meta["reference"]["noise"].get("float64") if meta else None
    lines += [f"margin    {text}" for text in [margin_text(outputs, noise, meta)] if text]
    lines += [f"decisions {text}" for text in decision_texts(outputs, meta)]
    if report.accuracy and report.accuracy.drop is not None:
        lines.append(f"accuracy  drop {report.accuracy.drop:+.4f} on {report.accuracy.samples} labelled samples")
    if report.search:
        lines.append(f"search    {_search_text(report.search)}")
    whole = "whole, " if meta else ""
    where = ", ".join(f"{count} nodes on {name}" for name, count in (report.placement or {}).items())
    placed = ", emulated" if PROVIDERS[report.provider].emulated else ""
    placed += f" ({where})" if where else ""
    lines.append(f"{shown(path)}: {whole}{verdict} on {report.samples} samples, provider {report.provider}{placed}")
    return "\n".join(lines)


def _search_text(search: Mapping[str, Any]) -> str:
    found = "not a number" if search["found"] is None else f"{search['found']:.3g} of the bound"
    begun = "not a number" if search["start"] is None else f"{search['start']:.3g}"
    return f"{search['evaluations']} inputs tried; the largest error went from {begun} to {found}"


def inspect_text(data: Mapping[str, Any]) -> str:
    opsets = ", ".join(f"{domain} {version}" for domain, version in data["opsets"].items())
    lines = [
        f"{data['path']}: {data['size_bytes'] / 1e6:.2f} MB, {data['parameters']:,} parameters, {data['precision']}",
        f"IR {data['ir_version']}, opset {opsets}, portability {portability_text(data)}",
    ]
    if data["producer"]:
        lines[-1] += f", made by {data['producer']}"
    lines += [f"warning: {text}" for text in portability_warnings(data)]
    if "artifact" in data:
        artifact = data["artifact"]
        lines.append(f"artifact {artifact['model_name']} v{artifact['version']}: {artifact['optimization']}")
    for side in ("inputs", "outputs"):
        rows = [(value["name"], value["dtype"], str(value["shape"])) for value in data[side]]
        lines += ["", table((side, "type", "shape"), rows)]
    if "plan" in data:
        lines += ["", *_plan_lines(data["plan"])]
    rows = [(entry["operator"], entry["domain"], str(entry["count"])) for entry in data["operators"][:20]]
    lines += ["", table(("operator", "domain", "count"), rows)]
    if len(data["operators"]) > 20:
        lines.append(f"… and {len(data['operators']) - 20} more kinds")
    return "\n".join(lines)


def _plan_lines(plan: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            spec["name"],
            spec["fill"],
            str(spec.get("range") or spec.get("values") or spec.get("arrays") or "–"),
            spec["why"],
        )
        for spec in plan["inputs"]
    ]
    lines = [table(("tried with", "how", "which", "why"), rows)]
    sizes = {tuple(entry["dims"].items()) for entry in plan["sets"]}
    shown_sizes = "; ".join(sorted(", ".join(f"{name} {size}" for name, size in dims) for dims in sizes if dims))
    kinds = sorted({entry["kind"] for entry in plan["sets"]})
    lines.append(f"{len(plan['sets'])} sets, floats {', '.join(kinds)}; sizes: {shown_sizes or 'as declared'}")
    lines += [f"outside its domain: {entry['dims']}: {entry['message'][:120]}" for entry in plan["outside"][:5]]
    for branch in plan["branches"]:
        sides = " and ".join("then" if side else "else" for side in branch["taken"])
        lines.append(f"branch on {branch['condition']!r}: {sides} taken")
    return lines


def matrix_text(cells: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (cell["model"], cell["provider"], ", ".join(cell["runs_on"]), cell["extra"] or "–", _real(cell))
        for cell in cells
    ]
    return table(("model", "provider", "runs on", "extra", "device"), rows)


def _real(entry: Mapping[str, Any]) -> str:
    return "emulated" if entry["emulated"] else "real"


def doctor_text(data: Mapping[str, Any]) -> str:
    lines = [f"artifactctl {data['artifactctl']}, Python {data['python']} on {data['system']}-{data['machine']}"]
    lines.append(f"{data['cpu'] or 'unknown CPU'}, {data['cores']} cores")
    git = data["git"]
    where = "in a repository" if git["repository"] else "not in a repository"
    lines.append(f"git {git['version'] or 'missing'}, {where}")
    lines.append(info_text(data["cache"]))
    rows = [(entry["name"], entry["version"] or "missing", entry["needed_to"]) for entry in data["packages"]]
    lines += ["", table(("package", "version", "needed to"), rows)]
    rows = [
        (entry["name"], entry["version"] or "missing", entry["needed_to"] if entry["version"] else entry["install"])
        for entry in data["stores"]
    ]
    lines += ["", table(("store", "version", "how"), rows)]
    places = [
        (
            entry["name"],
            "yes" if entry["available"] else "no",
            ", ".join(entry["runs_on"]) or "your own label",
            _real(entry),
            entry["remark"] if entry["available"] else f"{entry['why']}; {entry['install']}",
        )
        for entry in data["providers"]
    ]
    lines += ["", table(("provider", "here", "runs on", "device", "what"), places), ""]
    lines += [
        f"missing: {entry['what']}, needed to {entry['needed_to']}. Type: {entry['install']}"
        for entry in data["missing"]
    ]
    if not data["missing"]:
        lines.append("nothing is missing")
    for item in data["leftovers"]:
        lines.append(f"removed: {item['what']}" if item["removed"] else f"left: {item['what']}. Type: {item['type']}")
    return "\n".join(lines)
