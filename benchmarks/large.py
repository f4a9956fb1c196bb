"""What a model of 3 GB costs in memory: python benchmarks/large.py [--mb 3000] [--torch] [--place DIR]

A model of dense layers with external data is built with the fp32 recipe (with --torch it is a module of torch, exported
by the build), and the peak of every process is printed:
what it holds itself, and with the pages of files that it maps, which are the system's cache and not counted. Bars: all
processes together inside 24 GB at every moment; each one but that of the passes at most 1.3 times the model. Linux
only. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from package import CONFIG, WIDTH, Seen, command, make_model  # noqa: E402

TORCH = """import torch


def build() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [torch.nn.Sequential(torch.nn.Linear({width}, {width}), torch.nn.Tanh()) for _ in range({count})]
    return torch.nn.Sequential(*layers).eval()
"""
TORCH_CONFIG = """schema_version: 1
models:
  large:
    source:
      torch: large.py:build
      inputs: {{input: {{shape: [batch, {width}], dtype: float32}}}}
    optimize: {{recipes: [fp32]}}
"""
MOST_MB, MOST_SHARE = 24_000.0, 1.3
FREE = ("worker-olive",)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=3000, help="of the model  [default: 3000]")
    parser.add_argument("--place", metavar="DIR", help="a disk with ten times the size  [default: the temporary one]")
    parser.add_argument("--torch", action="store_true", help="a module of torch, exported by the build")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.place) as name:
        place = Path(name).resolve()
        config = write_module(place, asked.mb) if asked.torch else write_file(place, asked.mb)
        (place / "artifactctl.yaml").write_text(config + "    latency: {budget_s: 5}\n", encoding="utf-8")
        seen = {"build": command(place, "build", "large", "--no-cache")}
        artifact = place / "artifacts" / "large" / "artifact_v1"
        size_mb = (artifact / "model_opt.onnx.data").stat().st_size / 1e6
        seen["verify"] = command(place, "verify", artifact)
        seen["package"] = command(place, "package", artifact, "--output", place / "dist")
    return report(seen, size_mb)


def write_file(place: Path, size_mb: int) -> str:
    make_model(place, size_mb)
    return CONFIG


def write_module(place: Path, size_mb: int) -> str:
    count = max(1, round(size_mb * 1e6 / WIDTH / WIDTH / 4))
    (place / "large.py").write_text(TORCH.format(width=WIDTH, count=count), encoding="utf-8")
    return TORCH_CONFIG.format(width=WIDTH)


def report(commands: dict[str, Seen], size_mb: float) -> int:
    print(f"the model has {size_mb:.0f} MB\n{'':<10}{'process':<18}{'own MB':>8}{'÷ model':>9}{'mapped too':>12}")
    over = False
    for name, seen in commands.items():
        print(f"{name:<10}{'all at one moment':<18}{seen.held_mb:>8.0f}{seen.held_mb / size_mb:>9.2f}"
              f"{seen.seconds:>10.0f} s")  # fmt: skip
        over |= seen.held_mb > MOST_MB
        for process, own in sorted(seen.own_mb.items()):
            missed = process not in FREE and own > MOST_SHARE * size_mb
            over |= missed
            print(f"{'':<10}{process:<18}{own:>8.0f}{own / size_mb:>9.2f}{seen.peaks_mb[process]:>12.0f}"
                  f"{'  OVER' if missed else ''}")  # fmt: skip
    print(f"MISSED: {MOST_MB:.0f} MB in all, {MOST_SHARE} × the model in one process" if over else "every bar is met")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
