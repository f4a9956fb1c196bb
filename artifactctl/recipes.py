"""Recipes as data: which Olive passes, in which order, and when they apply. Simplest first: ties go to the simpler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from artifactctl.passes import (
    ALGEBRA,
    CARRIERS,
    FOLDED,
    FOR_KERNELS,
    FUSED,
    HALF,
    LAYERS,
    LAYOUT,
    LISTED,
    OPSET_13,
    ORT_EXTENDED,
    POOLS,
    PRODUCTS,
    REWRITES,
    STATIC_OPERATORS,
    WHOLE,
    OlivePass,
)
from artifactctl.project import ModelConfig
from artifactctl.providers import CPU, PROVIDERS

RECIPES_VERSION = 11  # part of a build's inputs: raise it when a recipe, or auto, gives other models than before

SIMPLEST = "fp32"
Facts = Mapping[str, Any]  # what backends/facts.py found in the graph


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str
    passes: tuple[OlivePass, ...]
    needs: str  # what the model must be, for people
    weights: frozenset[str] = field(default_factory=frozenset)  # float32 weights in at least one of these; empty: any
    any_precision: bool = False
    suits: Callable[[Facts], bool] = lambda facts: True
    auto: bool = True  # worth trying when nobody names it
    for_size: bool = False  # then only where the smallest model is wanted
    auto_on_cpu: bool = True  # also where ONNX Runtime's CPU kernels run it
    cpu_alone: bool = False  # for them only: it runs on other providers too, and is not tried there
    package: str | None = None  # beside Olive
    instead_of: str | None = None  # only where that recipe, tried before, gave no model that holds

    def refusal(self, facts: Facts) -> str | None:
        """Why this recipe does not apply to a model, or None."""
        if not self.any_precision and facts["precision"] != "fp32":
            return f"does not apply: needs {self.needs}, and this one is {facts['precision']}"
        if (self.weights and not self.weights & facts["weighted"].keys()) or not self.suits(facts):
            return f"does not apply: needs {self.needs}"
        if self.package and find_spec(self.package) is None:
            return f"does not apply: {self.package} is not installed; pip install 'artifactctl[build]'"
        return None


def _dynamic(name: str, label: str, operators: list[str] | None, needs: str, *, for_size: bool = False) -> Recipe:
    kinds = frozenset(operators or ("MatMul", "Gemm", "Conv", "Gather", "LSTM"))
    settings = {"per_channel": True, "op_types_to_quantize": operators}
    step = OlivePass(label, "OnnxDynamicQuantization", settings, fills=("reduced",))
    return Recipe(name, (step,), needs, kinds, for_size=for_size)


def _static(name: str, method: str, *, auto: bool) -> Recipe:
    settings = {
        "quant_format": "QDQ",
        "per_channel": True,
        "activation_type": "uint8",  # ONNX Runtime's CPU kernels of U8S8 are the fast ones on x64
        "precision": "int8",
        "calibrate_method": method,
        "op_types_to_quantize": STATIC_OPERATORS,
        "prepare_qdq_config": False,
        "quant_preprocess": False,  # the pass before this one
        "extra_options": {"WeightSymmetric": True},
    }
    label = f"static int8 quantization, calibrated by {method}"
    step = OlivePass(label, "OnnxStaticQuantization", settings, fills=("calibration", "moderate", "reduced"))
    return Recipe(name, (OPSET_13, FOLDED, step), "float32 weights in Conv, MatMul or Gemm", PRODUCTS, auto=auto)


def _partial(name: str, whole: Recipe) -> Recipe:
    """Of `whole` only layers with weights, and what stands between two of them and costs no precision."""
    *before, last = whole.passes
    settings = {
        **last.config,
        "op_types_to_quantize": [*LAYERS, *CARRIERS],
        # products of matrices have int8 kernels that give floats, and convolutions have none
        "extra_options": {**last.config["extra_options"], "OpTypesToExcludeOutputQuantization": ["MatMul", "Gemm"]},
    }
    label = "static int8 quantization of the layers that the bound allows"
    step = replace(last, label=label, config=settings, fills=(*last.fills, "partial"))
    return replace(whole, name=name, passes=(*before, step), instead_of=whole.name)


def _simplified(name: str, step: OlivePass, package: str | None = None) -> Recipe:
    """By another's rewrites, then by ours."""
    passes = (step, WHOLE, ALGEBRA, POOLS, LAYOUT, ORT_EXTENDED)
    return Recipe(name, passes, "any model", any_precision=True, package=package)


def _int4(name: str, block: int) -> Recipe:
    settings = {"bits": 4, "block_size": block, "is_symmetric": True}
    step = OlivePass(f"int4 weights in blocks of {block}", "OnnxBlockWiseRtnQuantization", settings, fills=("inside",))
    return Recipe(name, (step,), "float32 weights in MatMul or Gather", frozenset({"MatMul", "Gather"}), for_size=True)


_STATIC = _static("int8-static", "MinMax", auto=True)

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(SIMPLEST, REWRITES, "any model", any_precision=True),
        # where fp32 is for other providers too
        Recipe("fp32-fused", FOR_KERNELS, "any model", any_precision=True, cpu_alone=True),
        # fp32 runs faster, and may load slower than its source
        Recipe(
            "fp32-listed",
            (*REWRITES, LISTED),
            "weights that are listed as inputs",
            suits=lambda facts: bool(facts["listed"]),
        ),
        Recipe(
            "fp32-fixed",
            (OlivePass("sizes fixed", "DynamicToFixedShape", {}, fills=("shape",)), *REWRITES),
            "inputs with free sizes, and optimize.shapes",
            any_precision=True,
            suits=lambda facts: bool(facts["free"] and facts["shapes"]),
        ),
        Recipe(
            "transformer",
            (
                OlivePass(
                    "transformer fusion",
                    "OrtTransformersOptimization",
                    {"opt_level": 1},
                    for_cpu=True,
                    must_add=FUSED,
                    fills=("transformer",),
                ),
            ),
            "attention in float32",
            suits=lambda facts: bool(facts["attention"]),
        ),
        _simplified("slim", OlivePass("simplification by onnxslim", "OnnxSlimPass", {}), package="onnxslim"),
        # without onnxoptimizer, which breaks some models and holds large ones six times over
        _simplified(
            "peephole", OlivePass("folding by onnxscript", "OnnxPeepholeOptimizer", {"onnxoptimizer_optimize": False})
        ),
        Recipe(
            "fp16",
            (OlivePass("conversion to float16, inputs and outputs kept", "OnnxFloatToFloat16", HALF),),
            "float32 weights",
        ),
        Recipe(
            "fp16-mixed",
            (
                OlivePass(
                    "conversion to float16, but for what float16 cannot hold",
                    "OnnxFloatToFloat16",
                    HALF,
                    fills=("narrow",),
                ),
            ),
            "float32 weights",
            auto_on_cpu=False,  # which computes float16 as float32, and converts on the way
            instead_of="fp16",
        ),
        _dynamic(
            "int8-dynamic",
            "dynamic int8 quantization of MatMul and Gemm",
            ["MatMul", "Gemm"],
            "float32 weights in MatMul or Gemm",
        ),
        # convolutions quantized while they run take six times as long
        _dynamic(
            "int8-dynamic-all",
            "dynamic int8 quantization of everything",
            None,
            "float32 weights in MatMul, Gemm, Conv, Gather or LSTM",
            for_size=True,
        ),
        _STATIC,
        _static("int8-static-entropy", "Entropy", auto=False),
        _static("int8-static-percentile", "Percentile", auto=False),
        _partial("int8-partial", _STATIC),
        # these win size, not speed
        _int4("int4", 32),
        _int4("int4-128", 128),
    )
}

AUTO = "auto"
OLIVE_PREFIX = "olive:"
FIXED = "fp32-fixed"
CALIBRATED = frozenset(
    recipe.name for recipe in RECIPES.values() for step in recipe.passes if "calibration" in step.fills
)
# what they give depends on the bounds too
JUDGED = frozenset(recipe.name for recipe in RECIPES.values() for step in recipe.passes if "partial" in step.fills)


def is_recipe(name: str) -> bool:
    return name == AUTO or name in RECIPES or name.startswith(OLIVE_PREFIX)


def known() -> tuple[str, ...]:
    """Every name, for people."""
    return (AUTO, *RECIPES, f"{OLIVE_PREFIX}FILE.json")


def recipe_of(name: str) -> Recipe:
    return RECIPES[base_of(name)]


def base_of(name: str) -> str:
    """The recipe that a candidate is of; only those of several shapes have a number behind it."""
    return FIXED if name.startswith(f"{FIXED}-") else name


def shape_of(name: str) -> int:
    """Which of optimize.shapes a candidate is fixed to."""
    return int(name.removeprefix(FIXED).removeprefix("-") or 1) - 1


def tried_on_cpu_alone(name: str) -> bool:
    return base_of(name) in RECIPES and recipe_of(name).cpu_alone


def other_providers(config: ModelConfig) -> list[str]:
    """Those that are allowed and are not the CPU's kernels of ONNX Runtime."""
    return [name for name in config.providers if PROVIDERS[name].execution_provider != CPU]


def expand(config: ModelConfig) -> tuple[list[str], frozenset[str]]:
    """The candidates to try, simplest first, and those among them that the user named."""
    asked = dict.fromkeys(config.recipes)
    own = [name for name in asked if name.startswith(OLIVE_PREFIX)]
    wanted = [
        recipe.name for recipe in RECIPES.values() if recipe.name in asked or (AUTO in asked and _worth(recipe, config))
    ]
    if len(config.shapes) > 1 and FIXED in wanted:
        numbered = [f"{FIXED}-{position + 1}" for position in range(len(config.shapes))]
        place = wanted.index(FIXED)
        wanted[place : place + 1] = numbered
    found = [*wanted, *own]
    return found, frozenset(name for name in found if name in own or base_of(name) in asked)


def _worth(recipe: Recipe, config: ModelConfig) -> bool:
    """Not what nobody asked for (a model of fixed sizes refuses what its source takes), nor what cannot win there."""
    elsewhere = other_providers(config)
    on_cpu = config.providers[0] not in elsewhere
    if recipe.name == FIXED and not config.shapes:
        return False
    if recipe.cpu_alone and not (on_cpu and elsewhere):
        return False  # where the CPU is alone, fp32 is that
    if recipe.name in CALIBRATED and not (config.data.calibration or config.data.samples):
        return False  # ranges of made-up inputs are nobody's ranges
    if recipe.for_size:
        return config.objective == "size"
    return recipe.auto and (recipe.auto_on_cpu or not on_cpu)
