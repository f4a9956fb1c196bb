"""What other optimizers make of a model, each as its users call it: at its defaults, in a process of its own.

The fp16 converter is asked to keep the types of inputs and outputs: else nothing that feeds the source fits its result.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

LONGEST_S = 300.0
ONNXSIM = "onnxsim[onnxruntime]==0.8.1"

ORT = """
import onnxruntime, sys
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
options.optimized_model_filepath = sys.argv[2]
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""
INT8 = "import sys; from onnxruntime.quantization import quantize_dynamic; quantize_dynamic(sys.argv[1], sys.argv[2])"
FP16 = """
import onnx, sys
from onnxruntime.transformers.float16 import convert_float_to_float16
onnx.save(convert_float_to_float16(onnx.load(sys.argv[1]), keep_io_types=True), sys.argv[2])
"""


@dataclass(frozen=True)
class Peer:
    name: str
    script: str = ""  # called with the source and the target
    module: tuple[str, ...] = ()  # python -m, with SOURCE and TARGET in it
    package: str = ""  # in an environment of its own, where it does not install beside the others

    def make(self, source: Path, place: Path, kept: Path) -> Path | str:
        """The model that it writes, or why there is none."""
        place.mkdir(parents=True)
        target = place / "model.onnx"
        python = _own_python(self.package, kept) if self.package else Path(sys.executable)
        named = {"SOURCE": str(source), "TARGET": str(target), "FOLDER": str(place / "out")}
        words = ["-c", self.script, str(source), str(target)]
        if self.module:
            words = ["-m", *(named.get(word, word) for word in self.module)]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"CI": "1"}
        try:
            done = subprocess.run(
                [str(python), *words], cwd=place, env=environment, capture_output=True, text=True, timeout=LONGEST_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"took longer than {LONGEST_S:g} s"
        found = [target] if target.is_file() else sorted((place / "out").rglob("*.onnx"))
        if done.returncode or not found:
            lines = (done.stderr.strip() or done.stdout.strip() or "wrote nothing").splitlines()
            return lines[-1][:200]
        return found[0]


PEERS = (
    Peer("ort-extended", script=ORT),
    Peer("onnxslim", module=("onnxslim", "SOURCE", "TARGET")),
    Peer("onnxsim", module=("onnxsim", "SOURCE", "TARGET"), package=ONNXSIM),
    Peer("olive-optimize", module=("olive", "optimize", "-m", "SOURCE", "-o", "FOLDER")),
    Peer("int8-dynamic", script=INT8),
    Peer("fp16", script=FP16),
)


def choose(names: str) -> tuple[Peer, ...]:
    """`all`, `none`, or a list such as `onnxslim,fp16`."""
    known = {peer.name: peer for peer in PEERS}
    if names in ("all", "none"):
        return PEERS if names == "all" else ()
    if unknown := [name for name in names.split(",") if name not in known]:
        raise SystemExit(f"no such peer: {', '.join(unknown)}; choose from {', '.join(known)}")
    return tuple(known[name] for name in names.split(","))


def _own_python(package: str, kept: Path) -> Path:
    home = kept / f"venv-{package.partition('[')[0]}-{package.rpartition('=')[2]}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", package], check=True, capture_output=True)
        (home / "ready").touch()
    return python
