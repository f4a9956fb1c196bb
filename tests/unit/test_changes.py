from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from artifactctl import metadata
from artifactctl.changes import Change, changes, speed

MODEL: dict[str, Any] = {
    "size_bytes": 100, "parameters": 5, "precision": "fp32", "opsets": {"ai.onnx": 18}, "ir_version": 10,
    "portability": "any",
}  # fmt: skip


@pytest.fixture
def meta(built: Path) -> dict[str, Any]:
    return metadata.read(built)


def test_equal_things_have_no_rows(meta: dict[str, Any]) -> None:
    assert changes((MODEL, MODEL), (meta, deepcopy(meta))) == []


def test_what_differs_in_the_models() -> None:
    other = MODEL | {"size_bytes": 50, "opsets": {"ai.onnx": 19, "com.microsoft": 1}}
    assert changes((MODEL, other), (None, None)) == [
        Change("model", "size_bytes", 100, 50),
        Change("model", "opset ai.onnx", 18, 19),
        Change("model", "opset com.microsoft", None, 1),
    ]


def test_what_differs_in_the_records(meta: dict[str, Any]) -> None:
    other = deepcopy(meta)
    other["recipe"]["name"] = "int8-dynamic"
    other["session"] |= {"graph_level": "basic", "options": {"device": "1"}}
    other["equivalence"] |= {"statement": "min_cosine ≥ 0.9", "max_error": 0.25}
    other["accuracy_drop"] = 0.01
    other["source"]["license"] = "MIT"
    other["source"]["files"][0]["sha256"] = "f" * 64
    other["environment"]["packages"]["onnxruntime"] = "9.9.9"
    found = {
        (change.section, change.what): (change.before, change.after)
        for change in changes((MODEL, MODEL), (meta, other))
    }
    assert found.keys() == {
        ("recipe", "recipe"), ("session", "graph_level"), ("session", "option device"), ("proof", "statement"),
        ("proof", "max_error"), ("accuracy", "accuracy_drop"), ("source", "license"), ("source", "file mlp.onnx"),
        ("runtime", "package onnxruntime"),
    }  # fmt: skip
    assert found["source", "license"] == (None, "MIT")
    assert found["proof", "max_error"] == (meta["equivalence"]["max_error"], 0.25)


def test_a_file_has_no_records_to_compare(meta: dict[str, Any]) -> None:
    assert changes((MODEL, MODEL), (None, meta)) == []
    assert changes((MODEL, MODEL), (meta, None)) == []


def test_a_first_version_is_compared_with_nothing(meta: dict[str, Any]) -> None:
    found = changes((None, MODEL), (None, meta))
    assert {change.before for change in found} == {None}
    assert {"size_bytes", "recipe", "statement", "provider"} <= {change.what for change in found}


def measured(meta: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The version after `meta`, measured against it."""
    other = deepcopy(meta) | {
        "version": meta["version"] + 1,
        "previous": {"version": meta["version"], "sha256": "a" * 64},
    }
    report = {"verdict": "not-slower", "ratio": 0.9, "ratio_low": 0.8, "ratio_high": 1.0, "limit": 0.1, "pairs": 9}
    report |= {"provider": "cpu", "against": f"artifact_v{meta['version']}", "reason": "", "rounds": 3} | more
    return other | {"latency": (other["latency"] or {}) | {"previous": report}}


def test_pairs_count_only_against_this_very_model(meta: dict[str, Any]) -> None:
    after = measured(meta)
    paired = speed(meta, after, "a" * 64)["paired"]
    assert (paired["ratio"], paired["verdict"], paired["against"]) == (0.9, "not-slower", "artifact_v1")
    for before, other, digest in (
        (meta, after, "b" * 64),
        (meta, after, None),
        (meta | {"version": 7}, after, "a" * 64),
        (meta | {"model_name": "other"}, after, "a" * 64),
        (meta, measured(meta, against="artifact_v7"), "a" * 64),
        (meta, measured(meta, ratio_low=None), "a" * 64),
        (meta, after | {"previous": None}, "a" * 64),
        (meta, after | {"latency": None}, "a" * 64),
    ):
        assert speed(before, other, digest)["paired"] is None


def test_numbers_of_two_runs(meta: dict[str, Any]) -> None:
    found = speed(meta | {"latency_ms": 2.0}, meta | {"latency_ms": 1.0}, "b" * 64)
    assert found == {"before_p50_ms": 2.0, "after_p50_ms": 1.0, "paired": None}
    assert speed(None, None, None) == {"before_p50_ms": None, "after_p50_ms": None, "paired": None}
