"""State that a model hands from one run to the next is fed back, and a fault in its use is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, ValueInfoProto, helper

from artifactctl.backends import core, proof
from artifactctl.backends.consumers import Consumers
from artifactctl.backends.samples import _inputs, plan_inputs, write_samples
from artifactctl.backends.states import STEPS, continue_sequence, pair_states
from artifactctl.steps.verify import how_of

from .small import SETTINGS, floats, ints, model, node, write

BOUNDS: dict[str, Any] = {"default": {"max_abs": 1e-3}, "outputs": {}}
RNG = np.random.default_rng(11)
WEIGHTS = {
    "w": (RNG.standard_normal((3, 4)) / 2).astype(np.float32),
    "u": (RNG.standard_normal((4, 4)) / 2).astype(np.float32),
    "v": RNG.standard_normal((4, 2)).astype(np.float32),
}


class Proved:
    """A candidate against the samples of its source."""

    def __init__(self, source: onnx.ModelProto, candidate: onnx.ModelProto, folder: Path, **declared: Any) -> None:
        for name in ("a", "b"):
            (folder / name).mkdir(exist_ok=True)
        path, other = write(source, folder / "a" / "source.onnx"), write(candidate, folder / "b" / "candidate.onnx")
        self.samples = folder / "samples"
        self.plan = plan_inputs(path, declared, SETTINGS, 3, True, None)
        entries = write_samples(self.plan, str(self.samples), None, None)
        self.answers = proof.answer_as_written(path, str(self.samples), SETTINGS, self.plan["states"])
        how = how_of(self.plan | {"entries": {entry["set"]: entry for entry in entries}})
        self.report = proof.prove(other, str(self.samples), SETTINGS, BOUNDS, how)

    @property
    def passed(self) -> bool:
        outputs = self.report["outputs"]
        return not self.report.get("failure") and all(entry["passed"] and not entry["vacuous"] for entry in outputs)

    @property
    def failed_sets(self) -> list[dict[str, Any]]:
        """The entries of the plan whose sets differ."""
        bad = [int(entry["set"]) for entry in self.report["sets"] if not all(out["passed"] for out in entry["outputs"])]
        return [self.plan["sets"][number] for number in bad]


def pairs(inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]) -> dict[str, str]:
    made = model([], inputs, outputs)
    described, _ = _inputs(made, {}, Consumers(made))
    return {pair["input"]: pair["output"] for pair in pair_states(made, described)}


@pytest.mark.parametrize(
    ("taken", "given"),
    [
        ("state", "stateN"),
        ("h_in", "h_out"),
        ("h0", "hn"),
        ("hx", "h_n"),
        ("c_0", "c_n"),
        ("past_key_values.0.key", "present.0.key"),
        ("past_key_values.11.value", "present.11.value"),
        ("past_0", "present_0"),
        ("hidden", "hidden_out"),
        ("prev_hidden", "next_hidden"),
        ("cacheIn", "cacheOut"),
        ("memory.old", "memory.new"),
        ("initial_state", "final_state"),
    ],
)
def test_the_two_ends_of_a_state_are_known_by_name(taken: str, given: str) -> None:
    found = pairs([floats("x", "n", 3), floats(taken, "n", 4)], [floats("y", "n", 3), floats(given, "n", 4)])
    assert found == {taken: given}


def test_two_states_do_not_change_places() -> None:
    inputs = [floats("x", "n", 3), *(floats(name, 1, "n", 4) for name in ("h_in", "c_in"))]
    outputs = [floats("y", "n", 3), *(floats(name, 1, "n", 4) for name in ("c_out", "h_out"))]
    assert pairs(inputs, outputs) == {"h_in": "h_out", "c_in": "c_out"}


def test_every_layer_of_a_cache_has_its_own_pair() -> None:
    names = [(layer, part) for layer in range(3) for part in ("key", "value")]
    taken = [f"past_key_values.{layer}.{part}" for layer, part in names]
    given = [f"present.{layer}.{part}" for layer, part in names]
    found = pairs(
        [ints("ids", "n", "s"), *(floats(name, "n", 2, "past", 4) for name in taken)],
        [floats("logits", "n", "s", 9), *(floats(name, "n", 2, "total", 4) for name in given)],
    )
    assert found == dict(zip(taken, given, strict=True))


def test_shapes_and_types_must_fit() -> None:
    x, y = floats("x", "n", 3), floats("y", "n", 3)
    assert pairs([x, floats("h_in", "n", 4)], [y, floats("h_out", "n", 5)]) == {}
    assert pairs([x, floats("h_in", "n", 4)], [y, floats("h_out", "n", 4, 1)]) == {}
    assert pairs([x, floats("h_in", "n", 1)], [y, ints("h_out", "n", 1)]) == {}
    assert pairs([x, floats("h_in", "n", 4)], [y, floats("h_out", None, None)]) == {"h_in": "h_out"}


def test_unnamed_states_are_known_by_a_shape_of_their_own() -> None:
    inputs = [floats("x", 1, 3), floats("memory", 1, 20)]
    assert pairs(inputs, [floats("y", 1, 2), floats("tensor_57", 1, 20)]) == {"memory": "tensor_57"}
    two = [*inputs, floats("more", 1, 20)]
    found = pairs(two, [floats("y", 1, 2), floats("tensor_57", 1, 20), floats("tensor_58", 1, 20)])
    assert found == {"memory": "tensor_57", "more": "tensor_58"}
    assert pairs(two, [floats("y", 1, 2), floats("tensor_57", 1, 20)]) == {}, "two for one cannot be told apart"


PLAIN = {
    "one in, one out": ([floats("input", "n", 4)], [floats("output", "n", 4)]),
    "an autoencoder": ([floats("x", "n", 4)], [floats("x_out", "n", 4)]),
    "two inputs, one output": ([floats("input", "n", 4), floats("input2", "n", 8)], [floats("output", "n", 8)]),
    "the main output": ([floats("x", 1, 4), floats("condition", 1, 8)], [floats("y", 1, 8), floats("z", 1, 2)]),
    "two images": (
        [floats("left", 1, 3, 8, 8), floats("right", 1, 3, 8, 8)],
        [floats("flow", 1, 3, 8, 8), floats("sure", 1, 3, 8, 8)],
    ),
    "scalars": ([floats("x", "n", 4), floats("scale_in")], [floats("y", "n", 4), floats("scale_out")]),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_what_is_no_state(kind: str) -> None:
    assert pairs(*PLAIN[kind]) == {}


def rnn(**changed: np.ndarray) -> onnx.ModelProto:
    """h = tanh(x w + h u), y = h v."""
    nodes = [
        node("MatMul", ["x", "w"], ["xw"]),
        node("MatMul", ["h_in", "u"], ["hu"]),
        node("Add", ["xw", "hu"], ["sum"]),
        node("Tanh", ["sum"], ["h_out"]),
        node("MatMul", ["h_out", "v"], ["y"]),
    ]
    inputs, outputs = [floats("x", "n", 3), floats("h_in", "n", 4)], [floats("y", "n", 2), floats("h_out", "n", 4)]
    return model(nodes, inputs, outputs, WEIGHTS | changed)


def gru(recurrence: float = 1.0) -> onnx.ModelProto:
    """Time first, as torch exports it."""
    rng = np.random.default_rng(2)
    weights = {name: rng.standard_normal((1, 12, size)).astype(np.float32) for name, size in (("w", 3), ("r", 4))}
    weights["r"] = weights["r"] * np.float32(recurrence)
    nodes = [node("GRU", ["x", "w", "r", "", "", "h0"], ["y", "hn"], hidden_size=4)]
    inputs = [floats("x", "seq", "batch", 3), floats("h0", 1, "batch", 4)]
    return model(nodes, inputs, [floats("y", "seq", 1, "batch", 4), floats("hn", 1, "batch", 4)], weights)


def decoder(past: float = 1.0, total: str = "past_sequence_length + sequence_length") -> onnx.ModelProto:
    """One layer of attention over the keys of all steps so far; `past` is what the old ones are multiplied by."""
    rng = np.random.default_rng(4)
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in
               (("table", (10, 4)), ("wk", (4, 4)), ("wq", (4, 4)))}  # fmt: skip
    weights |= {"factor": np.array(past, np.float32), "one": np.array(1, np.float32), "axis": np.array([1])}
    weights["low"] = np.array(-10, np.float32)
    nodes = [
        node("Gather", ["table", "input_ids"], ["e"]),
        node("MatMul", ["e", "wk"], ["k"]),
        node("MatMul", ["e", "wq"], ["q"]),
        node("Mul", ["past_key_values.0.key", "factor"], ["old"]),
        node("Concat", ["old", "k"], ["present.0.key"], axis=1),
        node("Transpose", ["present.0.key"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["q", "turned"], ["scores"]),
        node("Cast", ["attention_mask"], ["kept"], to=TensorProto.FLOAT),
        node("Sub", ["one", "kept"], ["padded"]),
        node("Mul", ["padded", "low"], ["lowered"]),
        node("Unsqueeze", ["lowered", "axis"], ["wide"]),
        node("Add", ["scores", "wide"], ["masked"]),
        node("Softmax", ["masked"], ["attention"], axis=-1),
        node("MatMul", ["attention", "present.0.key"], ["logits"]),
    ]
    inputs = [
        ints("input_ids", "batch", "sequence_length"),
        ints("attention_mask", "batch", total),
        floats("past_key_values.0.key", "batch", "past_sequence_length", 4),
    ]
    outputs = [floats("logits", "batch", "sequence_length", 4), floats("present.0.key", "batch", "all", 4)]
    return model(nodes, inputs, outputs, weights)


def sequences(plan: dict[str, Any]) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = []
    for entry in plan["sets"]:
        if entry.get("follows"):
            found[-1].append(entry)
        else:
            found.append([entry])
    return [steps for steps in found if len(steps) > 1]


@pytest.mark.parametrize("source", [rnn, gru, decoder])
def test_sequences_are_planned_and_the_source_holds_against_itself(source: Any, tmp_path: Path) -> None:
    proved = Proved(source(), source(), tmp_path)
    assert len(proved.plan["states"]) == 1
    assert len(sequences(proved.plan)) >= 4, "three kinds of input, and a larger batch"
    assert all(len(steps) == 1 + STEPS for steps in sequences(proved.plan))
    assert {entry["kind"] for steps in sequences(proved.plan) for entry in steps} >= {"normal", "uniform", "outlier"}
    assert proved.answers["refused"] == []
    assert proved.passed, proved.report


def test_the_state_starts_at_zero_and_is_then_what_the_source_gave(tmp_path: Path) -> None:
    proved = Proved(rnn(), rnn(), tmp_path)
    [spec] = [spec for spec in proved.plan["inputs"] if spec["name"] == "h_in"]
    assert spec["why"].startswith("state: zero at the start of a sequence, then what 'h_out' gave")
    before, fed_back, drawn = None, 0, 0
    for file, entry in zip(sorted(proved.samples.glob("*.npz")), proved.plan["sets"], strict=True):
        sample = proof.read_sample(file)
        if sample["follows"]:
            np.testing.assert_array_equal(sample["inputs"]["h_in"], before)
            fed_back += 1
        else:
            assert sample["inputs"]["h_in"].any() != entry.get("rest", False)
            drawn += not entry.get("rest", False)
        before = sample["outputs"]["h_out"]
    assert drawn >= 5  # a state that only ever starts at zero would hide what is multiplied with it
    assert fed_back == sum(entry.get("follows", False) for entry in proved.plan["sets"])


@pytest.mark.parametrize("total", ["past_sequence_length + sequence_length", "total_sequence_length"])
def test_a_cache_starts_empty_and_grows_step_by_step(total: str, tmp_path: Path) -> None:
    proved = Proved(decoder(total=total), decoder(total=total), tmp_path)
    assert proved.plan["states"] == [{"input": "past_key_values.0.key", "output": "present.0.key"}]
    for steps in sequences(proved.plan):
        size = steps[0]["dims"]["sequence_length"]
        assert [entry["dims"]["past_sequence_length"] for entry in steps] == [0, size, 2 * size, 3 * size]
        assert [entry["dims"][total] for entry in steps] == [size, 2 * size, 3 * size, 4 * size]
    assert proved.plan["sets"][0]["dims"]["past_sequence_length"] == 0
    for file in proved.samples.glob("*.npz"):
        inputs = proof.read_sample(file)["inputs"]
        past, fresh = inputs["past_key_values.0.key"].shape[1], inputs["input_ids"].shape[1]
        assert inputs["attention_mask"].shape[1] == past + fresh
    tried = {entry["dims"]["past_sequence_length"] for entry in proved.plan["sets"] if not entry.get("follows")}
    assert len(tried) > 2, "the length of the past is a size like any other"
    assert proved.passed


STATE_FAULTS = {
    "rnn": (rnn(), rnn(u=WEIGHTS["u"] * np.float32(1.5))),
    "gru": (gru(), gru(recurrence=1.2)),
    "decoder": (decoder(), decoder(past=1.5)),
}


@pytest.mark.parametrize("kind", ["rnn", "decoder"])
def test_a_fault_that_is_only_in_the_use_of_the_state_is_seen(kind: str, tmp_path: Path) -> None:
    """From a state of zeros, or without any, the two models are the same."""
    proved = Proved(*STATE_FAULTS[kind], tmp_path)
    assert not proved.passed
    assert proved.failed_sets
    assert any(entry.get("follows") for entry in proved.failed_sets)
    assert not any(entry.get("rest") for entry in proved.failed_sets)


def test_the_recurrent_weights_of_a_gru_count(tmp_path: Path) -> None:
    proved = Proved(*STATE_FAULTS["gru"], tmp_path)
    assert not proved.passed
    assert any(entry.get("follows") for entry in proved.failed_sets)


def integrator(drift: float) -> onnx.ModelProto:
    """Adds a tenth of x to what it was given."""
    nodes = [
        node("Mul", ["x", "tenth"], ["part"]),
        node("Add", ["h_in", "part"], ["plain"]),
        node("Add", ["plain", "drift"], ["h_out"]),
        node("Identity", ["h_out"], ["y"]),
    ]
    weights = {"tenth": np.array(0.1, np.float32), "drift": np.array(drift, np.float32)}
    inputs, outputs = [floats("x", "n", 4), floats("h_in", "n", 4)], [floats("y", "n", 4), floats("h_out", "n", 4)]
    return model(nodes, inputs, outputs, weights)


def test_errors_that_add_up_from_step_to_step_are_seen(tmp_path: Path) -> None:
    """Each step alone is inside the bound: 4e-4; the third in a row, on the candidate's own state, is not."""
    proved = Proved(integrator(0.0), integrator(4e-4), tmp_path)
    errors = [max(output["max_error"] for output in entry["outputs"]) for entry in proved.report["sets"]]
    for number, entry in enumerate(proved.plan["sets"]):
        if not entry.get("follows"):
            assert errors[number] <= 4.1e-4
    assert not proved.passed
    starts = [number for number, entry in enumerate(proved.plan["sets"]) if entry.get("follows")][::STEPS]
    for second in starts:
        assert errors[second - 1 : second + STEPS] == pytest.approx([4e-4, 8e-4, 1.2e-3, 1.6e-3], rel=0.05)


def test_errors_that_do_not_add_up_are_none(tmp_path: Path) -> None:
    """The same step with a tenth of the error stays inside the bound to the end."""
    assert Proved(integrator(0.0), integrator(4e-5), tmp_path).passed


def test_the_proof_from_stored_answers_feeds_back_too(tmp_path: Path) -> None:
    proved = Proved(integrator(0.0), integrator(4e-4), tmp_path)
    session = core.open_session(tmp_path / "b" / "candidate.onnx", SETTINGS)
    stored = [proof.read_sample(file) for file in sorted(proved.samples.glob("*.npz"))]
    free = core.compare_golden(session, stored, proved.plan, BOUNDS)
    assert not all(output["passed"] for output in free["outputs"])
    # with the source's state at every step, each error is that of one step
    led = core.compare_golden(session, stored, proved.plan | {"states": []}, BOUNDS)
    assert all(output["passed"] for output in led["outputs"])


def test_fresh_inputs_are_fed_back_too(tmp_path: Path) -> None:
    proved = Proved(integrator(0.0), integrator(4e-4), tmp_path)
    source, other = (core.open_session(tmp_path / name, SETTINGS) for name in ("a/source.onnx", "b/candidate.onnx"))
    count = len(proved.plan["sets"])
    assert not all(out["passed"] for out in core.compare_fresh(other, source, proved.plan, BOUNDS, count)["outputs"])
    assert all(out["passed"] for out in core.compare_fresh(source, source, proved.plan, BOUNDS, count)["outputs"])


def test_what_only_looks_like_state_is_filled_like_any_input(tmp_path: Path) -> None:
    """`h_out` is wider than `h_in`, so that it cannot be fed back."""
    nodes = [node("MatMul", ["h_in", "w"], ["h_out"]), node("ReduceSum", ["x"], ["y"])]
    inputs, outputs = [floats("x", "n", 3), floats("h_in", "n", "k")], [floats("y", 1, 1), floats("h_out", "n", "m")]
    made = model(nodes, inputs, outputs, {"w": RNG.standard_normal((8, 16)).astype(np.float32)})
    proved = Proved(made, made, tmp_path)
    assert pairs(inputs, outputs) == {"h_in": "h_out"}
    assert proved.plan["states"] == []
    assert not any(entry.get("follows") for entry in proved.plan["sets"])
    assert [spec["fill"] for spec in proved.plan["inputs"]] == ["float", "float"]
    assert proved.passed


def test_a_state_that_the_user_describes_is_no_state(tmp_path: Path) -> None:
    proved = Proved(rnn(), rnn(), tmp_path, h_in={"range": [-1, 1]})
    assert proved.plan["states"] == []
    assert all(proof.read_sample(file)["inputs"]["h_in"].any() for file in proved.samples.glob("*.npz"))


def test_a_step_that_the_model_refuses_ends_the_sequence(tmp_path: Path) -> None:
    """A cache with room for 40 places: two steps of 16 fit, a third does not."""
    made = decoder()
    made.graph.node.extend(
        [
            node("Shape", ["present.0.key"], ["size"], start=1, end=2),
            node("Sub", ["forty", "size"], ["left"]),
            node("ConstantOfShape", ["left"], ["rest"]),
        ]
    )
    made.graph.output.append(floats("rest", None))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([40]), "forty"))
    session = core.open_session(write(made, tmp_path / "m.onnx"), SETTINGS)
    inputs = [
        {"name": "input_ids", "shape": ["b", "s"], "dtype": "int64", "fill": "range", "range": [0, 9]},
        {"name": "attention_mask", "shape": ["b", "t"], "dtype": "int64", "fill": "mask"},
        {"name": "past_key_values.0.key", "shape": ["b", "p", 4], "dtype": "float32", "fill": "float"},
    ]
    first = {"kind": "normal", "dims": {"b": 1, "s": 16, "p": 0, "t": 16}, "draw": 0}
    plan: dict[str, Any] = {"inputs": inputs, "sets": [first], "seed": 1, "draws": 1}
    plan["states"] = [{"input": "past_key_values.0.key", "output": "present.0.key"}]
    assert continue_sequence(plan, session, {"t": ["p", "s"]}) == 1
    assert [entry["dims"]["p"] for entry in plan["sets"]] == [0, 16]


def scaled(factor: float) -> onnx.ModelProto:
    """out_sample = factor * sample * t: named like a state, but the thing itself."""
    nodes = [
        node("Mul", ["sample", "t"], ["p"]),
        node("Mul", ["p", "k"], ["out_sample"]),
        node("Add", ["t", "t"], ["t2"]),
    ]
    weights = {"k": np.array(factor, np.float32)}
    return model(
        nodes, [floats("sample", "b", 4), floats("t", 1)], [floats("out_sample", "b", 4), floats("t2", 1)], weights
    )


def test_the_main_input_is_not_taken_for_state(tmp_path: Path) -> None:
    proved = Proved(scaled(1.0), scaled(5.0), tmp_path)
    assert proved.plan["states"] == []
    assert not proved.passed


def multiplied(factor: float) -> onnx.ModelProto:
    """h_out = h_in * x * factor: from zero it stays zero for ever."""
    nodes = [
        node("Mul", ["h_in", "x"], ["p"]),
        node("Mul", ["p", "k"], ["h_out"]),
        node("Add", ["x", "x"], ["y"]),
    ]
    weights = {"k": np.array(factor, np.float32)}
    return model(
        nodes, [floats("x", "b", 4), floats("h_in", "b", 4)], [floats("y", "b", 4), floats("h_out", "b", 4)], weights
    )


def test_a_state_that_stays_zero_hides_nothing(tmp_path: Path) -> None:
    proved = Proved(multiplied(1.0), multiplied(5.0), tmp_path)
    assert proved.plan["states"] == [{"input": "h_in", "output": "h_out"}]
    assert not proved.passed


def test_a_state_of_small_floats_is_not_paired(tmp_path: Path) -> None:
    inputs = [
        {"name": "x", "shape": [4], "dtype": "float32"},
        {"name": "h_in", "shape": [4], "dtype": "float8e5m2"},
    ]
    outputs = [floats("y", 4), helper.make_tensor_value_info("h_out", TensorProto.FLOAT8E5M2, [4])]
    assert pair_states(model([], [], outputs), inputs) == []
