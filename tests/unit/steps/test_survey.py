"""Numbers of one model by itself, from the times that came back."""

from __future__ import annotations

from typing import Any

from artifactctl.records import LatencyReport, Timing
from artifactctl.steps.survey import refused, surveyed


def row(threads: int, batch: int, times: list[int], children: int = 6, failure: str | None = None) -> dict[str, Any]:
    child = {
        "load_ns": 1_000_000,
        "first_ns": 2_000_000,
        "times_ns": times,
        "peak_rss_bytes": 3_000_000,
        "cpu_cores": 1.5,
    }
    return {"threads": threads, "batch": batch, "children": [child] * children, "failure": failure}


def report(rows: list[dict[str, Any]]) -> LatencyReport:
    empty = LatencyReport("cpu", "not-slower", 1.0, 0.9, 1.1, 0.1, 0.1, 0.99, 100, 5, 1.0, Timing(1), Timing(1))
    return surveyed(empty, {"candidate": rows, "baseline": rows})


def test_percentiles_only_where_enough_runs_support_them() -> None:
    few = report([row(2, 1, [4_000_000] * 21)]).candidate  # 126 runs
    assert (few.p50_ms, few.p95_ms, few.p99_ms) == (4.0, None, None)
    some = report([row(2, 1, [4_000_000] * 22)]).candidate  # 132 runs
    assert (some.p95_ms, some.p99_ms) == (4.0, None)
    many = report([row(2, 1, [4_000_000] * 111)]).candidate  # 666 runs
    assert many.p99_ms == 4.0
    keys = ("p50_ms", "p95_ms", "p99_ms", "peak_rss_mb", "cpu_cores", "throughput_per_s")
    assert all(many.intervals[key] for key in keys)


def test_throughput_counts_rows() -> None:
    found = report([row(2, 1, [4_000_000] * 20), row(1, 1, [5_000_000]), row(1, 8, [16_000_000] * 3, 3)]).candidate
    assert found.throughput_per_s == 250.0
    rates = [(entry["threads"], entry["batch"], entry["per_s"]) for entry in found.throughput]
    assert rates == [(2, 1, 250.0), (1, 1, 200.0), (1, 8, 500.0)]
    assert found.throughput[2]["per_s_low"] == 500.0


def test_what_was_refused_is_named() -> None:
    rows = [row(1, 1, [1]), row(1, 8, [], 0, "it does not fit")]
    found = report(rows).candidate.throughput[1]
    assert (found["per_s"], found["failure"]) == (None, "it does not fit")
    texts = refused({"candidate": rows, "baseline": rows[:1]}, (8, 32))
    assert ["batch 32" in texts[0], "batch 8" in texts[1], "it does not fit" in texts[1]] == [True] * 3
