"""Each model by itself, in fresh processes: absolute numbers with their intervals. History, never the judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from artifactctl.crew import Crew
from artifactctl.percentiles import interval_ms, milliseconds, percentile_of, quantile_interval
from artifactctl.records import LatencyReport, Timing
from artifactctl.steps.measure import Duel

CHILDREN, SURVEY_S = 6, 1.5  # the fewest of which a median has an interval
ROW_CHILDREN, ROW_S = 3, 0.5  # for each further row of the throughput


def survey_rows(inputs: Path, batched: bool, batches: Sequence[int], threads: int, crew: Crew) -> list[dict[str, Any]]:
    """What is run: first as in the gate, then for the throughput with 1 and many threads, by the sizes of a batch."""
    sample = crew.ask("runner", "describe_sample", path=str(inputs), batched=batched)
    own = {key: sample[key] for key in ("inputs", "batch")}
    rows = [{"threads": threads, "children": CHILDREN, "seconds": SURVEY_S} | own]
    more = sorted({*batches} - {own["batch"]}) if sample["growing"] else []
    for made in (own, *(crew.ask("runner", "with_rows", source=str(inputs), rows=size) for size in more)):
        for count in sorted({1, threads}):
            if (count, made["batch"]) != (threads, own["batch"]):
                rows.append({"threads": count, "children": ROW_CHILDREN, "seconds": ROW_S} | made)
    return rows


def surveyed(report: LatencyReport, found: dict[str, list[dict[str, Any]]]) -> LatencyReport:
    return replace(
        report,
        candidate=_with_survey(report.candidate, found["candidate"]),
        baseline=_with_survey(report.baseline, found["baseline"]),
    )


def _with_survey(timing: Timing, rows: Sequence[dict[str, Any]]) -> Timing:
    """With what fresh processes by themselves showed; percentiles only where enough runs support them."""
    children = rows[0]["children"]
    times = _times(rows[0])
    throughput = tuple(_throughput(row) for row in rows)
    memory = [child["peak_rss_bytes"] / 1e6 for child in children]
    cores = [child["cpu_cores"] for child in children]
    marks = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    values = {key: percentile_of(times, mark) for key, mark in marks.items()}
    spread = {key: interval_ms(times, mark) if values[key] else None for key, mark in marks.items()}
    rate = throughput[0]
    return replace(
        timing,
        p50_ms=milliseconds(values["p50_ms"]),
        p95_ms=milliseconds(values["p95_ms"]),
        p99_ms=milliseconds(values["p99_ms"]),
        throughput_per_s=rate["per_s"],
        peak_rss_mb=_rounded(percentile_of(memory, 0.5)),
        cpu_cores=_rounded(percentile_of(cores, 0.5)),
        throughput=throughput,
        intervals={
            **timing.intervals, **spread, "throughput_per_s": _pair(rate),
            "peak_rss_mb": _rounded_pair(memory), "cpu_cores": _rounded_pair(cores),
        },
    )  # fmt: skip


def _times(row: dict[str, Any]) -> list[int]:
    return [time for child in row["children"] for time in child["times_ns"]]


def _throughput(row: dict[str, Any]) -> dict[str, Any]:
    """Rows a second at so many threads and rows in a call; from the median time and its interval."""
    times = _times(row)
    middle, spread = percentile_of(times, 0.5), quantile_interval(times)
    return {
        "threads": row["threads"],
        "batch": row["batch"],
        "per_s": round(row["batch"] * 1e9 / middle, 3) if middle else None,
        "per_s_low": round(row["batch"] * 1e9 / spread[1], 3) if spread else None,
        "per_s_high": round(row["batch"] * 1e9 / spread[0], 3) if spread else None,
        "failure": row["failure"],
    }


def _pair(rate: dict[str, Any]) -> tuple[float, float] | None:
    return None if rate["per_s_low"] is None else (rate["per_s_low"], rate["per_s_high"])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _rounded_pair(values: Sequence[float]) -> tuple[float, float] | None:
    found = quantile_interval(values)
    return None if found is None else (round(found[0], 3), round(found[1], 3))


def refused(found: dict[str, list[dict[str, Any]]], batches: Sequence[int]) -> list[str]:
    """Throughput that was asked for and is not there."""
    measured = {row["batch"] for row in found["candidate"]}
    left = ", ".join(str(size) for size in batches if size not in measured)
    texts = [f"throughput at batch {left} is not measured: the rows of its inputs are no batch"] if left else []
    return texts + [
        f"throughput of the {side}, batch {row['batch']}, {row['threads']} threads, is not measured: {row['failure']}"
        for side, rows in found.items()
        for row in rows
        if row["failure"]
    ]


def denormals(duel: Duel, crew: Crew) -> list[str]:
    """Numbers so small that many CPUs compute with them slowly, which a measurement may be all about."""
    texts, task = [], duel.task()
    for side, path in task["models"].items():
        settings = task["settings"][side]
        found = crew.ask("runner", "count_denormals", path=path, settings=settings, inputs=task["inputs"])
        told = ", ".join(f"{count} of its {what}" for what, count in found.items() if count)
        if told:
            texts.append(f"the {side} computes with denormal numbers ({told}), which is slow on many CPUs")
    return texts
