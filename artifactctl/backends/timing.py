"""One round of paired timing: two fresh sessions, run in turn in random ABBA order. Judging is done elsewhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from artifactctl.backends import core
from artifactctl.backends.proof import read_sample

SAMPLE_NS = 300_000  # runs shorter than this are timed several at a time
WARM_UP, SLOW_NS = 5, 200_000_000  # a slow model is warm after two runs


def measure_round(
    candidate: str, baseline: str, sample: str, settings: dict[str, Any], seed: int, pairs: int, limit_s: float
) -> dict[str, Any]:
    """Times in ns of single runs, as pairs that lie next to each other in time; fewer when `limit_s` ends first."""
    dice = random.Random(seed)
    feeds = read_sample(Path(sample))["inputs"]
    sessions: dict[str, Any] = {}
    loads: dict[str, int] = {}
    for side, path in dice.sample([("candidate", candidate), ("baseline", baseline)], 2):
        started = perf_counter_ns()
        sessions[side] = core.open_session(path, settings)
        loads[side] = perf_counter_ns() - started
    deadline = perf_counter_ns() + int(limit_s * 1e9)
    runs = {side: core.prepare(session, feeds) for side, session in sessions.items()}
    repeats = {side: _warm_up(run) for side, run in runs.items()}
    repeat = max(repeats.values())
    times: list[tuple[int, int]] = []
    while len(times) < pairs and (not times or perf_counter_ns() < deadline):
        first, second = dice.sample(["candidate", "baseline"], 2)
        for order in ((first, second), (second, first)):
            taken = {side: _time(runs[side], repeat) for side in order}
            times.append((taken["candidate"], taken["baseline"]))
    return {
        "pairs_ns": times,
        "repeat": repeat,
        "load_ns": [loads["candidate"], loads["baseline"]],
    }


def _warm_up(run: Callable[[], Any]) -> int:
    first = _time(run, 1)
    more = WARM_UP - 1 if first < SLOW_NS else 1
    taken = min(_time(run, 1) for _ in range(more))
    return max(1, min(200, SAMPLE_NS // max(1, taken)))


def _time(run: Callable[[], Any], repeat: int) -> int:
    started = perf_counter_ns()
    for _ in range(repeat):
        run()
    return (perf_counter_ns() - started) // repeat
