from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from artifactctl import schema
from artifactctl.resources import schema_names


def config(**model: Any) -> dict[str, Any]:
    return {"schema_version": 1, "models": {"m": {"source": {"onnx": "m.onnx"}} | model}}


def messages(data: Any) -> list[str]:
    return [problem.message for problem in schema.problems(data, "config")]


@pytest.mark.parametrize("name", schema_names())
def test_every_schema_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema.load(name))


def test_the_schemas_of_the_contract_are_there() -> None:
    assert {"config", "metadata", "report"} <= set(schema_names())


def test_nothing_wrong() -> None:
    assert schema.problems(config(), "config") == []


def test_an_unknown_key_names_its_place_and_what_was_meant() -> None:
    [problem] = schema.problems(config(equivalnce={}), "config")
    assert problem.place == ("models", "m", "equivalnce")
    assert problem.message == "unknown key 'equivalnce', perhaps you meant 'equivalence'"


def test_an_unknown_key_that_is_like_no_other_lists_the_known_ones() -> None:
    [problem] = schema.problems(config(latency={"qqq": 1}), "config")
    assert (
        problem.message
        == "unknown key 'qqq' (known: max_regression, budget_s, confidence, max_ms, max_drift, drift_since, batches)"
    )


def test_every_unknown_key_is_reported() -> None:
    found = schema.problems(config(data={"sample": "a", "lables": "b"}), "config")
    assert sorted(problem.place[-1] for problem in found) == ["lables", "sample"]


def test_a_value_outside_an_enum_says_what_was_meant() -> None:
    [problem] = schema.problems(config(providers=["cpu", "opnvino"]), "config")
    assert problem.place == ("models", "m", "providers", 1)
    assert "'opnvino' is not one of cpu, cpu-arm64" in problem.message
    assert problem.message.endswith("perhaps you meant 'openvino'")


def test_alternatives_are_described_in_words() -> None:
    assert messages(config(load={"max_regression": "fast"})) == [
        "'fast' does not fit: max_regression is a share such as 0.05 or 5%, or null for any"
    ]
    assert messages(config(optimize={"recipes": ["int9"]})) == [
        "'int9' does not fit: a recipe is auto, fp32, fp32-fused, fp32-listed, fp32-fixed, transformer, slim, "
        "peephole, fp16, fp16-mixed, int8-dynamic, int8-dynamic-all, int8-static, int8-static-entropy, "
        "int8-static-percentile, int8-partial, int4, int4-128, or olive: FILE.json without quotes"
    ]
    assert messages(config(latency={"max_regression": "ten"})) == [
        "'ten' does not fit: a number such as 0.1, or a percentage such as 10%"
    ]
    assert messages(config(equivalence={"max_abs": -1})) == [
        "-1 does not fit: max_abs is a positive number, or null when another measure is chosen"
    ]


def test_a_pattern_is_described_in_words() -> None:
    [message] = messages(config(source={"torch": "models.py"}))
    assert message == "'models.py' does not fit: a factory is file.py:function or package.module:function"


def test_each_missing_key_is_named() -> None:
    assert messages({"models": {"m": {}}}) == ["key 'schema_version' is missing", "key 'source' is missing"]
    assert sorted(messages({})) == ["key 'models' is missing", "key 'schema_version' is missing"]


def test_a_bad_name_is_explained() -> None:
    [problem] = schema.problems({"schema_version": 1, "models": {"my model": {"source": {"onnx": "x"}}}}, "config")
    assert problem.place == ("models", "my model")
    assert "letters, digits" in problem.message


@pytest.mark.parametrize("data", [None, 5, [], "text", {"schema_version": 2, "models": {"m": {"source": {}}}}])
def test_other_shapes_are_problems(data: Any) -> None:
    assert schema.problems(data, "config")


def test_a_long_message_is_cut() -> None:
    [problem] = schema.problems({"schema_version": 1, "models": ["x" * 1000]}, "config")
    assert len(problem.message) < 310
