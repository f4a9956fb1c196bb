"""The README's figures of speed: ratios of two things measured in turn in one run.

python benchmarks/speed.py [--rounds 15] [--builds 2]

Absolute times depend on the machine and are printed only to be looked at.
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
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "simple_cnn"
TOOL = Path(sys.executable).with_name("artifactctl")

BY_HAND = """
import numpy, onnxruntime, sys
session = onnxruntime.InferenceSession(sys.argv[1] + "/model_opt.onnx", providers=["CPUExecutionProvider"])
stored = numpy.load(sys.argv[1] + "/golden.npz")
samples = {}
for key in stored.files:
    number, part, name = key.split("/")
    if part == "inputs":
        samples.setdefault(number, {})[name] = stored[key]
for feeds in samples.values():
    session.run(None, feeds)
"""


def seconds(command: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stderr[-2000:]}")
    return taken


def in_turn(
    first: Sequence[str | Path], second: Sequence[str | Path], cwd: Path, rounds: int
) -> tuple[float, float, float]:
    """Medians of both, and the median of their ratios."""
    for command in (first, second):
        seconds(command, cwd)
    pairs = [(seconds(first, cwd), seconds(second, cwd)) for _ in range(rounds)]
    ratio = statistics.median(a / b for a, b in pairs)
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), ratio


def olive_config(place: Path, model: Path) -> Path:
    path = place / "olive.json"
    system = {
        "type": "LocalSystem",
        "accelerators": [{"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}],
    }
    config = {
        "input_model": {"type": "OnnxModel", "model_path": str(model)},
        "systems": {"local": system},
        "passes": {"q": {"type": "OnnxDynamicQuantization"}},
        "host": "local",
        "target": "local",
        "output_dir": str(place / "out"),
        "cache_dir": str(place / "cache"),
    }
    path.write_text(json.dumps(config))
    return path


def build_against_olive(example: Path, builds: int) -> tuple[float, float, float]:
    """All recipes of the example against one plain `olive run` of one pass with Olive's defaults."""
    hidden = ("CI", "GITHUB_", "OLIVE_")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    pairs = []
    for number in range(builds):
        ours = seconds([TOOL, "build", "--force", "-q"], example)
        with tempfile.TemporaryDirectory() as place:
            made = example / "artifacts" / "simple_cnn" / f"artifact_v{number + 1}" / "model_opt.onnx"
            config = olive_config(Path(place), Path(shutil.copy(made, place)))
            theirs = seconds([sys.executable, "-m", "olive", "run", "--config", config], Path(place), plain)
        pairs.append((ours, theirs))
    ratio = statistics.median(a / b for a, b in pairs)
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--builds", type=int, default=2)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        example = Path(shutil.copytree(EXAMPLE, Path(place) / "example", ignore=shutil.ignore_patterns("artifacts")))
        built = build_against_olive(example, arguments.builds)
        rows.append(("build, all recipes / one plain olive run", *built, 1.0))
        click = [sys.executable, "-c", "import click"]
        rows.append(("--help / import click", *in_turn([TOOL, "--help"], click, example, arguments.rounds), 2.5))
        same = in_turn([TOOL, "build"], [TOOL, "--help"], example, arguments.rounds)
        rows.append(("unchanged build / --help", *same, 3.0))
        folder = example / "artifacts" / "simple_cnn" / f"artifact_v{arguments.builds}"
        script = Path(place) / "by_hand.py"
        script.write_text(BY_HAND)
        check: list[str | Path] = [sys.executable, folder / "validate.py"]
        hand = in_turn(check, [sys.executable, script, folder], example, arguments.rounds)
        rows.append(("validate.py / the same by hand", *hand, 1.5))
    print(f"{'what':<42} {'ours s':>8} {'other s':>8} {'ratio':>7} {'at most':>8}")
    for name, ours, other, ratio, bar in rows:
        print(f"{name:<42} {ours:>8.3f} {other:>8.3f} {ratio:>7.2f} {bar:>8.1f}  {'ok' if ratio <= bar else 'OVER'}")
    return 0 if all(row[3] <= row[4] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
