"""One build of three recipes against the three `olive run` calls one would type: python benchmarks/wall.py

`artifactctl build --recipe fp32 --recipe fp16 --recipe int8-dynamic` reads, optimizes, proves and measures, and writes
an artifact; the three calls optimize only. In turn, with no cache, on one machine; Olive without its telemetry, which
would cost each call seconds more. Exits with 1 when the build takes longer.
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
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import models  # noqa: E402

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "CI": "1"}
RECIPES = ("fp32", "fp16", "int8-dynamic")
PASSES = (
    {
        "peephole": {"type": "OnnxPeepholeOptimizer"},
        "ort": {"type": "OrtTransformersOptimization", "model_type": "bert", "opt_level": 2, "only_onnxruntime": True},
    },
    {"half": {"type": "OnnxFloatToFloat16", "keep_io_types": True}},
    {"int8": {"type": "OnnxDynamicQuantization", "per_channel": True, "op_types_to_quantize": ["MatMul", "Gemm"]}},
)


def seconds(words: list[str], cwd: Path) -> float:
    started = time.perf_counter()
    done = subprocess.run(words, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return time.perf_counter() - started


def ours(source: Path, place: Path) -> float:
    place.mkdir()
    shutil.copy(source, place)
    words = [word for recipe in RECIPES for word in ("--recipe", recipe)]
    return seconds([sys.executable, "-m", "artifactctl", "build", source.name, *words, "--no-cache"], place)


def by_hand(source: Path, place: Path) -> float:
    place.mkdir()
    accelerator = {"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}
    total = 0.0
    for number, passes in enumerate(PASSES):
        config = {
            "input_model": {"type": "OnnxModel", "model_path": str(source)},
            "systems": {"local": {"type": "LocalSystem", "accelerators": [accelerator]}},
            "passes": passes,
            "host": "local",
            "target": "local",
            "output_dir": str(place / f"out{number}"),
            "cache_dir": str(place / f"cache{number}"),
        }
        path = place / f"{number}.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        total += seconds([sys.executable, "-m", "olive", "run", "--config", str(path)], place)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="ppocr_cls,magika,iris", metavar="A,B", help="[default: %(default)s]")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cache", metavar="DIR", help="where models are kept  [default: the user's cache]")
    asked = parser.parse_args()
    sources = models.fetch(models.choose(asked.models), models.place_of(asked.cache))
    print(f"{'model':<12} {'build s':>8} {'by hand s':>10} {'ratio':>6}")
    over = False
    for name, source in sources.items():
        pairs = []
        for _ in range(asked.rounds):
            with tempfile.TemporaryDirectory() as place:
                pairs.append((ours(source, Path(place, "ours")), by_hand(source, Path(place, "theirs"))))
        ratio = statistics.median(a / b for a, b in pairs)
        over |= ratio >= 1
        middles = [statistics.median(side) for side in zip(*pairs, strict=True)]
        print(
            f"{name:<12} {middles[0]:>8.1f} {middles[1]:>10.1f} {ratio:>6.2f}{'  OVER' if ratio >= 1 else ''}",
            flush=True,
        )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
