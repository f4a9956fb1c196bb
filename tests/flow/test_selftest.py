"""selftest: every fault in every kind of model is caught, and a proof that lets one pass is not believed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from artifactctl import schema
from artifactctl.errors import NotProven, SourceError
from artifactctl.report.selftest import selftest_data, selftest_text
from artifactctl.steps.selftest import MIN_FAULTS, Fault, Selftest, judge
from tests.conftest import MODELS, ROOT, Finished, run_cli

Cli = Callable[..., Finished]
node = helper.make_node


def save(
    path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any], ml: bool = False
) -> Path:
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 18)] + ([helper.make_opsetid("ai.onnx.ml", 3)] if ml else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def value(name: str, element: int, *shape: int | str) -> Any:
    return helper.make_tensor_value_info(name, element, list(shape))


def transformer(path: Path, heads: int = 2, wide: int = 16) -> Path:
    """One encoder layer: ids and a mask in, attention over the tokens that the mask keeps, layer norms, a head."""
    rng = np.random.default_rng(5)
    square = ("wq", "wk", "wv", "wo", "w1", "w2")
    weights = {name: (rng.standard_normal((wide, wide)) / 4).astype(np.float32) for name in square}
    weights |= {"table": rng.standard_normal((50, wide)).astype(np.float32)}
    weights |= {"gain": np.ones(wide, np.float32), "shift": rng.standard_normal(wide).astype(np.float32)}
    weights |= {
        "split": np.array([0, 0, heads, wide // heads]),
        "join": np.array([0, 0, wide]),
        "axes": np.array([1, 2]),
    }
    weights |= {"one": np.float32(1), "far": np.float32(-1e4), "scale": np.float32((wide / heads) ** -0.5)}
    nodes = [node("Gather", ["table", "input_ids"], ["x"])]
    for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["x", f"w{part}"], [f"{part}_flat"]),
            node("Reshape", [f"{part}_flat", "split"], [f"{part}_split"]),
            node("Transpose", [f"{part}_split"], [part], perm=order),
        ]
    nodes += [
        node("Cast", ["attention_mask"], ["kept"], to=TensorProto.FLOAT),
        node("Sub", ["one", "kept"], ["gone"]),
        node("Mul", ["gone", "far"], ["penalty_flat"]),
        node("Unsqueeze", ["penalty_flat", "axes"], ["penalty"]),
        node("MatMul", ["q", "k"], ["raw"]),
        node("Mul", ["raw", "scale"], ["scaled"]),
        node("Add", ["scaled", "penalty"], ["logits"]),
        node("Softmax", ["logits"], ["attention"]),
        node("MatMul", ["attention", "v"], ["mixed"]),
        node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        node("Reshape", ["turned", "join"], ["joined"]),
        node("MatMul", ["joined", "wo"], ["projected"]),
        node("Add", ["x", "projected"], ["first"]),
        node("LayerNormalization", ["first", "gain", "shift"], ["normal"]),
        node("MatMul", ["normal", "w1"], ["up"]),
        node("Relu", ["up"], ["active"]),
        node("MatMul", ["active", "w2"], ["down"]),
        node("Add", ["normal", "down"], ["second"]),
        node("LayerNormalization", ["second", "gain", "shift"], ["last_hidden_state"]),
    ]
    ids, mask = (value(name, TensorProto.INT64, "batch", "length") for name in ("input_ids", "attention_mask"))
    return save(
        path, nodes, [ids, mask], [value("last_hidden_state", TensorProto.FLOAT, "batch", "length", wide)], weights
    )


def tree(path: Path) -> Path:
    """A word and two numbers in, a word and a map of probabilities out, as converters of trees write them."""
    labels = ["no", "perhaps", "yes"]
    nodes = [
        node("LabelEncoder", ["colour"], ["code"], domain="ai.onnx.ml", default_float=0.0,
             keys_strings=["artifact", "model", "42"], values_floats=[1.0, 2.0, 3.0]),
        node("Concat", ["code", "numbers"], ["features"], axis=1),
        node("TreeEnsembleClassifier", ["features"], ["label", "scores"], domain="ai.onnx.ml",
             classlabels_strings=labels, post_transform="NONE",
             nodes_treeids=[0] * 5, nodes_nodeids=[0, 1, 2, 3, 4], nodes_featureids=[0, 0, 1, 0, 0],
             nodes_values=[1.5, 0.0, 0.25, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
             nodes_truenodeids=[1, 0, 3, 0, 0], nodes_falsenodeids=[2, 0, 4, 0, 0], nodes_hitrates=[1.0] * 5,
             nodes_missing_value_tracks_true=[0] * 5,
             class_treeids=[0] * 9, class_nodeids=[1, 1, 1, 3, 3, 3, 4, 4, 4], class_ids=[0, 1, 2] * 3,
             class_weights=[0.7, 0.2, 0.1, 0.25, 0.5, 0.25, 0.1, 0.1, 0.8]),
        node("ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", classlabels_strings=labels),
    ]  # fmt: skip
    inputs = [value("colour", TensorProto.STRING, "batch", 1), value("numbers", TensorProto.FLOAT, "batch", 2)]
    kind = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    )
    outputs = [value("label", TensorProto.STRING, "batch"), helper.make_value_info("probabilities", kind)]
    return save(path, nodes, inputs, outputs, {}, ml=True)


def caught_all(done: Finished) -> dict[str, dict[str, Any]]:
    """Every fault that applies is caught, there are enough, and no sound model was accused."""
    assert done.code == 0, done.err
    assert schema.problems(done.json, "report") == []
    data = done.json["data"]
    faults = {fault["name"]: fault for fault in data["faults"]}
    missed = [name for name, fault in faults.items() if fault["applicable"] and not fault["caught"]]
    assert missed == []
    assert data["control"] == "passed"
    assert data["score"]["caught"] == data["score"]["injected"] >= MIN_FAULTS
    assert data["score"]["injected"] == sum(fault["applicable"] for fault in faults.values())
    return faults


def test_without_a_model(cli: Cli) -> None:
    faults = caught_all(cli("selftest", "--json"))
    assert len(faults) == 20
    assert all(fault["applicable"] for fault in faults.values())
    assert "dtype float64 instead of float32" in faults["wrong_dtype"]["how"]
    assert "is not available here" in faults["wrong_provider"]["how"]


def test_text(cli: Cli) -> None:
    done = cli("selftest", MODELS / "mlp.onnx")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].split() == ["fault", "injected", "where", "verdict", "how"]
    assert done.out.splitlines()[-1] == "selftest: 20 of 20 faults caught, no false alarm"


@pytest.mark.parametrize(("name", "applicable"), [("mtcnn_onet", 20), ("silero_vad", 20)])
def test_real_models(cli: Cli, real_model: Callable[[str], Path], name: str, applicable: int) -> None:
    """A convolutional network, and audio with state, whose weights all lie in Constant nodes of branches."""
    faults = caught_all(cli("selftest", real_model(name), "--json"))
    assert sum(fault["applicable"] for fault in faults.values()) == applicable


def test_transformer(cli: Cli, tmp_path: Path) -> None:
    faults = caught_all(cli("selftest", transformer(tmp_path / "encoder.onnx"), "--json"))
    assert all(fault["applicable"] for fault in faults.values())
    assert faults["transposed_weight"]["detail"] == "weight 'wq' [16, 16]"
    assert "along axis 1" in faults["only_second_size"]["detail"]


def test_tree_with_strings(cli: Cli, tmp_path: Path) -> None:
    faults = caught_all(cli("selftest", tree(tmp_path / "tree.onnx"), "--json"))
    assert faults["nan"]["detail"] == "'scores', before ZipMap"
    assert faults["wrong_label"]["detail"] == "classlabels_strings of TreeEnsembleClassifier"
    assert faults["transposed_weight"]["detail"] == "class_weights of TreeEnsembleClassifier"


def test_control_flow(cli: Cli) -> None:
    faults = caught_all(cli("selftest", MODELS / "branch.onnx", "--json"))
    assert [name for name, fault in faults.items() if not fault["applicable"]] == ["transposed_weight"]


def test_artifact(cli: Cli, artifact: Path) -> None:
    caught_all(cli("selftest", artifact, "--json"))
    (artifact / "model_opt.onnx").write_bytes(b"")
    assert cli("selftest", artifact, "--json").code == 10


def test_a_model_without_floats_is_refused(cli: Cli, tmp_path: Path) -> None:
    text = [value(name, TensorProto.STRING, "batch") for name in ("x", "y")]
    path = save(tmp_path / "words.onnx", [node("Identity", ["x"], ["y"])], text[:1], text[1:], {})
    done = cli("selftest", path, "--json")
    assert (done.code, done.json["error"]["name"]) == (4, "SourceError")
    assert "it has no float that reaches an output" in done.json["error"]["message"]
    assert done.json["data"]["score"]["injected"] < MIN_FAULTS


@pytest.mark.parametrize("name", ["none.onnx", "notes.onnx", "noisy.onnx"])
def test_wrong_models(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.onnx").write_text("not a model")
    shutil.copy(MODELS / "noisy.onnx", tmp_path)
    done = cli("selftest", name, "--json")
    assert done.code == {"noisy.onnx": 6}.get(name, 4)
    assert done.json["error"]["hint"]


WEAKER = """
strict = Comparison.add
def weak(self, reference, candidate, *more):
    {body}
Comparison.add = weak
"""
WEAKNESSES = {
    "only common names": (
        "both = [name for name in reference if name in candidate]\n"
        "    strict(self, {n: reference[n] for n in both}, {n: candidate[n] for n in both}, *more)",
        {"dropped_output", "renamed_output"},
    ),
    "shapes and types made equal": (
        "same = lambda n, v: v.astype(reference[n].dtype).reshape(reference[n].shape) if n in reference else v\n"
        "    strict(self, reference, {n: same(n, v) for n, v in candidate.items()}, *more)",
        {"broadcast_shape", "wrong_dtype"},
    ),
    "only finite numbers": (
        "odd = lambda n, v: n in reference and v.dtype.kind == 'f' and v.shape == reference[n].shape\n"
        "    kept = {n: np.where(np.isfinite(v), v, reference[n]) if odd(n, v) else v for n, v in candidate.items()}\n"
        "    strict(self, reference, kept, *more)",
        {"infinity", "nan"},
    ),
}


@pytest.mark.parametrize("weakness", WEAKNESSES)
def test_a_weakened_proof_fails(tmp_path: Path, weakness: str) -> None:
    """A copy of the program whose comparison is careless in one way: just the faults of that kind slip through."""
    body, expected = WEAKNESSES[weakness]
    for name in ("artifactctl", "schemas", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "templates" / "validate.py").open("a") as file:
        file.write(WEAKER.replace("{body}", body))
    done = run_cli("selftest", "--json", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert (done.code, done.json["error"]["name"]) == (8, "NotProven"), done.err
    faults = done.json["data"]["faults"]
    assert {fault["name"] for fault in faults if fault["applicable"] and not fault["caught"]} == expected
    assert all(name in done.json["error"]["message"] for name in expected)


def outcome(*, missed: tuple[str, ...] = (), count: int = 14, alarm: str | None = None) -> Selftest:
    names = [f"fault_{number}" for number in range(count - len(missed))]
    faults = [Fault(name, True, True, "error 1 is over the bound 0.001", "output 'y'") for name in names]
    faults += [Fault(name, False, True, "the proof passed", "output 'y'") for name in missed]
    faults.append(Fault("idle", False, False, "no answer changes clearly", ""))
    return Selftest("model.onnx", "output 'y'", alarm, tuple(faults))


def test_all_caught() -> None:
    assert judge(outcome()) is None
    assert selftest_text(selftest_data(outcome())).endswith("selftest: 14 of 14 faults caught, no false alarm")


def test_a_weak_proof_is_noticed() -> None:
    found = outcome(missed=("nan", "bias"))
    error = judge(found)
    assert isinstance(error, NotProven)
    assert "2 of 14 faults slipped through: nan (output 'y'), bias (output 'y')" in str(error)
    text = selftest_text(selftest_data(found))
    assert "MISSED" in text
    assert text.endswith("selftest: 12 of 14 faults caught, no false alarm")


def test_a_false_alarm_is_noticed() -> None:
    found = outcome(alarm="unchanged: output 'y': error 1 is over the bound 0.001")
    assert isinstance(judge(found), NotProven)
    assert selftest_data(found)["control"] == "failed"


def test_too_few_faults_prove_nothing() -> None:
    error = judge(outcome(count=MIN_FAULTS - 1))
    assert isinstance(error, SourceError)
    assert "only 11 faults apply" in str(error)
