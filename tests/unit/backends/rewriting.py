"""What a model answers before and after it is rewritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime as ort

from artifactctl.backends.algebra import REWRITES, rewrite

USUAL = [name for name in REWRITES if name not in ("pools", "list_heavy")]


def answers(made: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    found: list[np.ndarray] = ort.InferenceSession(made.SerializeToString(), options).run(None, feeds)
    return found


def rewritten(
    made: onnx.ModelProto, *feeds: dict[str, np.ndarray], names: Sequence[str] = USUAL
) -> tuple[dict[str, int], Counter[str]]:
    """What changed and the operators that are left, once both are known to answer alike."""
    before = [answers(made, feed) for feed in feeds]
    done = rewrite(made, names)
    onnx.checker.check_model(made, full_check=True)
    for feed, known in zip(feeds, before, strict=True):
        for old, new in zip(known, answers(made, feed), strict=True):
            np.testing.assert_allclose(new, old, rtol=2e-5, atol=2e-5)
    return {name: count for name, count in done.items() if count}, Counter(entry.op_type for entry in made.graph.node)
