# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "onnxruntime"]
# ///
"""Times two models in turn, in fresh processes: the candidate, and two sessions of the baseline.

python bench.py [--rounds N] [--budget S] [--threads N] [--output FILE]

It stands in a bundle that 'artifactctl bench --export' made, and needs numpy and onnxruntime. It measures and judges
nothing: 'artifactctl bench --import FILE' does.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import validate as core  # beside this file

SIDES = ("candidate", "baseline", "again")  # the last is the baseline once more
SAMPLE_NS = 300_000  # runs shorter than this are timed several at a time
WARM_UPS, SLOW_NS = 3, 200_000_000  # a slow model is warm after one run
LOADS, LOADS_NS = 16, 400_000_000  # of each side in a round of loads, and the time for all
COPIED_BYTES = 64_000_000  # of a model whose loads are timed: a larger one lies in too many places to be in luck
MOST_SAMPLES = 700  # steady runs of all children of a survey: enough for the 99th percentile
PATIENCE = 4  # a survey of a slow model may take so many times its seconds
OF_A_PROCESS = ("flush_denormals",)  # see stand_apart
# a model that does nothing: what a session costs by itself
EMPTY = bytes.fromhex(
    "08073a370a100a017812017922084964656e746974791201655a0f0a0178120a0a08080112040a020801620f0a0179120a0a"
    "08080112040a02080142040a00100d"
)
PADDING = 2_000_000  # bytes, at most, by which sessions are moved in memory


def one_round(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """Times in ns as (candidate, baseline, baseline again), each three next to one another in random order.

    None at all where one pair takes longer than the whole budget: `pair_ns` says how long.
    """
    dice = random.Random(seed)
    cores = pin(dice, task)
    if stand_apart(task):
        return one_at_a_time(task, seed) | {"cores": cores}
    feeds = read_inputs(task["inputs"])
    order, before = dice.sample(SIDES, len(SIDES)), peak_rss()
    runs, loads, firsts, padding = dict[str, Callable[[], Any]](), dict[str, int](), {}, []
    for number, side in enumerate(order):
        if len(SIDES) * (peak_rss() - before) > task["held_bytes"] * max(1, number):
            runs.clear()
            return one_at_a_time(task, seed) | {"cores": cores}
        padding.append(np.ones(dice.randrange(1, PADDING), np.uint8))
        runs[side], loads[side] = ready(task, side, feeds)
    for side in order:
        firsts[side] = timed(runs[side], 1)
    warm = {side: min(timed(runs[side], 1) for _ in range(warm_ups(firsts[side]))) for side in order}
    found = {
        "load_ns": loads,
        "first_ns": firsts,
        "cores": cores,
        "pair_ns": warm["candidate"] + warm["baseline"],
    }
    if found["pair_ns"] > task["budget_s"] * 1e9:
        return found | {"times_ns": [], "repeat": 1}
    repeat = repeats(min(warm.values()))
    deadline = time.perf_counter() + task["round_s"]
    times: list[list[int]] = []
    gc.disable()
    while len(times) < task["triples"] and (not times or time.perf_counter() < deadline):
        turn = dice.sample(SIDES, len(SIDES))
        for places in (turn, turn[::-1]):
            taken = {side: timed(runs[side], repeat) for side in places}
            times.append([taken[side] for side in SIDES])
    gc.enable()
    return found | {"times_ns": times, "repeat": repeat}


def stand_apart(task: dict[str, Any]) -> bool:
    """Whether the two differ in what a process has once: whether it flushes denormal numbers is decided by its first
    session, for all of them."""
    one, other = (task["settings"][side] for side in ("candidate", "baseline"))
    return any(one.get(key) != other.get(key) for key in OF_A_PROCESS)


def one_at_a_time(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same of models so large that three sessions would not fit, and of sessions that stand apart: each side in a
    process of its own, which ends before the next begins."""
    sides, repeat = dict[str, dict[str, Any]](), 0
    for side in turns(seed):
        sides[side] = in_child("one_side", task, side, repeat)
        repeat = sides[side]["repeat"]
    loads, firsts, warm, times = (
        {side: found[key] for side, found in sides.items()} for key in ("load_ns", "first_ns", "warm_ns", "times_ns")
    )
    found = {"load_ns": loads, "first_ns": firsts, "pair_ns": warm["candidate"] + warm["baseline"], "repeat": repeat}
    fits = found["pair_ns"] <= task["budget_s"] * 1e9
    rows = [list(row) for row in zip(*(times[side] for side in SIDES), strict=False)]
    return found | {"times_ns": rows if fits else [], "one_at_a_time": True}


def one_side(task: dict[str, Any], side: str, repeat: int) -> dict[str, Any]:
    """Steady runs of one side by itself, so many at a time as the side before it; 0: as many as it needs."""
    run, load_ns = ready(task, side, read_inputs(task["inputs"]))
    first = timed(run, 1)
    warm = min(timed(run, 1) for _ in range(warm_ups(first)))
    repeat = repeat or repeats(warm)
    times: list[int] = []
    gc.disable()
    deadline = time.perf_counter() + task["round_s"]
    while len(times) < task["triples"] and (not times or time.perf_counter() < deadline):
        times.append(timed(run, repeat))
    return {"load_ns": load_ns, "first_ns": first, "warm_ns": warm, "repeat": repeat, "times_ns": times}


def turns(seed: int) -> list[str]:
    """Two rounds that follow one another have opposite orders."""
    order = random.Random(seed // 2).sample(SIDES, len(SIDES))
    return order if seed % 2 else order[::-1]


def repeats(run_ns: int) -> int:
    return max(1, min(200, SAMPLE_NS // max(1, run_ns)))


def load_round(task: dict[str, Any], seed: int) -> list[list[int]]:
    """Times in ns to load as (candidate, baseline, baseline again): sessions that are closed again at once, in turn.

    The first turn only wakes the runtime, unless it took all the time: then a load is long enough to be timed once.
    Each side reads a copy of its own: where the system's cache holds a file moves its loads by several per cent, and
    in the next round it lies elsewhere.
    """
    dice = random.Random(seed)
    pin(dice, task)
    with tempfile.TemporaryDirectory(dir=task["place"], ignore_cleanup_errors=True) as place:
        models = copies(task, Path(place), dice)
        times: list[list[int]] = []
        began = time.perf_counter_ns()
        while len(times) < 1 + LOADS and time.perf_counter_ns() - began < LOADS_NS:
            taken = {side: load(task, side, models[side])[1] for side in dice.sample(SIDES, len(SIDES))}
            times.append([taken[side] for side in SIDES])
    return times[1:] or times


def copies(task: dict[str, Any], place: Path, dice: random.Random) -> dict[str, str]:
    """Of each side's file and its data, where they are small; else the files themselves."""
    own = {side: task["models"][kind(side)] for side in SIDES}
    failures: tuple[type[Exception], ...] = (OSError, *core.runtime_errors())
    try:
        files = {side: [Path(path), *with_data(Path(path))] for side, path in own.items()}
        if any(sum(file.stat().st_size for file in entry) > COPIED_BYTES for entry in files.values()):
            return own
        for side in dice.sample(SIDES, len(SIDES)):
            (place / side).mkdir()
            for file in files[side]:
                shutil.copyfile(file, place / side / file.name)
        found = {side: str(place / side / entry[0].name) for side, entry in files.items()}
        for side in SIDES:
            load(task, side, found[side])
    except failures:  # no room, data under other names, or it cannot be loaded anywhere
        return own
    return found


def with_data(model: Path) -> list[Path]:
    data = model.with_name(f"{model.name}.data")
    return [data] if data.exists() else []


def kind(side: str) -> str:
    return "candidate" if side == "candidate" else "baseline"


def load(task: dict[str, Any], side: str, path: str = "") -> tuple[Any, int]:
    path, settings = path or task["models"][kind(side)], task["settings"][kind(side)]
    started = time.perf_counter_ns()
    session = core.open_session(path, settings)
    return session, time.perf_counter_ns() - started


def ready(task: dict[str, Any], side: str, feeds: dict[str, Any]) -> tuple[Callable[[], Any], int]:
    """What runs a model, the only one that holds its session; and how long the load took."""
    session, spent = load(task, side)
    return core.prepare(session, feeds), spent


def warm_ups(first_ns: int) -> int:
    return 1 if first_ns > SLOW_NS else WARM_UPS


def pin(dice: random.Random, task: dict[str, Any]) -> list[int]:
    """The same cores for all three, as many as any of them has threads, others in the next round; where the platform
    allows it."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    threads = max(settings["intra_op_threads"] for settings in task["settings"].values())
    allowed = sorted(os.sched_getaffinity(0))
    chosen = sorted(dice.sample(allowed, min(len(allowed), max(1, threads))))
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, chosen)
    return chosen


def read_inputs(path: str | None) -> dict[str, Any]:
    inputs: dict[str, Any] = core.read_golden(Path(path))[0]["inputs"] if path else {}
    return inputs


def timed(run: Callable[[], Any], repeat: int) -> int:
    started = time.perf_counter_ns()
    for _ in range(repeat):
        run()
    return (time.perf_counter_ns() - started) // repeat


def surveys(task: dict[str, Any], side: str) -> list[dict[str, Any]]:
    """One model by itself: absolute numbers, for history. The first row must succeed; others may be refused."""
    found: list[dict[str, Any]] = []
    for row in task["surveys"]:
        children: list[dict[str, Any]] = []
        failure, started = None, time.perf_counter()
        if found and min(found[0]["children"][0]["times_ns"]) > row["seconds"] * 1e9:
            failure = f"one run takes longer than the {row['seconds']:g} s that are spent on it"
        while not failure and len(children) < row["children"]:
            if children and time.perf_counter() - started > PATIENCE * row["seconds"]:
                break
            try:
                children.append(in_child("survey", task, side, row))
            except core.Failure as error:
                if not found:
                    raise
                failure = str(error)
        found.append({key: row[key] for key in ("threads", "batch")} | {"children": children, "failure": failure})
    return found


def survey(task: dict[str, Any], side: str, row: dict[str, Any]) -> dict[str, Any]:
    """Load, first run, steady runs, the CPU that they took, and memory above that of an empty session."""
    settings = task["settings"][side] | {"intra_op_threads": row["threads"]}
    feeds = read_inputs(row["inputs"])
    empty = core.make_session(EMPTY, settings, fall_back=True)
    empty.run(None, {"x": np.zeros(1, np.float32)})
    before = peak_rss()
    started = time.perf_counter_ns()
    session = core.open_session(task["models"][side], settings)
    load = time.perf_counter_ns() - started
    run = core.prepare(session, feeds)
    first = timed(run, 1)
    memory = max(0, peak_rss() - before)
    for _ in range(warm_ups(first)):
        run()
    deadline = time.perf_counter() + row["seconds"] / row["children"]
    times: list[int] = []
    wall, busy = time.perf_counter(), time.process_time()
    while len(times) < MOST_SAMPLES / row["children"] and (not times or time.perf_counter() < deadline):
        times.append(timed(run, 1))
    share = (time.process_time() - busy) / max(1e-9, time.perf_counter() - wall)
    steady = {"times_ns": times, "cpu_cores": share}
    return {"load_ns": load, "first_ns": first, "peak_rss_bytes": memory} | steady


def peak_rss() -> int:
    """Of this process, in bytes."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
    with contextlib.suppress(ImportError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak
    return 0


def in_child(function: str, *arguments: Any) -> Any:
    """A fresh process for every call: by a fork where that is safe, else by a new interpreter."""
    if sys.platform != "linux":
        command = [sys.executable, __file__, "--call", json.dumps([function, *arguments])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        answer = done.stdout.splitlines()[-1] if done.stdout else ""
    else:
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with os.fdopen(send, "w", encoding="utf-8") as stream:
                    stream.write(call(function, arguments))
            finally:  # whatever happened: there must not be two of the caller
                os._exit(0)
        os.close(send)
        with os.fdopen(receive, encoding="utf-8") as stream:
            answer = stream.read()
        os.waitpid(child, 0)
    if not answer:
        raise core.Failure(4, "SourceError", "the process that ran the models ended without an answer", "")
    found = json.loads(answer)
    if "error" in found:
        raise core.Failure(*found["error"])
    return found["result"]


def call(function: str, arguments: Any) -> str:
    known: dict[str, Callable[..., Any]] = {each.__name__: each for each in (one_round, one_side, load_round, survey)}
    try:
        return json.dumps({"result": known[function](*arguments)})
    except core.Failure as failure:
        return json.dumps({"error": [failure.code, failure.name, str(failure), failure.hint]})
    except core.runtime_errors() as error:
        line = (str(error).splitlines() or [type(error).__name__])[0][:500]
        return json.dumps({"error": [4, "SourceError", f"ONNX Runtime cannot run it: {line}", ""]})


def machine() -> dict[str, Any]:
    """What the numbers depend on, without names: for telling whether two machines may be compared."""
    import onnxruntime

    info: dict[str, Any] = {"system": platform.system().lower(), "machine": platform.machine(), "cpu": "", "flags": ""}
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = (part.strip() for part in line.partition(":"))
            if key == "model name" and not info["cpu"]:
                info["cpu"] = value
            if key in ("flags", "Features") and not info["flags"]:
                info["flags"] = " ".join(sorted(value.split()))
    info["cpu"] = info["cpu"] or platform.processor()
    memory = 0
    with contextlib.suppress(ValueError, OSError, AttributeError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return info | {"cores": usable_cores(), "memory_gb": round(memory / 2**30), "onnxruntime": onnxruntime.__version__}


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def noise() -> dict[str, Any]:
    """What may disturb a measurement here, as far as the system tells."""
    found: dict[str, Any] = {"load": None, "governor": None, "quota_cores": None, "steal": None}
    with contextlib.suppress(OSError, AttributeError):
        found["load"] = round(os.getloadavg()[0], 2)
    with contextlib.suppress(OSError):
        found["governor"] = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text("utf-8").strip()
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("utf-8").split()
        found["quota_cores"] = None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError, IndexError):
        ticks = [int(part) for part in Path("/proc/stat").read_text("utf-8").splitlines()[0].split()[1:]]
        found["steal"] = [ticks[7], sum(ticks)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=28, metavar="N", help="fresh processes, 5 or more  [default: 28]")
    parser.add_argument("--budget", type=float, metavar="S", help="seconds for the rounds  [default: latency.budget_s]")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="of each run  [default: all cores]")
    parser.add_argument("--output", default="result.json", metavar="FILE", help="where the times go  [result.json]")
    parser.add_argument("--call", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.call:
        function, *rest = json.loads(arguments.call)
        print(call(function, rest))
        return 0
    if arguments.rounds < 5:
        parser.error("fewer than 5 rounds prove nothing")
    task = read_bundle(Path(__file__).resolve().parent, arguments.threads or usable_cores())
    task["budget_s"] = arguments.budget or task["budget_s"]
    rounds: list[dict[str, Any]] = []
    before, started = noise(), time.perf_counter()
    try:
        while len(rounds) < arguments.rounds and (not rounds or rounds[-1]["times_ns"]):
            if rounds and time.perf_counter() - started > task["budget_s"]:
                break
            rounds.append(in_child("one_round", task, task["seed"] + len(rounds)))
            print(f"round {len(rounds)} of {arguments.rounds}", file=sys.stderr)
        seconds = time.perf_counter() - started
        alone = {side: surveys(task, side) for side in ("candidate", "baseline")}
    except core.Failure as failure:
        hint = failure.hint or "Check the models on this machine."
        print(f"{failure.name}: {failure}\nNext: {hint}", file=sys.stderr)
        return failure.code
    result = {"schema_version": 1} | {key: task[key] for key in ("about", "settings", "files", "budget_s")}
    result |= {"rounds": rounds, "seconds": seconds, "surveys": alone, "machine": machine(), "noise": [before, noise()]}
    Path(arguments.output).write_text(json.dumps(result), encoding="utf-8")
    print(f"{arguments.output} is written; judge it with: artifactctl bench --import {arguments.output}")
    return 0


def read_bundle(here: Path, threads: int) -> dict[str, Any]:
    """The task with this machine's paths and threads, and the digests of the files as they lie here."""
    task: dict[str, Any] = json.loads((here / "task.json").read_text(encoding="utf-8"))
    files = sorted(path for side in task["models"] for path in (here / side).rglob("*") if path.is_file())
    task["files"] = {path.relative_to(here).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    task["models"] = {side: str(here / path) for side, path in task["models"].items()}
    for row in (task, *task["surveys"]):
        row["inputs"] = str(here / row["inputs"]) if row["inputs"] else None
    for row in task["surveys"]:
        row["threads"] = row["threads"] or threads
    for settings in task["settings"].values():
        settings["intra_op_threads"] = threads
    return task


if __name__ == "__main__":
    sys.exit(main())
