"""The result of a paired measurement, for machines and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactctl import verdicts
from artifactctl.folder import shown
from artifactctl.report.names import markdown_table
from artifactctl.report.text import table

if TYPE_CHECKING:
    from artifactctl.records import LatencyReport, Timing
    from artifactctl.steps.bench import Bench

HEAD = ("model", "size", "latency p50", "throughput", "Δ accuracy")
MORE = {
    "p95_ms": ("p95", " ms"),
    "p99_ms": ("p99", " ms"),
    "load_ms": ("load", " ms"),
    "first_run_ms": ("first run", " ms"),
    "peak_rss_mb": ("peak memory", " MB"),
    "cpu_cores": ("CPU", " cores"),
}


def bench_data(found: Bench, saved: Path | None) -> dict[str, Any]:
    report = found.report.numbers()
    del report["sample"]
    if any(type(problem).__name__ == "NotAvailable" for problem in found.problems):
        report["verdict"] = "not-comparable"
    return report | {
        "model": found.subject.name,
        "version": found.subject.version,
        "drift": found.drift.numbers() if found.drift else None,
        "history": list(found.history),
        "machine": found.machine,
        "noise": list(found.noise),
        "warnings": list(found.warnings),
        "session": asdict(found.session),
        "baseline_file": shown(saved) if saved else None,
    }


def bench_text(found: Bench, *, markdown: bool) -> str:
    report, subject = found.report, found.subject
    form = markdown_table if markdown else table
    rows = [_row(subject.label, report.candidate, subject.accuracy_drop), _row(report.against, report.baseline, None)]
    more = [*_more_rows(report), *_throughput_rows(report)]
    lines = [form(HEAD, rows), "", form(("measure", subject.label, report.against), more), ""]
    lines.append(f"verdict   {verdicts.sentence(report.numbers())}")
    if report.detection_limit is not None:
        lines.append(
            f"seen      slow-downs from {report.detection_limit:.1%} on; {report.rounds} fresh processes, "
            f"{report.pairs} pairs, {report.seconds:.1f} s, confidence {report.confidence:g}"
        )
    if found.drift:
        lines.append(f"drift     {verdicts.sentence(found.drift.numbers())}")
    if any(entry["ratio"] for entry in found.history):
        steps = (f"v{entry['version']} {_step(entry)}" for entry in found.history)
        lines.append(f"history   {' → '.join(steps)}, each against the version before")
    lines += [f"warning   {text}" for text in found.warnings]
    return "\n".join(lines)


def export_text(data: Mapping[str, Any]) -> str:
    return "\n".join(
        (
            f"written   {data['path']} ({data['size_bytes'] / 1e6:.2f} MB)",
            "run it    on the other machine: unpack it, install numpy and its onnxruntime, python bench.py",
            "then      artifactctl bench --import result.json",
        )
    )


def _step(entry: Mapping[str, Any]) -> str:
    return verdicts.spread(entry, unit="") or "–"


def _more_rows(report: LatencyReport) -> list[tuple[str, ...]]:
    sides = (report.candidate, report.baseline)
    return [(name, *(_cell(side, key, unit) for side in sides)) for key, (name, unit) in MORE.items()]


def _throughput_rows(report: LatencyReport) -> list[tuple[str, ...]]:
    def rate(entry: Mapping[str, Any]) -> str:
        return _with_spread(entry["per_s"], (entry["per_s_low"], entry["per_s_high"]), "/s")

    pairs = zip(report.candidate.throughput, report.baseline.throughput, strict=True)
    found = sorted(pairs, key=lambda pair: (pair[0]["batch"], pair[0]["threads"]))
    return [
        (f"throughput, batch {one['batch']}, {plural(one['threads'], 'thread')}", rate(one), rate(other))
        for one, other in found
    ]


def _row(label: str, timing: Timing, drop: float | None) -> tuple[str, ...]:
    size = f"{timing.size_bytes / 1e6:.2f} MB"
    latency, throughput = _cell(timing, "p50_ms", " ms"), _cell(timing, "throughput_per_s", "/s")
    return (label, size, latency, throughput, "–" if drop is None else f"{drop:+.4f}")


def _cell(timing: Timing, key: str, unit: str) -> str:
    return _with_spread(getattr(timing, key), timing.intervals.get(key) or (None, None), unit)


def _with_spread(value: float | None, spread: Sequence[float | None], unit: str) -> str:
    if value is None:
        return "–"
    low, high = spread
    return f"{_short(value)}{unit}" + ("" if low is None or high is None else f" ({_short(low)}–{_short(high)})")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
