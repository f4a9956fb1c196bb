"""What a package costs: python benchmarks/package.py [--size 2000] [--rounds 3] [--place DIR]

A folder of --size MB, like an artifact with a large model, is packed (`archive.write`) and opened again (every check,
`archive.extract`, every digest), each in a fresh process. Both are measured against `sha256sum` plus `cp` of the same
bytes, in turn, and the median over rounds is taken; memory is the peak of the process above that of the interpreter.
Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from artifactctl import folder  # noqa: E402

MOST_TIME, MOST_MEMORY_MB = 2.0, 300.0
LARGE = "model_opt.onnx.data"

CHILD = """
import json, sys, time
from pathlib import Path


def peak():  # of this process alone, in MB; getrusage would count what it was forked from
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


before = peak()
started = time.perf_counter()
from artifactctl import archive, folder

what, artifact, package, target = sys.argv[1], *map(Path, sys.argv[2:])
if what == "pack":
    archive.write(package, {f"{artifact.name}/{name}": artifact / name for name in folder.listing(artifact)})
else:
    found = archive.extract(package, target)
    listed, problems = folder.parse_sums((target / folder.SUMS).read_bytes())
    known = {name.removeprefix(f"{found.name}/"): value for name, value in listed.items()}
    assert not problems and not folder.damage(found, known)
print(json.dumps({"seconds": time.perf_counter() - started, "memory_mb": peak() - before}))
"""


def make(place: Path, size_mb: int) -> Path:
    """Bytes that no file system can make smaller, in the files that an artifact must have."""
    artifact = place / "artifact_v1"
    for name in folder.REQUIRED:
        (artifact / name).parent.mkdir(parents=True, exist_ok=True)
        (artifact / name).write_bytes(os.urandom(100_000))
    with (artifact / LARGE).open("wb") as file:
        for _ in range(size_mb):
            file.write(os.urandom(1 << 20))
    folder.write_sums(artifact)
    return artifact


def by_hand(artifact: Path, target: Path) -> float:
    files = [str(artifact / name) for name in folder.listing(artifact)]
    started = time.perf_counter()
    subprocess.run(["sha256sum", *files], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cp", "-r", str(artifact), str(target)], check=True)
    return time.perf_counter() - started


def child(what: str, *paths: Path) -> dict[str, float]:
    command = [sys.executable, "-c", CHILD, what, *map(str, paths)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def one_round(artifact: Path, place: Path) -> dict[str, float]:
    package, target, copy = place / "package.zip", place / "target", place / "copy"
    hand = by_hand(artifact, copy)
    found = {"sha256sum + cp, s": hand}
    for what in ("pack", "open"):
        measured = child(what, artifact, package, target)
        found |= {f"{what} ÷ by hand": measured["seconds"] / hand, f"{what}, MB": measured["memory_mb"]}
    package.unlink()
    for left in (target, copy):
        shutil.rmtree(left)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2000, metavar="MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--place", metavar="DIR", help="a disk with four times the size  [default: the temporary one]")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.place) as place:
        artifact = make(Path(place), asked.size)
        rounds = [one_round(artifact, Path(place)) for _ in range(asked.rounds)]
    missed = False
    for name in rounds[0]:
        value = statistics.median(found[name] for found in rounds)
        bar = MOST_TIME if "÷" in name else MOST_MEMORY_MB if "MB" in name else None
        missed |= bar is not None and value > bar
        print(f"{name:20} {value:8.2f}" + (f"   at most {bar:g}" if bar else ""))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
