"""What a proof costs beyond the inferences it needs: python benchmarks/proof.py [--rounds 3]

A CNN of 10 MB, the default samples. Three ratios, each of two fresh processes in turn, and the median over rounds:

- comparison: the source's answers recorded (each asked twice) and the candidate proved against them, against every
  sample once through both models by hand;
- whole proof: also planning (each sample asked for and looked at), the source proved against itself as written and at
  the session's level, the float64 run; against as many inferences by hand as that makes (five of each sample by the
  source as written, two at the session's level);
- memory: the peak of the comparison against both models loaded and run once, above an empty process.

Exits with 1 when a ratio is over its bar.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from artifactctl.records import Session

MOST_TIME, MOST_MEMORY = 3.0, 2.2
CHANNELS = (3, 32, 64, 128, 256, 320, 512)

CHILD = """
import json, sys, time
from pathlib import Path
from artifactctl.backends import core, proof
what, asked = sys.argv[1], json.loads(sys.argv[2])
folder, settings = Path(asked["samples"]), asked["settings"]
written = settings | {"graph_level": "disabled"}
bounds = {"default": {"max_abs": 1e-3}, "outputs": {}}
core.open_session(asked["tiny"], settings)


def peak():  # of this process alone; getrusage would count what it was forked from
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


if what == "load":
    sessions = [core.open_session(asked["model"], way) for way in (written, settings)]
    first = sorted(folder.glob("*.npz"))[0]
    for session in sessions:
        session.run(None, proof.read_sample(first)["inputs"])
started = time.perf_counter()
if what in ("bare", "many"):
    for way, passes in ((written, 1 if what == "bare" else 5), (settings, 1 if what == "bare" else 2)):
        session = core.open_session(asked["model"], way)
        for _ in range(passes):
            for file in sorted(folder.glob("*.npz")):
                session.run(None, proof.read_sample(file)["inputs"])
if what == "whole":
    from artifactctl.backends import double, samples

    plan = samples.plan_inputs(asked["model"], {}, written, 1, True, None)
    samples.write_samples(plan, str(folder), None, None)
if what in ("proof", "whole"):
    proof.answer_as_written(asked["model"], str(folder), settings, [])
    if what == "whole":
        proof.prove(asked["model"], str(folder), written, bounds, asked["how"])
        assert proof.noise(asked["model"], str(folder), settings, bounds, asked["how"])["graph_level"] == "all"
        double.float64_noise(asked["model"], [str(file) for file in sorted(folder.glob("*.npz"))[:2]], bounds)
    report = proof.prove(asked["model"], str(folder), settings, bounds, asked["how"])
    assert report["outputs"] and all(output["passed"] for output in report["outputs"]), report
print(json.dumps({"s": time.perf_counter() - started, "kb": peak()}))
"""


def cnn(path: Path) -> None:
    rng = np.random.default_rng(1)
    nodes, weights, value = [], [], "image"
    for layer, (taken, given) in enumerate(pairwise(CHANNELS)):
        kernel = (rng.standard_normal((given, taken, 3, 3)) * (2 / (9 * taken)) ** 0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"w{layer}"))
        strides = [2, 2] if layer % 2 else [1, 1]
        nodes.append(helper.make_node("Conv", [value, f"w{layer}"], [f"c{layer}"], pads=[1] * 4, strides=strides))
        value = f"r{layer}"
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [value]))
    head = rng.standard_normal((CHANNELS[-1], 10)).astype(np.float32)
    nodes += [helper.make_node("GlobalAveragePool", [value], ["p"]), helper.make_node("Flatten", ["p"], ["f"])]
    nodes.append(helper.make_node("MatMul", ["f", "head"], ["scores"]))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 64, 64])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "cnn", [image], [scores], [*weights, numpy_helper.from_array(head, "head")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())


def child(what: str, asked: dict[str, object]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, what, json.dumps(asked)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    from artifactctl.backends.samples import plan_inputs, write_samples
    from artifactctl.steps.verify import how_of

    with tempfile.TemporaryDirectory() as place:
        model, samples = Path(place, "model", "cnn.onnx"), Path(place, "samples")
        model.parent.mkdir()
        cnn(model)
        settings = asdict(Session("cpu", "CPUExecutionProvider", 2))
        plan = plan_inputs(str(model), {}, settings | {"graph_level": "disabled"}, 1, True, None)
        entries = write_samples(plan, str(samples), None, None)
        plan["entries"] = {entry["set"]: entry for entry in entries}
        tiny = Path(__file__).resolve().parent.parent / "tests" / "models" / "mlp.onnx"
        asked: dict[str, object] = {
            "model": str(model),
            "samples": str(samples),
            "settings": settings,
            "tiny": str(tiny),
        }
        asked["how"] = how_of(plan)
        seconds: list[float] = []
        whole: list[float] = []
        memory: list[float] = []
        for _ in range(rounds):
            empty, loaded = child("empty", asked), child("load", asked)
            bare, proof = child("bare", asked), child("proof", asked)
            seconds.append(proof["s"] / bare["s"])
            whole.append(child("whole", asked)["s"] / child("many", asked)["s"])
            memory.append((proof["kb"] - empty["kb"]) / (loaded["kb"] - empty["kb"]))
        size = model.stat().st_size / 1e6
    print(f"CNN of {size:.1f} MB, {len(entries)} sets of samples, {rounds} rounds")
    print(f"{'what':<44} {'median':>7} {'worst':>7} {'at most':>8}")
    over = False
    for name, values, most in (
        ("comparison ÷ each sample once through both", seconds, MOST_TIME),
        ("whole proof ÷ the inferences it makes", whole, MOST_TIME),
        ("memory ÷ two models loaded", memory, MOST_MEMORY),
    ):
        over = over or statistics.median(values) > most
        print(f"{name:<44} {statistics.median(values):>7.2f} {max(values):>7.2f} {most:>8}")
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
