"""The result of a paired measurement, for machines and for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactctl.folder import shown
from artifactctl.report.text import table

if TYPE_CHECKING:
    from artifactctl.records import Timing
    from artifactctl.steps.bench import Bench
    from artifactctl.steps.sides import Side

HEAD = ("model", "size", "latency p50", "p95", "p99", "throughput", "load", "first run", "memory", "Δ accuracy")


def bench_data(found: Bench, saved: Path | None) -> dict[str, Any]:
    report = asdict(found.report)
    del report["raw"], report["sample"]
    if any(type(problem).__name__ == "NotAvailable" for problem in found.problems):
        report["verdict"] = "not-comparable"
    session = asdict(found.session)
    more = {"machine": found.machine, "noise": list(found.noise), "warnings": list(found.warnings), "session": session}
    return report | more | {"baseline_file": shown(saved) if saved else None}


def bench_text(found: Bench, side: Side, *, markdown: bool) -> str:
    report = found.report
    drop = side.metadata["accuracy_drop"] if side.metadata else None
    rows = [_row(side.label, report.candidate, drop), _row(report.against, report.baseline, None)]
    lines = [markdown_table(HEAD, rows) if markdown else table(HEAD, rows), ""]
    lines.append(f"verdict   {_sentence(found)}")
    if report.detection_limit is not None:
        lines.append(
            f"seen      slow-downs from {report.detection_limit:.1%} on; {report.rounds} fresh processes, "
            f"{report.pairs} pairs, {report.seconds:.1f} s, confidence {report.confidence:g}"
        )
    lines += [f"warning   {text}" for text in found.warnings]
    return "\n".join(lines)


def _sentence(found: Bench) -> str:
    report = found.report
    if report.ratio is None or report.ratio_low is None or report.ratio_high is None:
        return "not proven: too slow for a second round"
    ratio = f"{report.ratio:.3f} × the time of {report.against} ({report.ratio_low:.3f}–{report.ratio_high:.3f})"
    words = {
        "not-slower": f"not slower by more than {report.limit:.1%}, proved",
        "regression": f"SLOWER by more than {report.limit:.1%}, proved",
        "not-proven": f"not proven whether slower by more than {report.limit:.1%}",
    }
    return f"{words[report.verdict]}: {ratio}"


def _row(label: str, timing: Timing, drop: float | None) -> tuple[str, ...]:
    def ms(key: str) -> str:
        value = getattr(timing, key)
        if value is None:
            return "–"
        spread = timing.intervals.get(key)
        return f"{value:.3g} ms" + (f" ({spread[0]:.3g}–{spread[1]:.3g})" if spread else "")

    return (
        label,
        f"{timing.size_bytes / 1e6:.2f} MB",
        ms("p50_ms"),
        ms("p95_ms"),
        ms("p99_ms"),
        "–" if timing.throughput_per_s is None else f"{timing.throughput_per_s:.4g}/s",
        ms("load_ms"),
        ms("first_run_ms"),
        "–" if timing.peak_rss_mb is None else f"{timing.peak_rss_mb:.3g} MB",
        "–" if drop is None else f"{drop:+.4f}",
    )


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
