"""Rewrites that are exact but for rounding, in standard operators, and that ONNX Runtime does at no graph level.

Each takes a View of the model, changes it, and says how many places it changed. Only the main graph is rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from onnx import ModelProto

from artifactctl.backends import activations, affine, folding, lanes, listing, norms, onehot, pools, products, reshapes
from artifactctl.backends.view import View

REWRITES: dict[str, Callable[[View], int]] = {
    "folded": folding.folded,
    "reshapes": reshapes.reshapes,
    "numbers": reshapes.numbers,
    "einsum": products.einsum,
    "biases": products.biases,
    "scores": products.scores,
    "transposes": reshapes.transposes,
    "layer_norm": norms.layer_norm,
    "gelu": norms.gelu,
    "pools": pools.pools,
    "hard_swish": activations.hard_swish,
    "gates": activations.gates,
    "into_conv": affine.into_conv,
    "one_hot": onehot.one_hot,
    "tabulate": onehot.tabulate,
    "one_convolution": affine.one_convolution,
    "prelu": activations.prelu,
    "lanes": lanes.lanes,
    "list_heavy": listing.list_heavy,
}


def rewrite(model: ModelProto, names: Sequence[str], home: Path | None = None) -> dict[str, int]:
    """Changes the model in place; how many places each rewrite changed. `home` has its external data, if it has any."""
    view = View(model, home)
    done = {"constants": view.freed}
    for name in names:
        done[name] = REWRITES[name](view)
        view.sweep()
    if any(done.values()):
        view.close()
    return done
