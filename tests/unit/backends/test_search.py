"""Two models that agree on the samples and differ in a corner: the search goes there, and stays in the domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from artifactctl.backends import again, core
from artifactctl.backends.search import FARTHEST, Climber, search_worst

from .small import SETTINGS, floats, ints, model, node, write

BOUNDS: dict[str, Any] = {"default": {"max_abs": 1e-3}, "outputs": {}}
STEPS = 600  # of a climb that must not depend on the clock
SECONDS = 2.0

Feeds = dict[str, Any]


def plain() -> onnx.ModelProto:
    return model([node("Identity", ["x"], ["y"])], [floats("x", 1, 4)], [floats("y", 1, 4)])


def bent(share: float = 1e-4) -> onnx.ModelProto:
    """x and a small share of its square: the relative error is |x| times the share."""
    nodes = [
        node("Mul", ["x", "x"], ["square"]),
        node("Mul", ["square", "share"], ["part"]),
        node("Add", ["x", "part"], ["y"]),
    ]
    return model(nodes, [floats("x", 1, 4)], [floats("y", 1, 4)], {"share": np.array(share, np.float32)})


def clipped(high: float) -> onnx.ModelProto:
    weights = {"low": np.array(0, np.float32), "high": np.array(high, np.float32)}
    return model([node("Clip", ["x", "low", "high"], ["y"])], [floats("x", 1, 4)], [floats("y", 1, 4)], weights)


def bumped() -> onnx.ModelProto:
    """x, and more of it above 3."""
    nodes = [
        node("Sub", ["x", "three"], ["over"]),
        node("Relu", ["over"], ["bump"]),
        node("Add", ["x", "bump"], ["y"]),
    ]
    return model(nodes, [floats("x", 1, 4)], [floats("y", 1, 4)], {"three": np.array(3, np.float32)})


def plan_of(kind: str = "normal", **spec: Any) -> dict[str, Any]:
    inputs = [{"name": "x", "shape": [1, 4], "dtype": "float32", "fill": "float"} | spec]
    sets = [{"kind": kind, "dims": {}, "draw": draw} for draw in range(5)]
    return {"inputs": inputs, "sets": sets, "seed": 1}


class Watched(Climber):
    """Remembers what it looked at."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: list[Feeds] = []

    def look(self, feeds: Feeds) -> Any:
        self.seen.append(feeds)
        return super().look(feeds)


def climb(source: onnx.ModelProto, candidate: onnx.ModelProto, plan: dict[str, Any], folder: Path) -> Watched:
    paths = write(candidate, folder / "candidate.onnx"), write(source, folder / "source.onnx")
    climber = Watched(*(again.open_model(path, SETTINGS) for path in paths), BOUNDS, plan)
    starts = list(range(len(plan["sets"])))
    for index in starts:
        climber.look(core.make_inputs(plan, [plan["seed"]], index))
    for _ in range(STEPS):
        climber.step(starts)
    return climber


def score_of_start(source: onnx.ModelProto, candidate: onnx.ModelProto, plan: dict[str, Any], folder: Path) -> float:
    paths = write(candidate, folder / "candidate.onnx"), write(source, folder / "source.onnx")
    climber = Watched(*(again.open_model(path, SETTINGS) for path in paths), BOUNDS, plan)
    return max(climber.look(core.make_inputs(plan, [1], index)).score for index in range(len(plan["sets"])))


def below(limit: float, plan: dict[str, Any]) -> dict[str, Any]:
    """Only those sets that stay under the limit."""
    draws = [entry | {"draw": draw} for draw, entry in enumerate(plan["sets"] * 6)]
    kept = [
        entry for entry in draws if core.make_inputs(plan | {"sets": [entry]}, [plan["seed"]], 0)["x"].max() < limit
    ]
    return plan | {"sets": kept[:5]}


CORNERS = {
    "a little more with every step": (plain(), bent(), plan_of()),
    "nothing before 3": (plain(), bumped(), plan_of()),
    "a clip at 5.5 instead of 6": (clipped(6), clipped(5.5), below(5.5, plan_of(fill="range", range=[-1.0, 7.0]))),
}


@pytest.mark.parametrize("kind", CORNERS)
def test_a_corner_that_no_sample_reaches_is_found(kind: str, tmp_path: Path) -> None:
    source, candidate, plan = CORNERS[kind]
    begun = score_of_start(source, candidate, plan, tmp_path)
    assert begun < 1, "the samples alone see nothing"
    best = climb(source, candidate, plan, tmp_path).best
    assert best.score > 1
    assert not all(output["passed"] for output in best.outputs)


def test_the_same_seed_climbs_the_same_way(tmp_path: Path) -> None:
    one, other = (climb(plain(), bent(), plan_of(), tmp_path) for _ in range(2))
    assert one.best.score == other.best.score
    assert all(np.array_equal(a["x"], b["x"]) for a, b in zip(one.seen, other.seen, strict=True))


def test_floats_that_nothing_limits_stay_within_reach(tmp_path: Path) -> None:
    climber = climb(plain(), bent(), plan_of(), tmp_path)
    assert max(np.abs(feeds["x"]).max() for feeds in climber.seen) <= FARTHEST
    assert climber.best.score > 2, "near the end of what is allowed"


def test_a_range_is_never_left(tmp_path: Path) -> None:
    """Inside it the bound holds, and no search may say otherwise."""
    climber = climb(plain(), bent(), plan_of(fill="range", range=[-5.0, 2.0]), tmp_path)
    values = np.concatenate([feeds["x"].reshape(-1) for feeds in climber.seen])
    assert values.min() >= -5
    assert values.max() <= 2
    assert 0.45 < climber.best.score <= 0.51


def test_only_the_given_values_are_used(tmp_path: Path) -> None:
    climber = climb(plain(), bent(), plan_of(fill="values", values=[0.5, 1.5, 4.0]), tmp_path)
    assert {value for feeds in climber.seen for value in feeds["x"].reshape(-1).tolist()} == {0.5, 1.5, 4.0}
    assert climber.best.score == pytest.approx(0.4, rel=0.01)


def table(rows: int, wrong: int | None = None) -> onnx.ModelProto:
    values = np.arange(rows, dtype=np.float32)
    if wrong is not None:
        values[wrong] += 0.5
    return model([node("Gather", ["table", "x"], ["y"])], [ints("x", 1, 4)], [floats("y", 1, 4)], {"table": values})


def test_integers_stay_in_their_range(tmp_path: Path) -> None:
    plan = plan_of(dtype="int64", fill="range", range=[2, 8])
    climber = climb(table(10), table(10, wrong=9), plan, tmp_path)
    seen = {value for feeds in climber.seen for value in feeds["x"].reshape(-1).tolist()}
    assert seen == set(range(2, 9))
    assert climber.best.score == 0, "the wrong row is not in the domain"


def test_one_wrong_row_of_a_table_is_found(tmp_path: Path) -> None:
    plan = plan_of(dtype="int64", fill="range", range=[0, 199])
    drawn = {value for index in range(5) for value in core.make_inputs(plan, [1], index)["x"].reshape(-1).tolist()}
    wrong = max(set(range(200)) - drawn)
    assert score_of_start(table(200), table(200, wrong), plan, tmp_path) == 0
    climber = climb(table(200), table(200, wrong), plan, tmp_path)
    assert climber.best.score > 1
    assert wrong in climber.best.feeds["x"]


def test_what_the_source_refuses_is_outside_its_domain(tmp_path: Path) -> None:
    """The candidate answers there, and otherwise; that is nobody's fault."""
    plan = plan_of(dtype="int64", fill="range", range=[0, 15])
    climber = climb(table(10), table(16), plan, tmp_path)
    refused = [feeds for feeds in climber.seen if feeds["x"].max() >= 10]
    assert refused
    assert climber.best.score == 0
    assert climber.best.feeds["x"].max() < 10


def test_what_only_the_candidate_refuses_is_the_worst_of_all(tmp_path: Path) -> None:
    plan = plan_of(dtype="int64", fill="range", range=[0, 15])
    best = climb(table(16), table(10), plan, tmp_path).best
    assert best.score == np.inf
    assert best.feeds["x"].max() >= 10
    assert "it cannot be run" in best.outputs[0]["reason"]


@pytest.mark.parametrize("fill", ["mask", "bool", "string"])
def test_inputs_with_a_meaning_of_their_own_are_only_drawn_anew(fill: str, tmp_path: Path) -> None:
    kinds = {"mask": ("int64", TensorProto.INT64), "bool": ("bool", TensorProto.BOOL),
             "string": ("string", TensorProto.STRING)}  # fmt: skip
    dtype, element = kinds[fill]
    more = helper.make_tensor_value_info("more", element, [1, 3])

    def with_more(made: onnx.ModelProto) -> onnx.ModelProto:
        made.graph.input.append(more)
        made.graph.node.append(node("Identity", ["more"], ["same"]))
        made.graph.output.append(helper.make_tensor_value_info("same", element, [1, 3]))
        return made

    plan = plan_of()
    plan["inputs"].append({"name": "more", "shape": [1, 3], "dtype": dtype, "fill": fill})
    climber = climb(with_more(plain()), with_more(bent()), plan, tmp_path)
    assert climber.best.score > 1
    for feeds in climber.seen:
        [row] = feeds["more"].tolist()
        if fill == "mask":
            assert row == sorted(row, reverse=True)
            assert row[0] == 1


def searched(source: onnx.ModelProto, candidate: onnx.ModelProto, plan: dict[str, Any], folder: Path,
             seconds: float = SECONDS) -> tuple[dict[str, Any], Path]:  # fmt: skip
    target = folder / "found" / "00007.npz"
    target.parent.mkdir()
    paths = write(candidate, folder / "candidate.onnx"), write(source, folder / "source.onnx")
    return search_worst(*paths, SETTINGS, BOUNDS, plan, seconds, str(target)), target


def test_what_is_found_can_be_read_and_run_again(tmp_path: Path) -> None:
    found, target = searched(plain(), bent(), plan_of(), tmp_path)
    assert found["start"] < 1 < found["found"]
    assert found["evaluations"] > 5
    replayed = again.verify_golden(
        str(tmp_path / "candidate.onnx"), str(target), SETTINGS, BOUNDS, {"states": [], "batched": False}
    )
    [output] = replayed["outputs"]
    assert not output["passed"]
    assert output["max_error"] == found["outputs"][0]["max_error"]
    itself = again.verify_golden(str(tmp_path / "source.onnx"), str(target), SETTINGS, BOUNDS, {"batched": False})
    assert itself["outputs"][0]["passed"]
    assert itself["outputs"][0]["max_error"] == 0


def test_what_is_found_can_be_kept_with_its_bounds(tmp_path: Path) -> None:
    _, target = searched(plain(), bent(), plan_of(), tmp_path)
    kept = tmp_path / "evidence" / "worst.npz"
    about = {"bounds": BOUNDS, "session": SETTINGS, "states": [], "batched": False}
    again.keep_worst(str(target.parent), target.stem, str(kept), about)
    assert again.read_about(str(kept)) == about
    [first], [second] = core.read_golden(target), core.read_golden(kept)
    assert np.array_equal(first["inputs"]["x"], second["inputs"]["x"])


def test_without_time_the_samples_themselves_are_the_answer(tmp_path: Path) -> None:
    found, target = searched(plain(), bent(), plan_of(), tmp_path, seconds=0.0)
    assert found["evaluations"] == 1
    assert found["start"] == found["found"] > 0
    assert target.exists()


def test_steps_of_a_sequence_are_no_places_to_start(tmp_path: Path) -> None:
    plan = plan_of()
    for entry in plan["sets"][1:]:
        entry["follows"] = True
    plan["sets"][1]["kind"] = "no such kind"  # would raise
    found, _ = searched(plain(), bent(), plan, tmp_path, seconds=0.05)
    assert found["found"] is not None


def test_a_candidate_that_cannot_be_run_ends_the_search(tmp_path: Path) -> None:
    plan = plan_of(dtype="int64", fill="range", range=[12, 15])
    found, target = searched(table(16), table(10), plan, tmp_path, seconds=600)
    assert found["found"] is None
    assert not found["outputs"][0]["passed"]
    assert core.read_golden(target)[0]["inputs"]["x"].min() >= 12


def test_nothing_is_written_where_the_source_refuses_everything(tmp_path: Path) -> None:
    plan = plan_of(dtype="int64", fill="range", range=[12, 15])
    found, target = searched(table(10), table(16), plan, tmp_path, seconds=0.1)
    assert found["outputs"] == []
    assert not target.exists()


def clipped(most: float) -> onnx.ModelProto:
    weights = {"low": np.array(0, np.float32), "high": np.array(most, np.float32)}
    return model([node("Clip", ["x", "low", "high"], ["y"])], [floats("x", 1, 8)], [floats("y", 1, 8)], weights)


def test_a_plateau_is_left_by_a_leap(tmp_path: Path) -> None:
    """Near N(0, 1) the two agree everywhere, so no small step is ever better."""
    plan = plan_of()
    plan["inputs"] = [{"name": "x", "shape": [1, 8], "dtype": "float32", "fill": "float"}]
    assert climb(clipped(6.0), clipped(5.5), plan, tmp_path).best.score > 10
