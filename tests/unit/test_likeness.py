from __future__ import annotations

from typing import Any

from artifactctl import environment, likeness


def record(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "version": 1, "previous": None, "runtime": "r 1", "latency_ms": 1.0, "latency": {"ratio": 1.0}, "files": [],
        "environment": {"cores": 2, "packages": {"onnx": "1"}},
        "session": {"provider": "cpu", "intra_op_threads": 2},
        "recipe": {"name": "fp32", "candidates": [{"recipe": "fp32", "status": "chosen", "latency": {"ratio": 1.0}}]},
        "sets": [{"a": 1}, {"a": 2}],
    }  # fmt: skip
    return made | changes


def test_the_number_the_times_and_the_machine_are_no_differences() -> None:
    rebuilt = record(
        version=7, latency_ms=None, latency=None, runtime="r 2", environment={"cores": 8, "packages": {}},
        session={"provider": "cpu", "intra_op_threads": 8},
        recipe={"name": "fp32", "candidates": [{"recipe": "fp32", "status": "chosen", "latency": None}]},
    )  # fmt: skip
    assert likeness.as_recorded(rebuilt, record()) == record()


def test_each_difference_has_its_place() -> None:
    other = record(sets=[{"a": 1}, {"a": 3}], session={"provider": "cuda", "intra_op_threads": 2}, latency_ms=9.0)
    assert likeness.metadata_differences(record(), other) == [
        {"key": "session.provider", "recorded": "cpu", "rebuilt": "cuda"},
        {"key": "sets[1].a", "recorded": 2, "rebuilt": 3},
    ]


def test_lists_of_two_lengths_and_keys_of_one_side_differ() -> None:
    found = likeness.metadata_differences(record(), record(sets=[{"a": 1}], more=1))
    assert [(entry["key"], entry["rebuilt"]) for entry in found] == [("sets", [{"a": 1}]), ("more", 1)]


def test_the_same_machine_explains_nothing() -> None:
    assert likeness.environment_differences(environment.describe() | {"date": "2020-01-01T00:00:00+00:00"}) == []


def test_packages_and_machine_are_listed() -> None:
    here = environment.describe()
    packages = {name: version for name, version in here["packages"].items() if name != "onnx"} | {"numpy": "0"}
    assert likeness.environment_differences(here | {"cores": 0, "packages": packages | {"gone": "1"}}) == [
        {"package": "cores", "recorded": 0, "here": here["cores"]},
        {"package": "numpy", "recorded": "0", "here": here["packages"]["numpy"]},
        {"package": "gone", "recorded": "1", "here": None},
        {"package": "onnx", "recorded": None, "here": here["packages"]["onnx"]},
    ]
