from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artifactctl.backends.profiling import Event, nest, read_trace, summarize
from artifactctl.errors import NotAvailable, SourceError
from artifactctl.records import Session
from artifactctl.report.profile import profile_data, profile_text
from artifactctl.steps.profile import Profile, file_name, keep_traces, node_changes, operator_changes, profile_of
from artifactctl.steps.sides import Side

CPU = Session("cpu", "CPUExecutionProvider", 2)


def run(start: int, length: int) -> Event:
    return Event("model_run", start, length)


def call(name: str, start: int, length: int, operator: str = "", **more: Any) -> Event:
    return Event(name, start, length, operator=operator or name.partition("_")[0], **more)


def node(name: str, time_us: float, operator: str = "Relu", inside: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "name": name, "inside": list(inside), "operator": operator, "provider": "CPUExecutionProvider",
        "time_us": time_us, "with_body_us": time_us, "calls": 1, "inputs": ["float[1]"], "outputs": [],
        "shapes_vary": False,
    }  # fmt: skip


def made(*nodes: dict[str, Any], trace: Path = Path("trace.json"), name: str = "model") -> Profile:
    numbers = {"runs": 5, "warm_up_runs": 3, "run_us": 100.0, "outside_us": 10.0, "trace": str(trace)}
    return profile_of(Side(f"{name}.onnx", Path(f"{name}.onnx")), CPU, numbers | {"nodes": list(nodes)})


def named(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"/".join((*entry["inside"], entry["name"])): entry for entry in result["nodes"]}


def test_a_body_is_counted_once() -> None:
    """An If in a Loop: each node is left with what the nodes directly inside it do not take."""
    events = [
        call("Neg_0", 12, 5), call("If_1", 11, 8), call("Neg_0", 22, 5), call("If_1", 21, 9), call("Loop_0", 10, 25),
        call("Add_1", 35, 4), run(9, 32),
    ]  # fmt: skip
    found = summarize(events, 0)
    times = {key: (entry["time_us"], entry["with_body_us"], entry["calls"]) for key, entry in named(found).items()}
    assert times == {
        "Loop_0": (8, 25, 1), "Loop_0/If_1": (7, 17, 2), "Loop_0/If_1/Neg_0": (10, 10, 2), "Add_1": (4, 4, 1),
    }  # fmt: skip
    assert sum(entry["time_us"] for entry in found["nodes"]) + found["outside_us"] == found["run_us"]


def test_the_order_of_the_file_does_not_matter() -> None:
    events = [call("Exp_0", 12, 5), call("If_1", 11, 8), call("Add_2", 19, 4)]
    for order in (events, events[::-1], events[1:] + events[:1]):
        assert {(one.path, one.event.name, one.own) for one in nest(order)} == {
            ((), "If_1", 3), (("If_1",), "Exp_0", 5), ((), "Add_2", 4),
        }  # fmt: skip


def test_nodes_that_touch_are_neighbours_and_threads_are_apart() -> None:
    calls = nest([call("A_0", 0, 5), call("B_1", 5, 3), call("C_2", 6, 1, thread=7)])
    assert [(one.path, one.own) for one in calls] == [((), 5), ((), 3), ((), 1)]


def test_warm_up_and_half_recorded_runs_are_left_out() -> None:
    events = [call("A_0", 1, 90), run(0, 95)]
    for number, length in enumerate((10, 30, 20), start=1):
        events += [call("A_0", 100 * number + 1, length), run(100 * number, length + 5)]
    events += [call("A_0", 401, 77)]  # the profiler was full before its run ended
    found = summarize(events, 1)
    assert (found["runs"], found["run_us"], found["outside_us"]) == (3, 25, 5)
    assert [(entry["time_us"], entry["calls"]) for entry in found["nodes"]] == [(20, 1)]


def test_the_same_name_twice_is_two_nodes() -> None:
    found = summarize([call("A", 1, 3, index="0"), call("A", 5, 4, index="1"), run(0, 10)], 0)
    assert [entry["time_us"] for entry in found["nodes"]] == [3, 4]


def test_shapes_of_several_calls() -> None:
    first, other = ("float[1]",), ("float[2]",)
    same = summarize([call("A", 1, 3, inputs=first), call("A", 5, 4, inputs=first), run(0, 10)], 0)["nodes"]
    differ = summarize([call("A", 1, 3, inputs=first), call("A", 5, 4, inputs=other), run(0, 10)], 0)["nodes"]
    assert [(entry["inputs"], entry["shapes_vary"]) for entry in same + differ] == [
        (["float[1]"], False), (["float[1]"], True),
    ]  # fmt: skip


def test_no_whole_run() -> None:
    with pytest.raises(SourceError, match="more events than ONNX Runtime records"):
        summarize([call("A", 1, 3), run(0, 10)], 1)


TRACE = """[
{"cat" : "Session","pid" :1,"tid" :2,"dur" :9,"ts" :0,"ph" : "X","name" :"session_initialization","args" : {}},
{"cat" : "Node","pid" :1,"tid" :2,"dur" :5,"ts" :11,"ph" : "X","name" :"%s_kernel_time","args" : {"op_name" : "Exp",\
"node_index" : "4","provider" : "P","thread_scheduling_stats" : {"main_thread": {"core": -1}, "sub_threads": {}},\
"input_type_shape" : [{"float":[1,2]},{"int64":[]}],"output_type_shape" : []}},
{"cat" : "Session","pid" :1,"tid" :2,"dur" :8,"ts" :10,"ph" : "X","name" :"model_run","args" : {}}
]
"""


@pytest.mark.parametrize("name", ["plain", 'quo"ted', "back\\slash", "new\nline", "tab\t"])
def test_a_trace_with_any_name_is_read_and_valid_afterwards(tmp_path: Path, name: str) -> None:
    """Older ONNX Runtimes write names as they are."""
    path = tmp_path / "trace.json"
    path.write_text(TRACE % name)
    expected = Event(name, 11, 5, 2, "Exp", "4", "P", ("float[1,2]", "int64[]"), ())
    assert read_trace(path) == [expected, Event("model_run", 10, 8, 2)]
    assert json.loads(path.read_text())[1]["name"] == f"{name}_kernel_time"


def test_a_trace_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text((TRACE % "x")[:300])
    with pytest.raises(NotAvailable, match="not whole"):
        read_trace(path)


def test_shares_and_operators() -> None:
    found = made(node("a", 10, "Conv"), node("b", 60, "Relu"), node("c", 30, "Conv"))
    assert [(entry.name, entry.share) for entry in found.nodes] == [("b", 0.6), ("c", 0.3), ("a", 0.1)]
    assert [(entry.operator, entry.time_us, entry.nodes) for entry in found.operators] == [
        ("Relu", 60, 1),
        ("Conv", 40, 2),
    ]
    assert found.outside_share == pytest.approx(0.1)


def test_nothing_took_any_time() -> None:
    assert [entry.share for entry in made(node("a", 0)).nodes] == [0.0]
    assert made().operators == ()
    text = profile_text(profile_data([made()], [Path("t.json")], "nothing"))
    assert text.startswith("operator")


def test_changes_the_largest_first() -> None:
    candidate = made(node("a", 10, "FusedConv"), node("b", 60), node("new", 5))
    baseline = made(node("a", 50, "Conv"), node("b", 58), node("old", 20))
    changes = node_changes(candidate, baseline)
    assert [(change.name, change.change_us, change.status) for change in changes] == [
        ("a", -40, "both"), ("old", -20, "removed"), ("new", 5, "added"), ("b", 2, "both"),
    ]  # fmt: skip
    assert (changes[0].baseline_operator, changes[0].candidate_operator) == ("Conv", "FusedConv")
    kinds = {change.name: (change.change_us, change.status) for change in operator_changes(candidate, baseline)}
    assert kinds == {"Conv": (-50, "removed"), "Relu": (-13, "both"), "FusedConv": (10, "added")}


def test_nodes_are_joined_by_place_and_then_by_name() -> None:
    """Without names, a node of the graph and one of a body may be called alike."""
    candidate = made(node("Neg_0", 3, "Neg", ("If_2",)), node("x", 5, inside=("If_2",)))
    baseline = made(node("Neg_0", 9, "Neg"), node("Neg_0", 4, "Neg", ("If_2",)), node("x", 1, inside=("If_7",)))
    changes = node_changes(candidate, baseline)
    assert [(change.name, change.change_us, change.status) for change in changes] == [
        ("Neg_0", -9, "removed"), ("x", 4, "both"), ("Neg_0", -1, "both"),
    ]  # fmt: skip


def test_traces_never_overwrite(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("[]")
    pair = [made(trace=tmp_path / "trace.json"), made(trace=tmp_path / "trace.json", name="other/model")]
    place = tmp_path / "deep" / "profiles"
    names = [[path.name for path in keep_traces(pair, place)] for _ in range(3)]
    assert names == [
        ["model.candidate.json", "model.baseline.json"],
        ["model.candidate.2.json", "model.baseline.2.json"],
        ["model.candidate.3.json", "model.baseline.3.json"],
    ]


def test_traces_are_kept_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("[]")
    pair = [made(trace=tmp_path / "trace.json"), made(trace=tmp_path / "none.json")]
    with pytest.raises(FileNotFoundError):
        keep_traces(pair, tmp_path / "profiles")
    assert list((tmp_path / "profiles").iterdir()) == []


@pytest.mark.parametrize(("name", "expected"), [("a b/c", "a-b-c"), ("x" * 300, "x" * 50), ("été.v2", "été.v2")])
def test_file_names(name: str, expected: str) -> None:
    assert file_name(name) == expected


def test_text_side_by_side() -> None:
    profiles = [made(node("n" * 80, 10, "FusedConv")), made(node("n" * 80, 50, "Conv"), node("line\nbreak", 1))]
    data = profile_data(profiles, [Path("c.json"), Path("b.json")], "the inputs")
    text = profile_text(data)
    assert "Conv → FusedConv" in text
    assert "-40.0 µs" in text
    assert "line?break" in text
    assert "removed" in text
    assert max(map(len, text.splitlines())) < 140
