"""Which cells are proved: whatever is not shown is not believed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifactctl.ci import evidence, judging
from artifactctl.ci.evidence import Evidence
from artifactctl.ci.judging import CellResult

DIGEST, OTHER = "a" * 64, "b" * 64
OUTPUT = {"name": "y", "passed": True, "max_error": 1e-5, "reason": None}
BUILT = [{"model": "mlp", "version": 2, "digest": DIGEST}]


def cell(model: str = "mlp", provider: str = "cpu") -> dict[str, Any]:
    return {"model": model, "provider": provider, "runs_on": ["ubuntu-24.04"], "name": f"{model} · {provider}"}


def proof(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "schema_version": 1,
        "model": "mlp",
        "version": 2,
        "artifact_sha256": DIGEST,
        "provider": "cpu",
        "verdict": "equivalent",
        "samples": 8,
        "placement": {"CPUExecutionProvider": 3},
        "outputs": [OUTPUT],
        "machine": {},
    }
    return found | changes


def judge(*found: Any, planned: list[dict[str, Any]] | None = None, built: Any = BUILT) -> list[CellResult]:
    named = [Evidence(f"{number}.json", data) for number, data in enumerate(found)]
    return judging.judge([cell()] if planned is None else planned, built, named)


def only(*found: Any) -> CellResult:
    (result,) = judge(*found)
    return result


def test_proved() -> None:
    result = only(proof())
    assert (result.state, result.good, result.reason, result.max_error) == ("proved", True, "", 1e-5)


def test_the_largest_error_is_told() -> None:
    outputs = [OUTPUT, OUTPUT | {"name": "z", "max_error": 2e-4}, OUTPUT | {"name": "i", "max_error": None}]
    assert only(proof(outputs=outputs)).max_error == 2e-4


FAILED = OUTPUT | {"passed": False, "max_error": 0.2, "reason": "0.2 is over 0.001"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"verdict": "different", "outputs": [FAILED]}, "y: 0.2 is over 0.001"),
        ({"verdict": "different"}, "the verdict is different"),  # though every output claims to have passed
        ({"outputs": [FAILED]}, "y: 0.2 is over 0.001"),  # though the verdict claims to be good
        ({"outputs": [OUTPUT, {"name": "z", "passed": False}]}, "z: no reason"),
        ({"outputs": [FAILED | {"reason": None}]}, "y: no reason"),
        ({"outputs": [OUTPUT | {"max_error": 0.2, "bound": 0.001}]}, "y: it claims to have passed with 0.2 over 0.001"),
        ({"outputs": []}, "nothing was compared"),
        ({"samples": 0}, "nothing was compared"),
    ],
)
def test_different(changes: dict[str, Any], why: str) -> None:
    result = only(proof(**changes))
    assert (result.state, result.good, result.reason) == ("different", False, why)
    assert result.line == "artifactctl verify artifacts/mlp/artifact_v2 --provider cpu"


def test_the_outputs_that_failed_are_named() -> None:
    assert only(proof(verdict="different", outputs=[OUTPUT, FAILED | {"name": "z"}])).outputs == ("z",)


def test_missing() -> None:
    result = only()
    assert (result.state, result.good) == ("missing", False)
    assert result.line == "artifactctl verify artifacts/mlp/artifact_v2 --provider cpu"


@pytest.mark.parametrize(
    "changes", [{"artifact_sha256": OTHER}, {"artifact_sha256": f"{DIGEST}\n"}, {"version": 1}, {"version": 3}]
)
def test_stale(changes: dict[str, Any]) -> None:
    result = only(proof(**changes))
    assert (result.state, result.good) == ("stale", False)
    assert f"version {changes.get('version', 2)}" in result.reason


def test_stale_and_different_is_not_believed_either() -> None:
    assert only(proof(artifact_sha256=OTHER, verdict="different")).state == "stale"


@pytest.mark.parametrize("second", [{}, {"artifact_sha256": OTHER}, {"verdict": "different"}])
def test_twice(second: dict[str, Any]) -> None:
    result = only(proof(), proof(**second))
    assert (result.state, result.good) == ("twice", False)
    assert "0.json and 1.json" in result.reason


def test_not_planned() -> None:
    first, second = judge(proof(), proof(provider="openvino"))
    assert first.good
    assert (second.state, second.good, second.provider) == ("not planned", False, "openvino")


def test_not_built() -> None:
    (result,) = judge(proof(), built=[])
    assert (result.state, result.good, result.line) == ("not built", False, "artifactctl build mlp")


DAMAGED = {
    "no JSON": None,
    "a list": [proof()],
    "empty": {},
    "another schema": proof(schema_version=2),
    "an unknown key": proof(more=1),
    "no digest": {key: value for key, value in proof().items() if key != "artifact_sha256"},
    "half a digest": proof(artifact_sha256="a" * 63),
    "a verdict of its own": proof(verdict="proved"),
    "no verdict": proof(verdict=None),
    "passed as a word": proof(outputs=[OUTPUT | {"passed": "false"}]),
    "passed as a number": proof(outputs=[OUTPUT | {"passed": 1}]),
    "an error as a word": proof(outputs=[OUTPUT | {"max_error": "0"}]),
    "a bound as a word": proof(outputs=[OUTPUT | {"bound": "1"}]),
    "a reason as a list": proof(outputs=[OUTPUT | {"reason": ["x"]}]),
    "a name as a number": proof(outputs=[OUTPUT | {"name": 1}]),
    "outputs as an object": proof(outputs={"y": OUTPUT}),
    "samples below zero": proof(samples=-1),
    "samples as a word": proof(samples="8"),
    "a version as a word": proof(version="2"),
    "a provider that is a path": proof(provider="../../../evil"),
    "a provider that is unknown": proof(provider="abacus"),
    "a model that is a path": proof(model="../mlp"),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged(data: Any) -> None:
    """Alone it leaves its cell without evidence; beside a good file the whole is still not good."""
    missing, damaged = judge(data)
    assert (missing.state, damaged.state, damaged.good) == ("missing", "damaged", False)
    assert damaged.reason.startswith("0.json cannot be read as evidence: ")
    good, damaged = judge(proof(), data)
    assert (good.state, damaged.state) == ("proved", "damaged")


def test_the_command_is_quoted() -> None:
    planned = [cell("$(touch x)", "cpu")]
    (result,) = judge(planned=planned, built=[{"model": "$(touch x)", "version": 1, "digest": DIGEST}])
    assert shlex.split(result.line)[2] == "artifacts/$(touch x)/artifact_v1"


def test_no_cell_and_no_file() -> None:
    assert judge(planned=[]) == []


STATES = st.sampled_from(["proved", "different", "missing", "stale", "twice", "damaged", "not built"])
FILES: dict[str, list[dict[str, Any] | None]] = {
    "proved": [{}],
    "different": [{"verdict": "different"}],
    "missing": [],
    "stale": [{"artifact_sha256": OTHER}],
    "twice": [{}, {}],
    "damaged": [{}, None],
    "not built": [{}],
}


@given(wanted=st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), STATES, min_size=1), data=st.data())
@settings(max_examples=60, deadline=None)
def test_good_only_if_every_cell_is(wanted: dict[str, str], data: st.DataObject) -> None:
    """In whatever order files come back, each cell has its own result, and all are good only where all are proved."""
    files = [
        None if changes is None else proof(model=model, **changes)
        for model, state in wanted.items()
        for changes in FILES[state]
    ]
    built = [{"model": model, "version": 2, "digest": DIGEST} for model in wanted if wanted[model] != "not built"]
    shuffled = data.draw(st.permutations(files))
    results = judge(*shuffled, planned=[cell(model) for model in wanted], built=built)
    expected = {model: "proved" if state == "damaged" else state for model, state in wanted.items()}
    assert {result.model: result.state for result in results if result.model != "?"} == expected
    assert all(result.good for result in results) == all(state == "proved" for state in wanted.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "equivalent", "cpu", "mlp", DIGEST]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "passed"]), inner, max_size=2),
    max_leaves=5,
)


@given(key=st.sampled_from([*proof()]), value=JSON)
@settings(max_examples=150, deadline=None)
def test_no_other_value_makes_it_better_or_crashes(key: str, value: Any) -> None:
    """One value of a good file is replaced: it is proved only where what counts is still there."""
    data = proof(**{key: value})
    results = judge(data)
    if all(result.good for result in results):
        assert (data["verdict"], data["artifact_sha256"], data["version"]) == ("equivalent", DIGEST, 2)
        assert data["samples"] > 0
        assert data["outputs"]
        assert all(each["passed"] is True for each in data["outputs"])


def test_every_file_of_the_folder_is_read(tmp_path: Path) -> None:
    texts = {
        "a/cpu.json": json.dumps(proof()).encode(),
        "b/cpu.txt": b"{",
        ".hidden": b"\xff",
        "c/nan.json": json.dumps(proof(outputs=[OUTPUT | {"max_error": float("nan")}])).encode(),
        "d/deep.json": b"[" * 100_000,
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
    found = {each.name: each for each in evidence.read(tmp_path)}
    assert found.keys() == texts.keys()
    assert [name for name, each in found.items() if not each.damage] == ["a/cpu.json"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert evidence.read(tmp_path / "none") == []
