"""Which sizes and kinds of input a model is tried on, and what that sees."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from artifactctl.backends import core, lattice
from artifactctl.backends.planner import KINDS
from artifactctl.backends.samples import plan_inputs

from .small import SETTINGS, floats, ints, model, node, write
from .test_states import Proved


def plan(made: onnx.ModelProto, folder: Path, *, probe: bool = True, **declared: Any) -> dict[str, Any]:
    return plan_inputs(write(made, folder / "m.onnx"), declared, SETTINGS, 1, probe, None)


def tried(found: dict[str, Any], name: str) -> set[int]:
    return {entry["dims"][name] for entry in found["sets"]}


def summed(*shape: int | str) -> onnx.ModelProto:
    """The sum over the last axis."""
    nodes = [node("ReduceSum", ["x", "last"], ["y"], keepdims=1)]
    return model(nodes, [floats("x", *shape)], [floats("y", *shape[:-1], 1)], {"last": np.array([-1])})


def test_each_size_is_tried_at_several_levels(tmp_path: Path) -> None:
    found = plan(summed("batch", "n"), tmp_path)
    assert tried(found, "n") >= {1, 2, 7, 16, 32}
    assert tried(found, "batch") >= {1, 2, 3, 8}
    assert found["outside"] == []
    assert found["single_size"] == []


def test_every_two_sizes_meet_at_every_two_levels(tmp_path: Path) -> None:
    found = plan(summed("batch", "a", "b", "c"), tmp_path)
    base = found["sets"][0]["dims"]
    levels = {name: lattice.levels(base[name], name == "batch") for name in ("batch", "a", "b", "c")}
    for one, other in combinations(levels, 2):
        met = {(entry["dims"][one], entry["dims"][other]) for entry in found["sets"]}
        assert met >= set(product(levels[one], levels[other])), f"{one} and {other}"
    assert len(found["sets"]) < 80, "far fewer than all 500 combinations"


def test_a_name_that_two_inputs_share_has_one_size(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["a", "b"], ["y"])]
    made = model(
        nodes, [floats("a", "batch", "n", "k"), floats("b", "batch", "k", "m")], [floats("y", "batch", "n", "m")]
    )
    found = plan(made, tmp_path)
    assert len(tried(found, "k")) >= 4
    for index in range(len(found["sets"])):
        feeds = core.make_inputs(found, [1], index)
        assert feeds["a"].shape[0] == feeds["b"].shape[0]
        assert feeds["a"].shape[2] == feeds["b"].shape[1]
    assert found["outside"] == []


def in_fours(factor: float = 1.0) -> onnx.ModelProto:
    """x [batch, n] as rows of four: no other n will do."""
    nodes = [node("Reshape", ["x", "to"], ["r"]), node("Mul", ["r", "factor"], ["y"])]
    weights = {"to": np.array([0, -1, 4]), "factor": np.array(factor, np.float32)}
    return model(nodes, [floats("x", "batch", "n")], [floats("y", "batch", None, 4)], weights)


def test_sizes_that_the_model_refuses_are_no_failure(tmp_path: Path) -> None:
    proved = Proved(in_fours(), in_fours(), tmp_path)
    refused = {entry["dims"]["n"] for entry in proved.plan["outside"]}
    assert refused >= {1, 2, 7}
    assert all(entry["message"] for entry in proved.plan["outside"])
    assert all(size % 4 == 0 for size in tried(proved.plan, "n"))
    assert tried(proved.plan, "n") >= {16, 32}
    assert proved.plan["single_size"] == []
    assert proved.passed
    assert proved.answers["refused"] == []


def test_a_fault_is_seen_although_sizes_were_refused(tmp_path: Path) -> None:
    assert not Proved(in_fours(), in_fours(1.1), tmp_path).passed


def test_a_size_that_is_refused_is_asked_once(tmp_path: Path) -> None:
    found = plan(in_fours(), tmp_path)
    outside = [tuple(sorted(entry["dims"].items())) for entry in found["outside"]]
    assert len(outside) == len(set(outside))


def mean(fixed: int | None) -> onnx.ModelProto:
    """Over the last axis; with `fixed`, the sum divided by that number, as a careless export has it."""
    if fixed is None:
        nodes = [node("ReduceMean", ["x", "last"], ["y"], keepdims=1)]
    else:
        nodes = [node("ReduceSum", ["x", "last"], ["sum"], keepdims=1), node("Div", ["sum", "count"], ["y"])]
    weights = {"last": np.array([-1]), "count": np.array(fixed or 1, np.float32)}
    return model(nodes, [floats("x", "batch", "n")], [floats("y", "batch", 1)], weights)


def test_right_at_one_size_and_wrong_at_all_others_is_seen(tmp_path: Path) -> None:
    proved = Proved(mean(None), mean(16), tmp_path)
    assert proved.plan["sets"][0]["dims"]["n"] == 16
    assert not proved.passed
    assert all(entry["dims"]["n"] != 16 for entry in proved.failed_sets)


def test_right_unless_two_sizes_meet_is_seen(tmp_path: Path) -> None:
    """Wrong only where the batch is over 2 and n over 20, each of which is harmless alone."""

    def made(factor: float) -> onnx.ModelProto:
        nodes = [
            node("Shape", ["x"], ["shape"]),
            node("Greater", ["shape", "limits"], ["over"]),
            node("Cast", ["over"], ["ones"], to=onnx.TensorProto.FLOAT),
            node("ReduceProd", ["ones"], ["both"], keepdims=0),
            node("Mul", ["both", "factor"], ["more"]),
            node("Add", ["x", "more"], ["y"]),
        ]
        weights = {"limits": np.array([2, 20]), "factor": np.array(factor, np.float32)}
        return model(nodes, [floats("x", "batch", "n")], [floats("y", "batch", "n")], weights)

    proved = Proved(made(0.0), made(1.0), tmp_path)
    assert not proved.passed
    assert all(entry["dims"]["batch"] > 2 and entry["dims"]["n"] > 20 for entry in proved.failed_sets)


def test_a_batch_that_must_be_a_multiple_of_four(tmp_path: Path) -> None:
    def made(factor: float) -> onnx.ModelProto:
        nodes = [node("Reshape", ["x", "to"], ["r"]), node("Mul", ["r", "factor"], ["y"])]
        weights = {"to": np.array([-1, 4, 3]), "factor": np.array(factor, np.float32)}
        return model(nodes, [floats("x", "batch", 3)], [floats("y", None, 4, 3)], weights)

    proved = Proved(made(1.0), made(1.0), tmp_path)
    assert all(size % 4 == 0 for size in tried(proved.plan, "batch"))
    assert len(tried(proved.plan, "batch")) > 1
    assert proved.passed
    (tmp_path / "wrong").mkdir()
    assert not Proved(made(1.0), made(1.1), tmp_path / "wrong").passed


def test_a_size_that_cannot_change_is_named(tmp_path: Path) -> None:
    made = model(
        [node("MatMul", ["x", "w"], ["y"])],
        [floats("x", "batch", "n")],
        [floats("y", "batch", 4)],
        {"w": np.ones((16, 4), np.float32)},
    )
    found = plan(made, tmp_path)
    assert found["single_size"] == ["n"]
    assert tried(found, "n") == {16}
    assert tried(found, "batch") >= {1, 2, 3, 8}


def test_sizes_that_only_move_together(tmp_path: Path) -> None:
    made = model(
        [node("Concat", ["a", "b"], ["both"], axis=0), node("Identity", ["both"], ["y"])],
        [floats("a", "batch", "n"), floats("b", "batch", "m")],
        [floats("y", None, None)],
    )
    found = plan(made, tmp_path)
    assert all(entry["dims"]["n"] == entry["dims"]["m"] for entry in found["sets"])
    assert len(tried(found, "n")) >= 3
    assert found["single_size"] == []


def test_a_framework_is_asked_later(tmp_path: Path) -> None:
    """Without a probe nothing is refused here, and nothing is known of single sizes."""
    found = plan(in_fours(), tmp_path, probe=False)
    assert tried(found, "n") >= {1, 2, 7, 16, 32}
    assert found["outside"] == []
    assert found["single_size"] == []


def kinds(found: dict[str, Any], **dims: int) -> list[str]:
    return [entry["kind"] for entry in found["sets"] if entry["dims"] == dims]


def test_kinds_of_input(tmp_path: Path) -> None:
    found = plan(summed("batch", 4), tmp_path)
    assert tuple(kinds(found, batch=1)[:5]) == KINDS
    assert set(kinds(found, batch=3)) == {"normal", "uniform", "outlier"}
    assert not any(entry["kind"] == "pixels" for entry in found["sets"])


@pytest.mark.parametrize("shape", [("batch", 3, "h", "w"), ("batch", "h", "w", 3), ("batch", 1, 32, 32)])
def test_an_image_is_tried_with_pixels_too(shape: tuple[int | str, ...], tmp_path: Path) -> None:
    found = plan(summed(*shape), tmp_path)
    pixels = [index for index, entry in enumerate(found["sets"]) if entry["kind"] == "pixels"]
    assert {found["sets"][index]["dims"]["batch"] for index in pixels} >= {1, 3}
    values = core.make_inputs(found, [1], pixels[0])["x"]
    assert values.dtype == np.float32
    assert values.min() >= 0
    assert 200 < values.max() <= 255
    assert np.array_equal(values, values.round())


def test_no_two_sets_are_the_same_draw(tmp_path: Path) -> None:
    found = plan(summed("batch", "n"), tmp_path)
    draws = [entry["draw"] for entry in found["sets"]]
    assert len(draws) == len(set(draws))
    assert max(draws) < found["draws"]


def test_a_size_in_the_data_of_the_user_is_the_base(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((6, 5), np.float32))
    path = write(summed("batch", "n"), tmp_path / "m.onnx")
    found = plan_inputs(path, {}, SETTINGS, 1, True, str(tmp_path / "data.npz"))
    assert found["sets"][0]["dims"] == {"batch": 1, "n": 5}
    assert tried(found, "n") >= {1, 2, 5, 7, 10}


def test_ids_and_a_mask_of_one_length(tmp_path: Path) -> None:
    nodes = [
        node("Gather", ["table", "ids"], ["e"]),
        node("Cast", ["attention_mask"], ["m"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["e", "m"], ["y"]),
    ]
    inputs = [ints("ids", "batch", "length"), ints("attention_mask", "batch", "length")]
    table = np.random.default_rng(0).standard_normal(30).astype(np.float32)
    found = plan(model(nodes, inputs, [floats("y", "batch", "length")], {"table": table}), tmp_path)
    assert tried(found, "length") >= {1, 2, 7, 16, 32}
    assert found["outside"] == []
    for index in range(len(found["sets"])):
        feeds = core.make_inputs(found, [1], index)
        assert feeds["ids"].shape == feeds["attention_mask"].shape
        assert 0 <= feeds["ids"].min() <= feeds["ids"].max() < 30


def test_vectors_whose_elements_depend_on_each_other_are_found_by_trial(tmp_path: Path) -> None:
    """A shape for 24 elements: hardly any two small numbers make one, and no rule says which."""
    made = model(
        [node("Reshape", ["x", "shape"], ["y"])],
        [floats("x", 2, 3, 4), ints("shape", 2)],
        [floats("y", None, None)],
    )
    found = plan_inputs(write(made, tmp_path / "m.onnx"), {}, SETTINGS, 3, True, None)
    spec = found["inputs"][1]
    assert (spec["fill"], spec["why"]) == ("arrays", "found by trial")
    assert all(len(array) == 2 for array in spec["arrays"])
    assert len(found["sets"]) >= 5
    assert found["outside"] == []
