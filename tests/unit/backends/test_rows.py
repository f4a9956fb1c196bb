"""A row alone gets the answer that it gets in its batch, or the candidate is to blame, unless the source is so too."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest

from artifactctl.backends import core, proof
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.backends.rows import Rows, badness_of
from artifactctl.crew import Crew
from artifactctl.project import ModelConfig, Source
from artifactctl.records import Candidate, EquivalenceReport, ReferenceModel, Session, SourceModel
from artifactctl.steps.verify import prove

from .small import SETTINGS, floats, model, node, write

BOUNDS: dict[str, Any] = {"default": {"max_abs": 1e-3}, "outputs": {}}
HOW: dict[str, Any] = {"batched": True, "states": [], "batch_axes": {"x": 0}, "split": ["00000", "00001"]}


def doubled() -> onnx.ModelProto:
    return model([node("Add", ["x", "x"], ["y"])], [floats("x", "batch", 4)], [floats("y", "batch", 4)])


def doubled_in_batches() -> onnx.ModelProto:
    """Right for every batch; a row alone gets 1 more."""
    nodes = [
        node("Shape", ["x"], ["size"], start=0, end=1),
        node("Equal", ["size", "one"], ["single"]),
        node("Cast", ["single"], ["more"], to=onnx.TensorProto.FLOAT),
        node("Add", ["x", "x"], ["double"]),
        node("Add", ["double", "more"], ["y"]),
    ]
    return model(nodes, [floats("x", "batch", 4)], [floats("y", "batch", 4)], {"one": np.array([1])})


def centred() -> onnx.ModelProto:
    """Takes the mean of the batch away: what a row gets depends on its neighbours."""
    nodes = [node("ReduceMean", ["x", "first"], ["m"], keepdims=1), node("Sub", ["x", "m"], ["y"])]
    return model(nodes, [floats("x", "batch", 4)], [floats("y", "batch", 4)], {"first": np.array([0])})


def balanced(mixing: float) -> onnx.ModelProto:
    """2 x and a share of the batch's mean, which the samples below do not have."""
    nodes = [
        node("ReduceMean", ["x", "first"], ["m"], keepdims=1),
        node("Mul", ["m", "mixing"], ["part"]),
        node("Add", ["x", "x"], ["double"]),
        node("Add", ["double", "part"], ["y"]),
    ]
    weights = {"first": np.array([0]), "mixing": np.array(mixing, np.float32)}
    return model(nodes, [floats("x", "batch", 4)], [floats("y", "batch", 4)], weights)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Batches of three and four only, each with a mean of zero."""
    folder = tmp_path / "samples"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, size in (("00000", 3), ("00001", 4), ("00002", 3)):
        x = rng.integers(-8, 8, (size, 4)).astype(np.float32)
        x[-1] -= x.sum(axis=0)
        sample = {"inputs": {"x": x}, "outputs": {}, "labels": None, "follows": False}
        write_npz(folder / f"{number}.npz", sample_arrays(number, sample))
    return folder


def answered(source: onnx.ModelProto, samples: Path) -> str:
    path = write(source, samples.parent / "source.onnx")
    proof.answer_as_written(path, str(samples), SETTINGS, [])
    return path


def asked(candidate: onnx.ModelProto, samples: Path, **changes: Any) -> dict[str, Any]:
    return proof.prove(
        write(candidate, samples.parent / "candidate.onnx"), str(samples), SETTINGS, BOUNDS, HOW | changes
    )


CHEATS = {"by the size of the batch": doubled_in_batches(), "by its mean": balanced(0.5)}


@pytest.mark.parametrize("kind", CHEATS)
def test_a_candidate_that_mixes_rows_is_seen_although_its_batches_are_right(kind: str, samples: Path) -> None:
    answered(doubled(), samples)
    report = asked(CHEATS[kind], samples)
    assert all(output["passed"] for output in report["outputs"])
    assert report["rows"]["reason"].startswith("output 'y': error")
    assert report["rows"]["max_error"] > 1e-3
    assert report["rows"]["checked"] == 2 * Rows.ENOUGH


def test_rows_that_stand_alone(samples: Path) -> None:
    answered(doubled(), samples)
    assert asked(doubled(), samples)["rows"] == {"checked": 6, "max_error": 0.0, "reason": None}


def test_nothing_is_asked_where_nothing_is_split(samples: Path) -> None:
    answered(doubled(), samples)
    assert asked(doubled_in_batches(), samples, split=[])["rows"] is None
    assert asked(doubled_in_batches(), samples, batch_axes={})["rows"] is None


def test_a_model_that_refuses_single_rows_is_not_judged_by_them(samples: Path) -> None:
    """[batch, 4] as halves: three rows of four are six pairs; one row alone is no multiple of three."""
    nodes = [node("Reshape", ["x", "to"], ["r"]), node("Reshape", ["r", "back"], ["y"])]
    weights = {"to": np.array([-1, 3, 2]), "back": np.array([-1, 4])}
    made = model(nodes, [floats("x", "batch", 4)], [floats("y", "batch", 4)], weights)
    (samples / "00001.npz").unlink()
    answered(made, samples)
    report = asked(made, samples)
    assert all(output["passed"] for output in report["outputs"])
    assert report["rows"] is None


def test_the_batch_may_lie_along_another_axis(tmp_path: Path) -> None:
    made = model([node("Neg", ["x"], ["y"])], [floats("x", 5, "batch", 2)], [floats("y", 5, "batch", 2)])
    session = core.open_session(write(made, tmp_path / "m.onnx"), SETTINGS)
    rows = Rows(HOW | {"batch_axes": {"x": 1}})
    feeds = {"x": np.random.default_rng(0).standard_normal((5, 3, 2)).astype(np.float32)}
    rows.ask(session, feeds, core.run(session, feeds))
    found = rows.result(BOUNDS)
    assert found is not None
    assert (found["checked"], found["reason"]) == (3, None)


def test_an_output_without_rows_is_not_compared(tmp_path: Path) -> None:
    """A sum over the batch is no answer to any one of its rows."""
    nodes = [node("ReduceSum", ["x"], ["total"], keepdims=0)]
    made = model(nodes, [floats("x", "batch", 2)], [floats("total")])
    session = core.open_session(write(made, tmp_path / "m.onnx"), SETTINGS)
    rows = Rows(HOW)
    feeds = {"x": np.ones((3, 2), np.float32)}
    rows.ask(session, feeds, core.run(session, feeds))
    assert rows.result(BOUNDS) is None


def test_inputs_without_a_batch_are_given_whole(tmp_path: Path) -> None:
    made = model(
        [node("MatMul", ["x", "w"], ["y"])], [floats("x", "batch", 4), floats("w", 4, 2)], [floats("y", "batch", 2)]
    )
    session = core.open_session(write(made, tmp_path / "m.onnx"), SETTINGS)
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (("x", (3, 4)), ("w", (4, 2)))}
    rows = Rows(HOW)
    rows.ask(session, feeds, core.run(session, feeds))
    found = rows.result(BOUNDS)
    assert found is not None
    assert found["reason"] is None


class Here:
    """Does in this process what a crew has its children do."""

    def ask(self, _: str, operation: str, **arguments: Any) -> Any:
        return getattr(proof, operation)(**arguments)


def judged(source: onnx.ModelProto, candidate: onnx.ModelProto, samples: Path) -> EquivalenceReport:
    """The step itself, which knows what the source does with its rows."""
    path = answered(source, samples)
    entries = {file.stem: {"origin": "seeded", "dims": {"batch": 3}} for file in samples.glob("*.npz")}
    plan = {"inputs": [{"name": "x", "shape": ["batch", 4]}], "batch_axes": {"x": 0}, "batched": True, "states": []}
    itself = proof.prove(path, str(samples), SETTINGS, BOUNDS, HOW)
    reference = ReferenceModel(
        source=SourceModel(ModelConfig("m", Source("onnx", "m.onnx")), samples.parent, Path(path), ()),
        path=Path(path), sha256="0" * 64, opset=18, precision="fp32", size_bytes=1, framework="onnx",
        plan=plan | {"entries": dict(sorted(entries.items())), "branches": []}, samples=samples,
        session=Session("cpu", "CPUExecutionProvider", 1), noise={"rows": itself["rows"]},
    )  # fmt: skip
    made = Candidate("fp32", Path(write(candidate, samples.parent / "candidate.onnx")), "fp32", 1)
    return prove(reference, made, cast(Crew, Here()))


@pytest.mark.parametrize("kind", CHEATS)
def test_a_candidate_of_a_source_whose_rows_stand_alone_is_blamed(kind: str, samples: Path) -> None:
    report = judged(doubled(), CHEATS[kind], samples)
    assert not report.passed
    assert report.reason is not None
    assert "a row alone is answered otherwise than in its batch, which the source does not do" in report.reason


def test_a_source_that_mixes_rows_itself_blames_nobody(samples: Path) -> None:
    report = judged(centred(), centred(), samples)
    assert report.rows is not None
    assert report.rows["reason"], "the rows are mixed"
    assert report.passed


def test_a_candidate_that_is_wrong_in_its_batches_keeps_that_reason(samples: Path) -> None:
    report = judged(doubled(), centred(), samples)
    assert not report.passed
    assert report.failure is None
    assert "over the bound" in (report.reason or "")


def test_how_bad_an_output_is() -> None:
    passed = {"max_error": 5e-4, "bound": 1e-3, "passed": True}
    assert badness_of(passed) == pytest.approx(0.5)
    assert badness_of(passed | {"passed": False, "max_error": 2e-3}) == pytest.approx(3)
    assert badness_of({"max_error": None, "bound": None, "passed": True}) == 0
    assert badness_of({"max_error": None, "bound": 1e-3, "passed": False}) == float("inf")
    assert badness_of({"max_error": 0.5, "bound": None, "passed": True}) == 0.5
