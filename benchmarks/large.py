"""What a model of 3 GB costs in memory: python benchmarks/large.py [--mb 3000] [--source KIND] [--recipe R]

A model of dense layers is built with the fp32 recipe, or with another one (int8-partial needs a wider bound: --max-abs
0.2), and the peak of every process is printed: what it holds itself, and with the pages of files that it maps, which
are the system's cache and not counted. The source is a file with external data, or what the build exports: a factory of
torch, the same with weights in a .pt file, a TorchScript file, a .pt2. Bars: all processes together inside 24 GB at
every moment; each one but that of the passes at most 1.3 times the model. Linux only. Exits with 1 when a bar is
missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from package import CONFIG, WIDTH, Seen, command, make_model  # noqa: E402

FACTORY = """import torch


def build() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = [torch.nn.Sequential(torch.nn.Linear({width}, {width}), torch.nn.Tanh()) for _ in range({count})]
    return torch.nn.Sequential(*layers).eval()
"""
EXPORTED = """schema_version: 1
models:
  large:
    source:
      {source}
      inputs: {{input: {{shape: [batch, {width}], dtype: float32}}}}
    optimize: {{recipes: [fp32]}}
"""
SOURCES = {
    "torch": "torch: factory.py:build",
    "weights": "torch: factory.py:build\n      weights: large.pt",
    "torchscript": "torchscript: large.pt",
    "exported_program": "exported_program: large.pt2",
}
SAVED = """import sys
import factory, torch

kind, batch = sys.argv[1], torch.export.Dim("batch")
model, example = factory.build(), torch.rand(2, {width})
if kind == "weights":
    torch.save(model.state_dict(), "large.pt")
elif kind == "torchscript":
    torch.jit.save(torch.jit.script(model), "large.pt")
else:
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=({{0: batch}},)), "large.pt2")
"""
MOST_MB, MOST_SHARE = 24_000.0, 1.3
FREE = ("worker-olive",)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=3000, help="of the model  [default: 3000]")
    parser.add_argument("--place", metavar="DIR", help="a disk with ten times the size  [default: the temporary one]")
    parser.add_argument("--source", choices=("onnx", *SOURCES), default="onnx", help="[default: onnx]")
    parser.add_argument("--recipe", default="fp32", help="[default: fp32]")
    parser.add_argument("--max-abs", type=float, default=1e-3, help="the bound  [default: 1e-3]")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.place) as name:
        place = Path(name).resolve()
        config = write_file(place, asked.mb) if asked.source == "onnx" else write_source(place, asked.mb, asked.source)
        config += f"    latency: {{budget_s: 5}}\n    equivalence: {{max_abs: {asked.max_abs!r}}}\n"
        (place / "artifactctl.yaml").write_text(config, encoding="utf-8")
        seen = {"build": command(place, "build", "large", "--no-cache", "--recipe", asked.recipe)}
        said = (place / "log.txt").read_text(encoding="utf-8").splitlines()
        print("\n".join(line for line in said if line.startswith(f"{asked.recipe} ")), flush=True)
        artifact = place / "artifacts" / "large" / "artifact_v1"
        size_mb = (artifact / "model_opt.onnx.data").stat().st_size / 1e6
        seen["verify"] = command(place, "verify", artifact)
        seen["package"] = command(place, "package", artifact, "--output", place / "dist")
    return report(seen, size_mb)


def write_file(place: Path, size_mb: int) -> str:
    make_model(place, size_mb)
    return CONFIG


def write_source(place: Path, size_mb: int, kind: str) -> str:
    count = max(1, round(size_mb * 1e6 / WIDTH / WIDTH / 4))
    (place / "factory.py").write_text(FACTORY.format(width=WIDTH, count=count), encoding="utf-8")
    if kind != "torch":
        subprocess.run([sys.executable, "-c", SAVED.format(width=WIDTH), kind], cwd=place, check=True)
    return EXPORTED.format(source=SOURCES[kind], width=WIDTH)


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
