"""What the cache saves: `build --force` with everything in it ÷ with --no-cache, in turn, on one machine.

python benchmarks/cache.py [--rounds 5] [MODEL.onnx]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIG = "schema_version: 1\nmodels:\n  m:\n    source: {onnx: m.onnx}\n    latency: {budget_s: 1}\n"


def seconds(place: Path, *options: str) -> float:
    shutil.rmtree(place / "artifacts", ignore_errors=True)  # nothing to be timed against
    env = os.environ | {"ARTIFACTCTL_CACHE": str(place / "cache"), "PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    command = [sys.executable, "-m", "artifactctl", "build", "--force", "-q", *options]
    subprocess.run(command, cwd=place, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", type=Path, default=ROOT / "tests" / "models" / "cnn.onnx")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    times: dict[str, list[float]] = {"with the cache": [], "without": []}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        shutil.copy(asked.model, place / "m.onnx")
        (place / "artifactctl.yaml").write_text(CONFIG)
        seconds(place)
        for _ in range(asked.rounds):
            for name in random.sample(list(times), 2):
                times[name].append(seconds(place, *(["--no-cache"] if name == "without" else [])))
    for name, found in times.items():
        print(f"{name:<15} median {statistics.median(found):6.2f} s  of {', '.join(f'{item:.2f}' for item in found)}")
    warm, cold = (statistics.median(found) for found in times.values())
    print(f"with ÷ without  {warm / cold:.2f}")


if __name__ == "__main__":
    main()
