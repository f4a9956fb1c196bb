"""Samples that are kept when a proof fails, and the proof again from stored answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from artifactctl.backends import again, core, proof
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.errors import ArtifactDamaged, NotAvailable, SourceError

from .small import SETTINGS, floats, model, node, write

BOUNDS: dict[str, Any] = {"default": {"max_abs": 1e-3}, "outputs": {"y": {"max_abs": 1e-4}}}
STATES = [{"input": "h_in", "output": "h_out"}]
PLAN = {"states": STATES, "batched": False}
ABOUT = {"bounds": BOUNDS, "session": SETTINGS, "states": STATES, "batched": False}


def integrator(drift: float) -> onnx.ModelProto:
    nodes = [
        node("Add", ["h_in", "x"], ["plain"]),
        node("Add", ["plain", "drift"], ["h_out"]),
        node("Identity", ["h_out"], ["y"]),
    ]
    inputs, outputs = [floats("x", 1, 4), floats("h_in", 1, 4)], [floats("y", 1, 4), floats("h_out", 1, 4)]
    return model(nodes, inputs, outputs, {"drift": np.array(drift, np.float32)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two single samples, a sequence of three steps, and a single sample, with the source's answers."""
    place = tmp_path / "samples"
    place.mkdir()
    rng = np.random.default_rng(0)
    for number, follows in enumerate([False, False, False, True, True, False]):
        inputs = {"x": (rng.random((1, 4)) / 10).astype(np.float32), "h_in": np.zeros((1, 4), np.float32)}
        sample = {"inputs": inputs, "outputs": {}, "labels": None, "follows": follows}
        write_npz(place / f"{number:05d}.npz", sample_arrays(f"{number:05d}", sample))
    path = write(integrator(0.0), tmp_path / "source.onnx")
    assert not proof.answer_as_written(path, str(place), SETTINGS, STATES)["refused"]
    return place


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(
        one[part].keys() == other[part].keys()
        and all(np.array_equal(one[part][name], other[part][name]) for name in one[part])
        for part in ("inputs", "outputs")
    )


@pytest.mark.parametrize(
    ("number", "kept"),
    [("00000", [0]), ("00001", [1]), ("00002", [2]), ("00003", [2, 3]), ("00004", [2, 3, 4]), ("00005", [5])],
)
def test_a_kept_sample_has_the_steps_that_led_to_it(number: str, kept: list[int], folder: Path) -> None:
    target = folder.parent / "evidence" / "worst.npz"
    again.keep_worst(str(folder), number, str(target), ABOUT)
    assert again.read_about(str(target)) == ABOUT
    stored = core.read_golden(target)
    assert [sample["follows"] for sample in stored] == [False] + [True] * (len(kept) - 1)
    for sample, place in zip(stored, kept, strict=True):
        assert same(sample, proof.read_sample(folder / f"{place:05d}.npz"))


def test_a_number_whose_file_is_gone_gives_the_one_before_it(folder: Path) -> None:
    (folder / "00005.npz").unlink()
    target = folder.parent / "worst.npz"
    again.keep_worst(str(folder), "00005", str(target), ABOUT)
    assert len(core.read_golden(target)) == 3


def test_a_kept_sequence_shows_the_same_error_again(folder: Path) -> None:
    """4e-5 a step is under the bound of 1e-4 for two steps, and over it at the third."""
    candidate = write(integrator(4e-5), folder.parent / "candidate.onnx")
    how = {"batched": False, "states": STATES, "batch_axes": {}, "split": []}
    report = proof.prove(candidate, str(folder), SETTINGS, BOUNDS, how)
    assert report["worst"] == "00004"
    target = folder.parent / "worst.npz"
    again.keep_worst(str(folder), report["worst"], str(target), ABOUT)
    about = again.read_about(str(target))
    found = again.verify_golden(candidate, str(target), about["session"], about["bounds"], about)
    [y] = [output for output in found["outputs"] if output["name"] == "y"]
    assert not y["passed"]
    assert y["max_error"] == max(output["max_error"] for output in report["outputs"])
    alone = again.verify_golden(candidate, str(target), about["session"], about["bounds"], about | {"states": []})
    assert all(output["passed"] for output in alone["outputs"]), "each step alone is inside the bound"


def golden(folder: Path) -> Path:
    target = folder.parent / "golden.npz"
    numbers = proof.write_golden(str(folder), str(target), False, [])
    assert numbers == [f"{number:05d}" for number in range(6)]
    return target


def test_the_worst_of_the_stored_samples_is_kept_where_it_differs(folder: Path) -> None:
    stored, worst = golden(folder), folder.parent / "deep" / "worst.npz"
    candidate = write(integrator(4e-5), folder.parent / "candidate.onnx")
    found = again.verify_golden(candidate, str(stored), SETTINGS, BOUNDS, PLAN, worst=str(worst))
    assert not all(output["passed"] for output in found["outputs"])
    assert again.read_about(str(worst)) == ABOUT
    kept = core.read_golden(worst)
    assert [sample["follows"] for sample in kept] == [False, True, True]
    assert same(kept[-1], proof.read_sample(folder / "00004.npz"))


def test_nothing_is_kept_of_a_model_that_holds(folder: Path) -> None:
    stored, worst = golden(folder), folder.parent / "worst.npz"
    source = str(folder.parent / "source.onnx")
    found = again.verify_golden(source, str(stored), SETTINGS, BOUNDS, PLAN, worst=str(worst))
    assert all(output["passed"] for output in found["outputs"])
    assert found["placement"] == {"CPUExecutionProvider": 3}
    assert found["samples"] == 6
    assert not worst.exists()
    assert again.verify_golden(source, str(stored), SETTINGS, BOUNDS, PLAN, count=2)["samples"] == 2


def test_against_a_reference_on_fresh_inputs(folder: Path) -> None:
    inputs = [
        {"name": name, "shape": [1, 4], "dtype": "float32", "fill": "float", "state": state}
        for name, state in (("x", False), ("h_in", True))
    ]
    sets = [{"kind": "uniform", "dims": {}, "draw": draw, "rest": True} for draw in range(3)]
    plan = PLAN | {"inputs": inputs, "sets": sets, "seed": 1}
    source = str(folder.parent / "source.onnx")
    for drift, passed in ((0.0, True), (0.5, False)):
        candidate = write(integrator(drift), folder.parent / "candidate.onnx")
        found = again.verify_fresh(candidate, source, SETTINGS, BOUNDS, plan, 3)
        assert [output["name"] for output in found["outputs"]] == ["y (fresh)", "h_out (fresh)"]
        assert all(output["passed"] is passed for output in found["outputs"])


def no_zip(path: Path) -> None:
    path.write_bytes(b"these are not the arrays you are looking for")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def spoil(path: Path) -> None:
    """One byte inside an array; the checksum of the archive sees it."""
    content = bytearray(path.read_bytes())
    place = content.index(b"NUMPY") + 130
    content[place] ^= 0xFF
    path.write_bytes(bytes(content))


def rename(path: Path) -> None:
    write_npz(path, {"no slashes at all": np.zeros(2)})


def odd_part(path: Path) -> None:
    write_npz(path, {"00000/neither/x": np.zeros(2)})


def pickled(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, **{"00000/inputs/x": np.array([{"a": 1}], object)})


def gone(path: Path) -> None:
    path.unlink()


DAMAGE = [no_zip, cut, spoil, rename, odd_part, pickled, gone]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_answers_of_an_artifact(damage: Any, folder: Path) -> None:
    stored = golden(folder)
    damage(stored)
    with pytest.raises(ArtifactDamaged, match=r"golden\.npz cannot be read"):
        again.verify_golden(str(folder.parent / "source.onnx"), str(stored), SETTINGS, BOUNDS, PLAN)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_kept_sample(damage: Any, folder: Path) -> None:
    target = folder.parent / "worst.npz"
    again.keep_worst(str(folder), "00000", str(target), ABOUT)
    damage(target)
    with pytest.raises(SourceError, match=r"worst\.npz cannot be read"):
        again.read_about(str(target))


def test_other_archives_are_no_kept_samples(folder: Path) -> None:
    with pytest.raises(SourceError, match=r"00000\.npz is not a kept sample") as caught:
        again.read_about(str(folder / "00000.npz"))
    assert "worst.npz" in caught.value.hint
    write_npz(folder / "empty.npz", {})
    with pytest.raises(SourceError, match=r"empty\.npz is not a kept sample"):
        again.read_about(str(folder / "empty.npz"))


def test_models_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(SourceError, match=r"m\.onnx cannot be loaded by ONNX Runtime"):
        again.open_model(str(tmp_path / "m.onnx"), SETTINGS)
    path = write(integrator(0.0), tmp_path / "m.onnx")
    with pytest.raises(NotAvailable, match="NoSuchExecutionProvider is not available here"):
        again.open_model(path, SETTINGS | {"execution_provider": "NoSuchExecutionProvider"})


def test_a_model_that_refuses_the_stored_inputs(folder: Path) -> None:
    wider = model([node("Relu", ["other"], ["y"])], [floats("other", 1, 9)], [floats("y", 1, 9)])
    path = write(wider, folder.parent / "other.onnx")
    with pytest.raises(SourceError, match="cannot be run"):
        again.verify_golden(path, str(golden(folder)), SETTINGS, BOUNDS, PLAN)


def test_what_is_kept_is_plain_json(folder: Path) -> None:
    """So that any later version can read it."""
    target = folder.parent / "worst.npz"
    again.keep_worst(str(folder), "00000", str(target), ABOUT)
    with np.load(target, allow_pickle=False) as stored:
        assert json.loads(str(stored["00000/about/"])) == ABOUT
