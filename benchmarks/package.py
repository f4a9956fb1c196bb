"""What a large package costs: python benchmarks/package.py [--mb 2000] [--rounds 3] [--place DIR] [--artifact DIR]

A real model of --mb MB (dense layers, external data) is built by `artifactctl build`, which takes minutes at 2 GB;
--artifact takes one that exists. Then the real commands run: `package ARTIFACT` (Olive's zip, which holds the model
twice, opened again and proved), `verify ZIP` and `verify ARTIFACT`.

Time: each against `sha256sum` plus `cp` of the same bytes, in turn and in the same round, the median over rounds. The
same bytes are those of the package for `package`, and those of the artifact for `verify`; the other reading stands
beside it. Before everything that is timed the disk is given what it has not written yet. Where coreutils does not use
the processor's SHA instructions, sha256sum is several times slower than OpenSSL: the last column is against Python's
hashlib plus `cp`, which is harder. What Olive takes to be imported, and ONNX Runtime to load the model and to answer
golden.npz, is measured by itself in a fresh process: it is in the commands' times, and no part of packing.

Memory: the largest sum over the command and all its children of what they hold themselves (RssAnon and RssShmem of
/proc/PID/status, looked at every 20 ms). Pages of mapped files are not counted: they are the system's cache. Every
process is also reported alone, its peak (VmHWM, mapped files included) above what it cannot do without: the command
above a bare interpreter, the child of Olive above Olive imported, the child of ONNX Runtime above the model loaded and
run by hand. Linux only. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from artifactctl import folder  # noqa: E402

MOST_TIME, MOST_MEMORY_MB = 2.0, 300.0
WIDTH = 4096
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "CI": "1", "OLIVE_DISABLE_TELEMETRY": "1"}
CONFIG = "schema_version: 1\nmodels:\n  large:\n    source: {onnx: large.onnx}\n    optimize: {recipes: [fp32]}\n"
ALONE = {
    "interpreter": "import sys",
    "olive": "from olive.engine.packaging import packaging_generator",
    "runtime": """
import sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1] + "/model_opt.onnx", providers=["CPUExecutionProvider"])
with numpy.load(sys.argv[1] + "/golden.npz") as stored:
    for key in stored.files:
        if "/inputs/" in key:
            session.run(None, {key.rpartition("/")[2]: stored[key]})
""",
}


@dataclass
class Seen:
    """What a command and its children took."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    held_mb: float = 0.0  # all processes at one moment
    peaks_mb: dict[str, float] = field(default_factory=dict)  # by process, mapped files included
    own_mb: dict[str, float] = field(default_factory=dict)  # by process, without them

    def look(self, root: int) -> None:
        held = 0.0
        for pid in (root, *_below(root)):
            try:
                lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
                name = Path(f"/proc/{pid}/cwd").readlink().name if pid != root else "command"
            except OSError:  # it has ended
                continue
            values = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.endswith(" kB")}
            own = values.get("RssAnon", 0) + values.get("RssShmem", 0)
            held += own
            self.own_mb[name] = max(self.own_mb.get(name, 0), own)
            self.peaks_mb[name] = max(self.peaks_mb.get(name, 0), values.get("VmHWM", 0))
        self.held_mb = max(self.held_mb, held)


def _below(pid: int) -> list[int]:
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text(encoding="utf-8").split()
        ]
    except OSError:
        return []
    return [*children, *(below for child in children for below in _below(child))]


def _cpu_s() -> float:
    """Of everything that was started here and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def watched(words: list[str], cwd: Path) -> Seen:
    os.sync()
    seen, started, spent = Seen(), time.perf_counter(), _cpu_s()
    log = cwd / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(words, cwd=cwd, env=ENVIRONMENT, stdout=output, stderr=output)
        while True:
            seen.look(process.pid)
            try:
                process.wait(0.02)
                break
            except subprocess.TimeoutExpired:
                continue
    seen.seconds, seen.cpu_s = time.perf_counter() - started, _cpu_s() - spent
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}:\n{log.read_text(encoding='utf-8')}")
    return seen


def command(cwd: Path, *words: str | Path) -> Seen:
    return watched([sys.executable, "-m", "artifactctl", *map(str, words)], cwd)


def alone(what: str, cwd: Path, *words: Path) -> Seen:
    return watched([sys.executable, "-c", ALONE[what], *map(str, words)], cwd)


def make_model(place: Path, size_mb: int) -> None:
    """Dense layers, a tanh after each: weights of 67 MB that no file system can make smaller."""
    rng, nodes, weights, last = np.random.default_rng(1), [], [], "x"
    with (place / "large.onnx.data").open("wb") as data:
        for number in range(max(1, round(size_mb * 1e6 / WIDTH / WIDTH / 4))):
            values = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) / np.float32(WIDTH**0.5)
            weight = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=values.shape)
            weight.data_location = TensorProto.EXTERNAL
            where = {"location": "large.onnx.data", "offset": data.tell(), "length": values.nbytes}
            for key, value in where.items():
                weight.external_data.add(key=key, value=str(value))
            data.write(values.data)
            weights.append(weight)
            nodes.append(helper.make_node("MatMul", [last, weight.name], [f"m{number}"]))
            nodes.append(helper.make_node("Tanh", [f"m{number}"], [f"h{number}"]))
            last = f"h{number}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (place / "large.onnx").write_bytes(model.SerializeToString())


def build(place: Path, size_mb: int) -> Path:
    make_model(place, size_mb)
    (place / "artifactctl.yaml").write_text(CONFIG + "    latency: {budget_s: 2}\n", encoding="utf-8")
    seen = command(place, "build", "large")
    print(f"built in {seen.seconds:.0f} s", flush=True)
    (place / "large.onnx.data").unlink()
    return place / "artifacts" / "large" / "artifact_v1"


def timed(action: Callable[[], object]) -> float:
    os.sync()
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def by_hand(files: list[Path], target: Path) -> tuple[float, float, float]:
    """sha256sum, hashlib and cp of these files."""
    words = [str(file) for file in files]
    summed = timed(lambda: subprocess.run(["sha256sum", *words], check=True, stdout=subprocess.DEVNULL))
    hashed = timed(lambda: [folder.digest(file) for file in files])
    target.mkdir()
    copied = timed(lambda: subprocess.run(["cp", *words, str(target)], check=True))
    shutil.rmtree(target)
    return summed, hashed, copied


@dataclass(frozen=True)
class Round:
    hands: dict[str, tuple[float, float, float]]
    commands: dict[str, Seen]
    alone: dict[str, Seen]


def one_round(artifact: Path, place: Path) -> Round:
    dist = place / "dist"
    commands = {"package ARTIFACT": command(place, "package", artifact, "--output", dist)}
    (package,) = dist.glob("*.zip")
    files = [artifact / name for name in folder.listing(artifact)]
    hands = {"artifact": by_hand(files, place / "copy"), "package": by_hand([package], place / "copy")}
    commands |= {"verify ZIP": command(place, "verify", package), "verify ARTIFACT": command(place, "verify", artifact)}
    found = {what: alone(what, place, artifact) for what in ALONE}
    shutil.rmtree(dist)
    return Round(hands, commands, found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=2000, help="of the model  [default: 2000]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--place", metavar="DIR", help="a disk with ten times the size  [default: the temporary one]")
    parser.add_argument("--artifact", metavar="DIR", type=Path, help="one that exists, instead of building one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.place) as name:
        place = Path(name).resolve()
        artifact = asked.artifact.resolve() if asked.artifact else build(place, asked.mb)
        size = sum((artifact / file).stat().st_size for file in folder.listing(artifact))
        print(f"the artifact has {size / 1e6:.0f} MB", flush=True)
        rounds = [one_round(artifact, place) for _ in range(asked.rounds)]
    return int(report_time(rounds) | report_memory(rounds))


def report_time(rounds: list[Round]) -> bool:
    missed = False
    for what in ("artifact", "package"):
        each = [statistics.median(values) for values in zip(*(found.hands[what] for found in rounds), strict=True)]
        print(f"by hand, {what:8}  sha256sum {each[0]:.1f} s, hashlib {each[1]:.1f} s, cp {each[2]:.1f} s")
    natural = {what: statistics.median(found.alone[what].seconds for found in rounds) for what in ALONE}
    print(f"Olive imported {natural['olive']:.1f} s, the model loaded and run by hand {natural['runtime']:.1f} s\n")
    heads = ("÷ sha256sum + cp", "of the other bytes", "÷ hashlib + cp")
    print(f"{f'at most {MOST_TIME:g}':18} {'s':>6}  {'CPU s':>6}  {'  '.join(heads)}")
    for name in rounds[0].commands:
        own, other = ("package", "artifact") if name.startswith("package") else ("artifact", "package")
        seen = [found.commands[name] for found in rounds]
        seconds, cpu_s = (
            statistics.median(values) for values in zip(*((one.seconds, one.cpu_s) for one in seen), strict=True)
        )

        def ratio(bytes_of: str, hashing: int, name: str = name) -> float:
            pairs = [(found.commands[name].seconds, found.hands[bytes_of]) for found in rounds]
            return statistics.median(took / (hand[hashing] + hand[2]) for took, hand in pairs)

        missed |= ratio(own, 0) > MOST_TIME
        ratios = zip(heads, (ratio(own, 0), ratio(other, 0), ratio(own, 1)), strict=True)
        cells = "  ".join(f"{value:{len(head)}.2f}" for head, value in ratios)
        print(f"{name:18} {seconds:6.1f}  {cpu_s:6.1f}  {cells}")
    return missed


def report_memory(rounds: list[Round]) -> bool:
    def peak(what: str) -> float:
        return max(found.alone[what].peaks_mb["command"] for found in rounds)

    base = {"command": peak("interpreter"), "worker-olive": peak("olive"), "worker-runner": peak("runtime")}
    print("\nMB: held by all   " + "  ".join(f"{name} above {value:.0f}" for name, value in base.items()))
    missed = False
    for name in rounds[0].commands:
        seen = [found.commands[name] for found in rounds]
        above = {who: max(one.peaks_mb.get(who, value) for one in seen) - value for who, value in base.items()}
        missed |= any(value > MOST_MEMORY_MB for value in above.values())
        cells = "  ".join(f"{value:{len(f'{who} above {base[who]:.0f}')}.0f}" for who, value in above.items())
        print(f"{name:16}{max(one.held_mb for one in seen):5.0f}   {cells}")
    held = max(found.alone["runtime"].held_mb for found in rounds)
    print(f"model by hand   {held:5.0f}\n(each process at most {MOST_MEMORY_MB:g} MB above what it cannot do without)")
    return missed


if __name__ == "__main__":
    sys.exit(main())
