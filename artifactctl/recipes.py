"""Recipes as data: which Olive passes, in which order, and when they apply. Simplest first: ties go to the simpler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RECIPES_VERSION = 1  # part of a build's inputs: raise it when a recipe gives other models than before


@dataclass(frozen=True, slots=True)
class OlivePass:
    label: str
    type: str
    config: Mapping[str, Any]
    required: bool = True
    for_cpu: bool = False  # it writes operators that only ONNX Runtime's own CPU kernels have


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str
    passes: tuple[OlivePass, ...]
    needs: str  # what the model must be, for people
    operators: frozenset[str] = field(default_factory=frozenset)  # at least one of these; empty: any

    def refusal(self, precision: str, operators: set[str]) -> str | None:
        """Why this recipe does not apply to a model, or None."""
        if self.name != "fp32" and precision != "fp32":
            return f"does not apply: needs {self.needs}, and this one is {precision}"
        if self.operators and not self.operators & operators:
            return f"does not apply: needs {self.needs}"
        return None


def _rewrite(name: str) -> OlivePass:
    return OlivePass(name, "OnnxOptimizerPasses", {"rewrites": [name]}, required=False)


_ORT_EXTENDED = OlivePass(
    "ONNX Runtime extended graph optimization",
    "OrtTransformersOptimization",
    # The pass does nothing without a model type; "bert" with only_onnxruntime is ORT's own optimizer for any model.
    {"model_type": "bert", "opt_level": 2, "only_onnxruntime": True},
    required=False,
    # FusedConv, QLinearConv instead of QDQ: other providers refuse them, and ONNX Runtime fuses at load anyway
    for_cpu=True,
)

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "fp32",
            (
                _rewrite("eliminate_deadend"),
                _rewrite("fuse_add_bias_into_conv"),
                _rewrite("fuse_bn_into_conv"),
                _ORT_EXTENDED,
            ),
            "any model",
        ),
        Recipe(
            "fp16",
            (
                OlivePass(
                    "conversion to float16, inputs and outputs kept", "OnnxFloatToFloat16", {"keep_io_types": True}
                ),
            ),
            "float32 weights",
        ),
        Recipe(
            "int8-dynamic",
            (
                OlivePass(
                    "dynamic int8 quantization of MatMul and Gemm",
                    "OnnxDynamicQuantization",
                    {"per_channel": True, "op_types_to_quantize": ["MatMul", "Gemm"]},
                ),
            ),
            "float32 weights in MatMul or Gemm",
            frozenset({"MatMul", "Gemm"}),
        ),
    )
}

AUTO = "auto"
OLIVE_PREFIX = "olive:"


def is_recipe(name: str) -> bool:
    return name == AUTO or name in RECIPES or name.startswith(OLIVE_PREFIX)


def expand(names: tuple[str, ...]) -> tuple[list[str], bool]:
    """The recipes to try, simplest first, and whether the user named them."""
    asked = dict.fromkeys(names)
    if AUTO in asked:
        rest = [name for name in asked if name != AUTO and name not in RECIPES]
        return [*RECIPES, *rest], bool(rest)
    return [*(name for name in RECIPES if name in asked), *(name for name in asked if name not in RECIPES)], True
