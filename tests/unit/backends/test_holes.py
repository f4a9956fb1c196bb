"""Models that are not their source, made so that a careless sample plan would not notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from artifactctl.backends import core, proof
from artifactctl.backends.samples import plan_inputs, write_samples
from artifactctl.steps.verify import how_of

from .small import SETTINGS, floats, ints, model, node, write

BOUNDS: dict[str, Any] = {"default": {"max_abs": 1e-3}, "outputs": {}}


def compare(source: onnx.ModelProto, candidate: onnx.ModelProto, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan of the source, and the verdict on the candidate."""
    settings = SETTINGS | {"provider": "cpu"}
    for place in ("a", "b"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    path, other = write(source, folder / "a" / "source.onnx"), write(candidate, folder / "b" / "candidate.onnx")
    plan = plan_inputs(path, {}, settings, 3, True, None)
    samples = folder / "samples"
    entries = write_samples(plan, str(samples), None, None)
    proof.answer_as_written(path, str(samples), settings, plan["states"])
    how = how_of(plan | {"entries": {entry["set"]: entry for entry in entries}})
    return plan, proof.prove(other, str(samples), settings, BOUNDS, how)


def passed(report: dict[str, Any]) -> bool:
    return not report.get("failure") and all(output["passed"] and not output["vacuous"] for output in report["outputs"])


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()


@pytest.mark.parametrize("limit", [0, 5])
def test_both_sides_of_a_comparison_with_a_constant(tmp_path: Path, limit: int) -> None:
    def made(factor: float) -> onnx.ModelProto:
        nodes = [
            node("Greater", ["n", "limit"], ["large"]),
            node("Mul", ["x", "factor"], ["scaled"]),
            node("Where", ["large", "scaled", "x"], ["y"]),
        ]
        weights = {"limit": np.array(limit), "factor": np.array(factor, np.float32)}
        return model(nodes, [ints("n", "batch", 4), floats("x", "batch", 4)], [floats("y", "batch", 4)], weights)

    assert passed(compare(made(1.0), made(1.0), tmp_path)[1])
    (tmp_path / "again" / "a").mkdir(parents=True)
    (tmp_path / "again" / "b").mkdir()
    assert not passed(compare(made(1.0), made(-7.0), tmp_path / "again")[1])


def test_answers_closer_together_than_the_bound_prove_nothing(tmp_path: Path) -> None:
    def made(scale: float) -> onnx.ModelProto:
        weights = {"w": (np.random.default_rng(0).standard_normal((8, 4)) * scale).astype(np.float32)}
        nodes = [node("MatMul", ["x", "w"], ["h"]), node("Sigmoid", ["h"], ["y"])]
        return model(nodes, [floats("x", "batch", 8)], [floats("y", "batch", 4)], weights)

    _, report = compare(made(1e-7), made(-3e-6), tmp_path)
    assert report["outputs"][0]["vacuous"]
    assert not passed(report)


def test_a_wide_one_hot_is_seen(tmp_path: Path) -> None:
    def made(last: float) -> onnx.ModelProto:
        table = np.random.default_rng(1).standard_normal((200, 4)).astype(np.float32)
        table[20:] *= last
        nodes = [
            node("Unsqueeze", ["ids", "axis"], ["wide"]),
            node("Equal", ["wide", "count"], ["same"]),
            node("Cast", ["same"], ["code"], to=onnx.TensorProto.FLOAT),
            node("MatMul", ["code", "table"], ["y"]),
        ]
        weights = {"axis": np.array([-1]), "count": np.arange(200), "table": table}
        return model(nodes, [ints("ids", "batch", 6)], [floats("y", "batch", 6, 4)], weights)

    plan, report = compare(made(1.0), made(0.0), tmp_path)
    assert plan["inputs"][0]["range"] == [0, 199]
    assert not passed(report)


def test_a_branch_that_never_runs_is_known(tmp_path: Path) -> None:
    def made(kind: str) -> onnx.ModelProto:
        then = helper.make_graph([helper.make_node(kind, ["x"], ["t"])], "then", [], [floats("t", "batch", 8)])
        other = helper.make_graph([helper.make_node("Abs", ["x"], ["e"])], "else", [], [floats("e", "batch", 8)])
        nodes = [
            node("ReduceMax", ["x"], ["m"], keepdims=0),
            node("Greater", ["m", "limit"], ["huge"]),
            helper.make_node("If", ["huge"], ["y"], then_branch=then, else_branch=other),
        ]
        weights = {"limit": np.array(1e9, np.float32)}
        return model(nodes, [floats("x", "batch", 8)], [floats("y", "batch", 8)], weights)

    plan, _ = compare(made("Neg"), made("Exp"), tmp_path)
    assert plan["branches"] == [{"condition": "huge", "taken": [False]}]


def test_unlucky_draws_are_drawn_anew(tmp_path: Path) -> None:
    """Indices into a table that the graph does not know: many draws are refused, five sets hold all the same."""
    nodes = [node("Gather", ["table", "ids"], ["y"])]
    made = model(nodes, [floats("table", 40, 2), ints("ids", 2)], [floats("y", 2, 2)])
    plan, report = compare(made, made, tmp_path)
    assert len(plan["sets"]) >= 5
    assert passed(report)


def test_a_model_that_draws_random_numbers_does_not_agree_with_itself(tmp_path: Path) -> None:
    nodes = [node("RandomNormalLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])]
    made = model(nodes, [floats("x", "batch", 4)], [floats("y", "batch", 4)])
    assert not passed(compare(made, made, tmp_path)[1])


def test_one_wrong_row_is_not_outvoted() -> None:
    comparison = core.Comparison()
    comparison.add({"y": np.array([[1.0, 0.0], [90.0, 0.0]])}, {"y": np.array([[0.0, 1.0], [90.0, 0.0]])})
    [result] = comparison.outputs({"default": {"max_abs": None, "min_cosine": 0.995}, "outputs": {}})
    assert result["cosine"] == pytest.approx(0.0)
    assert not result["passed"]


def test_a_bound_belongs_to_its_own_output() -> None:
    comparison = core.Comparison()
    one, half = np.ones(3), np.full(3, 1.5)
    comparison.add({"a": one, "a.b": one}, {"a": half, "a.b": half})
    results = comparison.outputs({"default": {"max_abs": 1e-3}, "outputs": {"a": {"max_abs": 1.0}}})
    assert [result["passed"] for result in results] == [True, False]


@pytest.mark.parametrize("labels", [np.full(4, 77), np.array(["a", "b", "c", "d"])])
def test_labels_that_never_match_prove_no_accuracy(labels: np.ndarray) -> None:
    accuracy = core.Accuracy()
    scores = np.eye(4, 10, dtype=np.float32)
    accuracy.add(labels, {"y": scores}, {"y": scores[::-1]})
    assert accuracy.result(None) is None
    judged = accuracy.result(0.01)
    assert judged is not None
    assert not judged["passed"]


def changed(op: str, *inputs: str, **weights: Any) -> onnx.ModelProto:
    nodes = [node(op, ["x", *inputs], ["y"])]
    return model(
        nodes, [floats("x", "n", 8)], [floats("y", "n", 8)], {key: np.float32(value) for key, value in weights.items()}
    )


IDENTITY = changed("Identity")


def above(limit: float) -> onnx.ModelProto:
    nodes = [node("Greater", ["x", "limit"], ["large"]), node("Add", ["x", "x"], ["twice"])]
    nodes.append(node("Where", ["large", "twice", "x"], ["y"]))
    return model(nodes, [floats("x", "n", 8)], [floats("y", "n", 8)], {"limit": np.float32(limit)})


def tree(leaf: float) -> onnx.ModelProto:
    made = node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[50_000.0, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, leaf],
    )  # fmt: skip
    return model([made], [floats("x", "n", 8)], [floats("y", "n", 1)], domains=("ai.onnx.ml",))


@pytest.mark.parametrize(
    ("source", "candidate"),
    [(above(100), IDENTITY), (changed("Min", "most", most=50), IDENTITY),
     (changed("Max", "least", least=-70), IDENTITY), (tree(5), tree(500))],
    ids=["Where", "Min", "Max", "tree"],
)  # fmt: skip
def test_both_sides_of_a_threshold_of_floats(source: Any, candidate: Any, tmp_path: Path) -> None:
    assert not passed(compare(source, candidate, tmp_path)[1])
    assert passed(compare(source, source, tmp_path / "again")[1])


def cast(*more: onnx.NodeProto) -> onnx.ModelProto:
    nodes = [node("Cast", ["x"], ["f" if more else "y"], to=onnx.TensorProto.FLOAT), *more]
    return model(nodes, [ints("x", "n", 8)], [floats("y", "n", 8)])


@pytest.mark.parametrize(
    "more",
    [[node("Relu", ["f"], ["y"])],
     [node("Cast", ["f"], ["u"], to=onnx.TensorProto.UINT8), node("Cast", ["u"], ["y"], to=onnx.TensorProto.FLOAT)]],
    ids=["Relu", "uint8"],
)  # fmt: skip
def test_integers_of_which_nothing_is_known_are_also_large_and_negative(more: Any, tmp_path: Path) -> None:
    assert not passed(compare(cast(), cast(*more), tmp_path)[1])


def test_a_clip_beside_the_input_does_not_narrow_it(tmp_path: Path) -> None:
    def made(*last: onnx.NodeProto) -> onnx.ModelProto:
        nodes = [node("Clip", ["x", "zero", "one"], ["y"]), *last]
        weights = {"zero": np.float32(0), "one": np.float32(1), "low": np.float32(-0.2), "high": np.float32(1.2)}
        return model(nodes, [floats("x", "n", 8)], [floats("y", "n", 8), floats("z", "n", 8)], weights)

    source = made(node("Identity", ["x"], ["z"]))
    assert not passed(compare(source, made(node("Clip", ["x", "low", "high"], ["z"])), tmp_path)[1])


def test_a_batch_of_more_than_four(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"], start=0, end=1), node("Greater", ["s", "four"], ["many"]),
        node("Cast", ["many"], ["more"], to=onnx.TensorProto.FLOAT), node("Add", ["x", "more"], ["y"]),
    ]  # fmt: skip
    candidate = model(nodes, [floats("x", "n", 8)], [floats("y", "n", 8)], {"four": np.array([4])})
    assert not passed(compare(IDENTITY, candidate, tmp_path)[1])


def test_frames_are_reached(tmp_path: Path) -> None:
    """At the base size there is one window; a model that is wrong from the second one on is found out."""

    def made(last: onnx.NodeProto) -> onnx.ModelProto:
        nodes = [node("AveragePool", ["x"], ["w"], kernel_shape=[256], strides=[256], ceil_mode=1), last]
        return model(nodes, [floats("x", 1, 1, "samples")], [floats("y", 1, 1, "frames")], {"axis": np.array([2])})

    source = made(node("Identity", ["w"], ["y"]))
    candidate = made(node("CumSum", ["w", "axis"], ["y"]))
    candidate.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array(2), "axis"))
    assert not passed(compare(source, candidate, tmp_path)[1])


def test_rows_that_begin_with_zeros_are_not_constant(tmp_path: Path) -> None:
    made = model([node("CumSum", ["x", "axis"], ["y"], exclusive=1)], [floats("x", "n", 8)], [floats("y", "n", 8)],
                 {"axis": np.array(0)})  # fmt: skip
    assert passed(compare(made, made, tmp_path)[1])


def test_texts_that_end_in_nothing_are_texts() -> None:
    comparison = core.Comparison()
    one, other = (core.flatten("y", np.array([text], object)) for text in ("a\0", "a"))
    comparison.add(one, other)
    assert not comparison.outputs(BOUNDS)[0]["passed"]


def test_the_bound_of_one_output_is_not_that_of_another_with_a_longer_name() -> None:
    comparison = core.Comparison()
    far = {"logits": np.zeros(2), "logits.values": np.zeros(2), "logits[0]": np.zeros(2)}
    comparison.add(far, {name: array + (0 if name == "logits" else 5) for name, array in far.items()})
    found = comparison.outputs(BOUNDS | {"outputs": {"logits": {"max_abs": 10}}})
    assert [output["passed"] for output in found] == [True, False, False]
