from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from artifactctl import schema
from artifactctl.project import Data, ModelConfig, Source
from artifactctl.recipes import (
    AUTO,
    CALIBRATED,
    JUDGED,
    RECIPES,
    Recipe,
    base_of,
    expand,
    is_recipe,
    known,
    recipe_of,
    shape_of,
    tried_on_cpu_alone,
)

PLAIN = ModelConfig("m", Source("onnx", "m.onnx"))
LEAN = ["fp32", "fp32-listed", "transformer", "slim", "peephole", "fp16", "int8-dynamic"]
SHAPES = ({"x": (1, 8)}, {"x": (4, 8)})
SIMPLEST_FIRST = [
    *(
        "fp32",
        "fp32-fused",
        "fp32-listed",
        "fp32-fixed",
        "transformer",
        "slim",
        "peephole",
        "fp16",
        "fp16-mixed",
        "int8-dynamic",
        "int8-dynamic-all",
    ),
    *("int8-static", "int8-static-entropy", "int8-static-percentile", "int8-partial", "int4", "int4-128"),
]
FACTS: dict[str, Any] = {"precision": "fp32", "weighted": {"MatMul": 2}, "free": ["batch"], "shapes": False}
FACTS |= {"attention": 0, "transformer": None, "listed": False}


def asked(*names: str, **more: Any) -> tuple[list[str], frozenset[str]]:
    return expand(replace(PLAIN, recipes=names, **more))


def test_recipes_are_listed_simplest_first() -> None:
    assert list(RECIPES) == SIMPLEST_FIRST


def test_auto_is_what_is_worth_trying() -> None:
    assert asked(AUTO) == (LEAN, frozenset())


@pytest.mark.parametrize("data", [Data(samples="s.npz"), Data(calibration="c.npz")])
def test_auto_calibrates_only_on_the_users_own_data(data: Data) -> None:
    assert asked(AUTO, data=data) == ([*LEAN, "int8-static", "int8-partial"], frozenset())


def test_auto_tries_what_only_makes_models_smaller_where_that_is_wanted() -> None:
    smaller = {"int8-dynamic-all", "int4", "int4-128"}
    assert set(asked(AUTO, objective="size")[0]) == {*LEAN, *smaller}
    assert not smaller & set(asked(AUTO, objective="memory")[0])


def test_auto_fixes_sizes_only_for_those_who_say_which() -> None:
    assert asked(AUTO, shapes=SHAPES[:1])[0] == [*LEAN[:2], "fp32-fixed", *LEAN[2:]]


def test_auto_mixes_precisions_only_where_float16_is_computed() -> None:
    assert "fp16-mixed" in asked(AUTO, providers=("cuda", "cpu"))[0]
    assert "fp16-mixed" not in asked(AUTO, providers=("cpu", "cuda"))[0]


def test_auto_fuses_for_the_cpu_alone_where_fp32_is_for_others_too() -> None:
    assert asked(AUTO, providers=("cpu", "openvino"))[0] == [LEAN[0], "fp32-fused", *LEAN[1:]]
    assert asked("fp32-fused") == (["fp32-fused"], {"fp32-fused"})
    behind = asked(AUTO, providers=("openvino", "cpu"))[0]
    assert not {name for name in behind if tried_on_cpu_alone(name)}


def test_what_is_tried_on_the_cpu_alone() -> None:
    assert [name for name in RECIPES if tried_on_cpu_alone(name)] == ["fp32-fused"]
    assert not any(map(tried_on_cpu_alone, ("fp32-fixed-2", "olive:a.json", "source")))


def test_several_shapes_are_several_candidates() -> None:
    names = ["fp32", "fp32-fixed-1", "fp32-fixed-2"]
    assert asked("fp32-fixed", "fp32", shapes=SHAPES) == (names, frozenset(names))
    assert [base_of(name) for name in names] == ["fp32", "fp32-fixed", "fp32-fixed"]
    assert [shape_of(name) for name in ("fp32-fixed", *names[1:])] == [0, 0, 1]
    assert recipe_of("fp32-fixed-2") is RECIPES["fp32-fixed"]
    assert [base_of(name) for name in SIMPLEST_FIRST] == SIMPLEST_FIRST


def test_named_recipes_are_put_in_order_of_simplicity() -> None:
    assert asked("int8-dynamic", "fp32") == (["fp32", "int8-dynamic"], {"fp32", "int8-dynamic"})
    assert asked("int4", AUTO) == ([*LEAN, "int4"], {"int4"})


def test_the_users_own_files_come_last_in_the_order_given() -> None:
    assert asked("olive:b.json", "fp16", "olive:a.json") == (
        ["fp16", "olive:b.json", "olive:a.json"],
        {"fp16", "olive:b.json", "olive:a.json"},
    )
    assert asked(AUTO, "olive:a.json") == ([*LEAN, "olive:a.json"], {"olive:a.json"})


def test_a_recipe_named_twice_is_tried_once() -> None:
    assert asked("fp16", "fp16") == (["fp16"], {"fp16"})
    assert asked(AUTO, AUTO) == (LEAN, frozenset())


def test_what_is_a_recipe() -> None:
    assert all(map(is_recipe, [AUTO, *SIMPLEST_FIRST, "olive:x.json"]))
    assert not any(map(is_recipe, ["", "fp64", "olive", "fp32-fixed-1"]))
    assert known()[:4] == ("auto", "fp32", "fp32-fused", "fp32-listed")


def test_the_schema_knows_the_same_recipes() -> None:
    model = schema.load("config")["$defs"]["model"]["properties"]
    items = model["optimize"]["properties"]["recipes"]["items"]
    assert items["anyOf"][0]["enum"] == [AUTO, *RECIPES]
    assert items["description"] == f"a recipe is {', '.join(known()[:-1])}, or olive: FILE.json without quotes"


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8", "fp64"])
@pytest.mark.parametrize("name", ["fp32", "slim", "peephole"])
def test_what_applies_to_any_model(name: str, precision: str) -> None:
    recipe = replace(RECIPES[name], package=None)
    assert recipe.refusal(FACTS | {"precision": precision, "weighted": {}}) is None


@pytest.mark.parametrize(
    "name", [name for name in SIMPLEST_FIRST if name not in ("fp32", "fp32-fused", "fp32-fixed", "slim", "peephole")]
)
def test_the_others_need_float32_weights(name: str) -> None:
    assert RECIPES[name].refusal(FACTS | {"attention": 1, "listed": True}) is None
    refusal = RECIPES[name].refusal(FACTS | {"precision": "fp16"})
    assert refusal == f"does not apply: needs {RECIPES[name].needs}, and this one is fp16"


@pytest.mark.parametrize(
    ("name", "weighted", "applies"),
    [
        ("int8-dynamic", ["Gemm"], True),
        ("int8-dynamic", ["Conv"], False),
        ("int8-dynamic-all", ["Conv"], True),
        ("int8-static", ["Conv"], True),
        ("int8-static", ["Gather"], False),
        ("int4", ["Gemm", "Conv"], False),
        ("int4", ["Gather"], True),
    ],
)
def test_quantization_needs_something_to_quantize(name: str, weighted: list[str], applies: bool) -> None:
    refusal = RECIPES[name].refusal(FACTS | {"weighted": dict.fromkeys(weighted, 1)})
    assert refusal == (None if applies else f"does not apply: needs {RECIPES[name].needs}")


def test_sizes_are_fixed_where_they_are_free_and_said() -> None:
    recipe = RECIPES["fp32-fixed"]
    assert recipe.refusal(FACTS | {"shapes": True}) is None
    for facts in (FACTS, FACTS | {"shapes": True, "free": []}):
        assert recipe.refusal(facts) == "does not apply: needs inputs with free sizes, and optimize.shapes"


def test_a_transformer_has_attention() -> None:
    assert RECIPES["transformer"].refusal(FACTS) == "does not apply: needs attention in float32"


def test_a_package_that_is_missing_is_no_failure() -> None:
    refusal = Recipe("r", (), "any model", package="no_such_package").refusal(FACTS)
    assert refusal == "does not apply: no_such_package is not installed; pip install 'artifactctl[build]'"


def test_which_recipes_calibrate() -> None:
    assert {name for name in RECIPES if name.startswith(("int8-static", "int8-partial"))} == CALIBRATED


def test_int8_for_some_layers_is_for_where_all_of_them_do_not_hold() -> None:
    whole, part = RECIPES["int8-static"], RECIPES["int8-partial"]
    assert part.instead_of == "int8-static"
    assert {"int8-partial"} == JUDGED
    assert part.passes[:-1] == whole.passes[:-1]
    assert part.passes[-1].config["calibrate_method"] == whole.passes[-1].config["calibrate_method"]
