"""The Olive passes that recipes are made of, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class OlivePass:
    label: str
    type: str
    config: Mapping[str, Any]
    required: bool = True
    for_cpu: bool | None = None  # True: only for models that need not run elsewhere, False: for the others, None: all
    below_opset: int | None = None  # only for models of an older opset than this one
    hungry: bool = False  # holds a model six times over, so large ones go without it
    must_add: frozenset[str] = frozenset()  # at least one of these operators, or it did nothing to speak of
    fills: tuple[str, ...] = ()  # settings that depend on the model and its samples: steps/ingredients.py


def _rewrite(name: str) -> OlivePass:
    return OlivePass(name, "OnnxOptimizerPasses", {"rewrites": [name]}, required=False, hungry=True)


def _algebra(label: str, *rewrites: str, for_cpu: bool | None = None, required: bool = False) -> OlivePass:
    return OlivePass(label, "OnnxAlgebra", {"rewrites": list(rewrites)}, required=required, for_cpu=for_cpu)


ORT_EXTENDED = OlivePass(
    "ONNX Runtime extended graph optimization",
    "OrtTransformersOptimization",
    # The pass does nothing without a model type; "bert" with only_onnxruntime is ORT's own optimizer for any model.
    {"model_type": "bert", "opt_level": 2, "only_onnxruntime": True},
    required=False,
    # FusedConv, QLinearConv instead of QDQ: other providers refuse them, and ONNX Runtime fuses at load anyway
    for_cpu=True,
)
ORT_BASIC = OlivePass(
    "ONNX Runtime basic graph optimization",
    "OrtTransformersOptimization",
    {"model_type": "bert", "opt_level": 1, "only_onnxruntime": True},
    required=False,
    for_cpu=False,  # constants are folded, and every operator stays ONNX's own
)
# Our own rewrites, exact but for rounding: backends/algebra. ONNX Runtime does none of them at any graph level.
ALGEBRA = _algebra(
    "algebra: constants for shapes and weights, factors and biases inside products, rows for one-hot products",
    *("folded", "reshapes", "numbers", "einsum", "biases", "scores"),
    *("transposes", "layer_norm", "into_conv", "one_hot", "tabulate"),
)
# what the CPU's kernels know as a whole other providers know by the pieces that exporters write
WHOLE = _algebra("whole activations", "hard_swish", for_cpu=True)
LAYOUT = _algebra(
    "convolutions in place of what leaves their layout, and full lanes in all of them",
    *("one_convolution", "prelu", "gates", "gelu", "lanes"),
    for_cpu=True,
)
POOLS = _algebra("pools with room behind their data", "pools", for_cpu=False)  # which ONNX Runtime takes as they are
REWRITES = (
    _rewrite("eliminate_deadend"),
    _rewrite("fuse_add_bias_into_conv"),
    _rewrite("fuse_bn_into_conv"),
    WHOLE,
    ALGEBRA,
    POOLS,
    LAYOUT,
    ORT_BASIC,
    ORT_EXTENDED,
)
# all of it in ONNX's own operators, so that it runs wherever the source does, but made for the CPU's kernels
FOR_KERNELS = tuple(replace(step, for_cpu=None) if step in (WHOLE, LAYOUT) else step for step in REWRITES)
LISTED = _algebra("heavy weights listed as inputs again", "list_heavy", required=True)
HALF = {"keep_io_types": True}
# symbolic shape inference fails on many real models, and quantization does not need it
FOLDED = OlivePass(
    "preparation for quantization", "OnnxQuantizationPreprocess", {"skip_symbolic_shape": True}, required=False
)
# the first with scales for each channel
OPSET_13 = OlivePass("conversion to opset 13", "OnnxOpVersionConversion", {"target_opset": 13}, below_opset=13)
FUSED = frozenset({"Attention", "MultiHeadAttention", "SkipLayerNormalization", "EmbedLayerNormalization"})
FUSED |= {"LayerNormalization", "SimplifiedLayerNormalization", "BiasGelu", "FastGelu", "Gelu", "RotaryEmbedding"}
# Operators that int8 kernels make faster, and those between them that pass int8 on. Not Softmax, norms and the like:
# they are cheap, and lose most.
STATIC_OPERATORS = [
    *("Conv", "ConvTranspose", "MatMul", "Gemm", "Add", "Mul", "Concat", "MaxPool", "AveragePool", "GlobalAveragePool"),
    *("Relu", "Clip", "LeakyRelu", "Sigmoid", "Resize", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"),
    *("Split", "Slice", "Pad"),
]
LAYERS = ("Conv", "MatMul", "Gemm")
PRODUCTS = frozenset(LAYERS)
# they give no value that was not there before: what is int8 before them is the same int8 behind them
CARRIERS = ("Relu", "Clip", "MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")
