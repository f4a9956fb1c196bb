"""How often the latency gate is right: python benchmarks/gate.py [--trials 200] [--loaded]

A model of 40 equal layers against models with more or fewer of them, so that the true difference is known. Beside it,
in the same run and on the same pairs of models, what other tools do with 100 runs of one model after 100 of the other:
compare the mean, compare the minimum (pytest-benchmark's --benchmark-compare-fail=mean:5% and min:5%, with the case's
limit), or allow a fixed 200 %. Their mistakes are false alarms where nothing is slower, else misses. With --loaded two
busy processes run beside it. The last lines say which bars are met.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from artifactctl import verdicts
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.crew import Crew
from artifactctl.project import Limits
from artifactctl.records import Session
from artifactctl.steps.measure import Duel, Terms, fight, report_of

LAYERS = 40
# name, layers of the candidate, limit, share of the trials, the verdict that is right, and how often it must be found
CASES = (
    ("the same model, limit 5 %", LAYERS, 0.05, 1.0, verdicts.NOT_SLOWER, 0.99),
    ("+5 % work, limit 2 %", LAYERS * 105 // 100, 0.02, 0.5, verdicts.REGRESSION, 0.95),
    ("+10 % work, limit 5 %", LAYERS * 110 // 100, 0.05, 0.5, verdicts.REGRESSION, 0.99),
    ("-10 % work, limit 5 %", LAYERS * 90 // 100, 0.05, 0.5, verdicts.NOT_SLOWER, 0.0),
)
BAR_S = 3.0  # median time to a verdict


def layers(count: int, path: Path) -> Path:
    rng = np.random.default_rng(1)
    kernel = (rng.standard_normal((16, 16, 3, 3)) / 12).astype(np.float32)
    nodes, value = [], "x"
    for layer in range(count):
        nodes.append(helper.make_node("Conv", [value, "w"], [f"c{layer}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        value = f"r{layer}"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["y"]))
    shapes = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 28, 28])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 1, 1])]
    graph = helper.make_graph(nodes, "layers", shapes, outputs, [numpy_helper.from_array(kernel, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def one_after_the_other(paths: list[Path], feeds: dict[str, np.ndarray], threads: int) -> dict[str, float]:
    """Candidate ÷ baseline by what notebooks and most tools do."""
    found = []
    for path in paths:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for _ in range(5):
            session.run(None, feeds)
        times = []
        for _ in range(100):
            started = time.perf_counter()
            session.run(None, feeds)
            times.append(time.perf_counter() - started)
        found.append(times)
    return {"mean": statistics.fmean(found[0]) / statistics.fmean(found[1]), "min": min(found[0]) / min(found[1])}


def busy() -> None:
    while True:
        sum(range(100_000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--budget", type=float, default=30.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--loaded", action="store_true")
    arguments = parser.parse_args()
    others = [multiprocessing.Process(target=busy, daemon=True) for _ in range(2 if arguments.loaded else 0)]
    for process in others:
        process.start()
    with tempfile.TemporaryDirectory() as place, Crew(limits=Limits()) as crew:
        feeds = {"x": np.random.default_rng(2).standard_normal((1, 16, 28, 28)).astype(np.float32)}
        sample = {"inputs": feeds, "outputs": {}, "labels": None, "follows": False}
        inputs = Path(place, "x.npz")
        write_npz(inputs, sample_arrays("00000", sample))
        models = {count: layers(count, Path(place, f"{count}.onnx")) for _, count, *_ in CASES}
        session = Session("cpu", "CPUExecutionProvider", arguments.threads)
        print(f"{'case':<28} {'trials':>6} {'right':>6} {'wrong':>6} {'open':>5} {'median s':>9} {'rounds':>6}   "
              "mistakes of mean, min, 200 %", flush=True)  # fmt: skip
        missed, all_seconds = list[str](), list[float]()
        for name, count, limit, share, right, bar in CASES:
            found, seconds, rounds_used, wrong = Counter[str](), [], [], Counter[str]()
            trials = max(1, int(arguments.trials * share))
            for trial in range(trials):
                terms = Terms(limit, 0.99, arguments.budget)
                duel = Duel(models[count], models[LAYERS], inputs, session, 1000 * trial, terms)
                began = time.perf_counter()
                rounds, taken = fight(duel, crew)
                report = report_of(terms, "cpu", rounds, taken, (1, 1))
                seconds.append(time.perf_counter() - began)
                rounds_used.append(report.rounds)
                found[report.verdict] += 1
                ratios = one_after_the_other([models[count], models[LAYERS]], feeds, arguments.threads)
                slower = right == verdicts.REGRESSION
                wrong["mean"] += (ratios["mean"] > 1 + limit) != slower
                wrong["min"] += (ratios["min"] > 1 + limit) != slower
                wrong["200 %"] += (ratios["mean"] > 3.0) != slower
            unsure = found[verdicts.NOT_PROVEN]
            failed = trials - found[right] - unsure
            beside = ", ".join(f"{wrong[key]}" for key in ("mean", "min", "200 %"))
            numbers = f"{trials:>6} {found[right]:>6} {failed:>6} {unsure:>5}"
            middle = f"{statistics.median(seconds):>9.2f} {statistics.median(rounds_used):>6.0f}"
            print(f"{name:<28} {numbers} {middle}   {beside}", flush=True)
            all_seconds += seconds
            if failed or (found[right] < bar * trials and not arguments.loaded):
                missed.append(f"{name}: {found[right]} of {trials} right (bar {bar:.0%}), {failed} wrong (bar 0)")
        middle_s = statistics.median(all_seconds)
        if middle_s > BAR_S and not arguments.loaded:
            missed.append(f"median time to a verdict {middle_s:.2f} s (bar {BAR_S:g} s)")
        print(f"median time to a verdict over all trials: {middle_s:.2f} s")
        print("\n".join(f"MISSED {line}" for line in missed) or "every bar is met")
    for process in others:
        process.terminate()


if __name__ == "__main__":
    main()
