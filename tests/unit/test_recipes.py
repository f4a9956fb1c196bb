from __future__ import annotations

import pytest

from artifactctl import schema
from artifactctl.recipes import AUTO, RECIPES, expand, is_recipe

SIMPLEST_FIRST = ["fp32", "fp16", "int8-dynamic"]


def test_auto_is_every_recipe_simplest_first() -> None:
    assert expand((AUTO,)) == (SIMPLEST_FIRST, False)
    assert list(RECIPES) == SIMPLEST_FIRST


def test_named_recipes_are_put_in_order_of_simplicity() -> None:
    assert expand(("int8-dynamic", "fp32")) == (["fp32", "int8-dynamic"], True)


def test_the_users_own_files_come_last_in_the_order_given() -> None:
    assert expand(("olive:b.json", "fp16", "olive:a.json")) == (["fp16", "olive:b.json", "olive:a.json"], True)
    assert expand((AUTO, "olive:a.json")) == ([*SIMPLEST_FIRST, "olive:a.json"], True)


def test_a_recipe_named_twice_is_tried_once() -> None:
    assert expand(("fp16", "fp16")) == (["fp16"], True)
    assert expand((AUTO, "fp16", AUTO)) == (SIMPLEST_FIRST, False)


def test_what_is_a_recipe() -> None:
    assert all(map(is_recipe, [AUTO, *SIMPLEST_FIRST, "olive:x.json"]))
    assert not any(map(is_recipe, ["", "fp64", "olive"]))


def test_the_schema_knows_the_same_recipes() -> None:
    model = schema.load("config")["$defs"]["model"]["properties"]
    allowed = model["optimize"]["properties"]["recipes"]["items"]["anyOf"][0]["enum"]
    assert allowed == [AUTO, *RECIPES]


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8", "fp64"])
def test_fp32_applies_to_any_model(precision: str) -> None:
    assert RECIPES["fp32"].refusal(precision, set()) is None


@pytest.mark.parametrize("name", ["fp16", "int8-dynamic"])
def test_the_others_need_float32_weights(name: str) -> None:
    assert RECIPES[name].refusal("fp32", {"MatMul", "Relu"}) is None
    refusal = RECIPES[name].refusal("fp16", {"MatMul"})
    assert refusal == f"does not apply: needs {RECIPES[name].needs}, and this one is fp16"


def test_int8_dynamic_needs_something_to_quantize() -> None:
    recipe = RECIPES["int8-dynamic"]
    assert recipe.refusal("fp32", {"Gemm"}) is None
    assert recipe.refusal("fp32", {"Conv", "Relu"}) == "does not apply: needs float32 weights in MatMul or Gemm"
