"""What is computed from constants alone is one: other rewrites can then look at it."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, helper
from onnx.reference import ReferenceEvaluator

from artifactctl.backends.view import View

# What fusions before leave behind, in double precision, of weights that they scaled. ONNX Runtime's own folding comes
# after the rewrites, and takes the rest.
_FOLDED = {"Add", "Sub", "Mul", "Div", "Sqrt", "Cast", "Squeeze", "Unsqueeze", "Reshape"}
_LARGEST = 1 << 24  # values


def folded(view: View) -> int:
    changed = 0
    for node in view:
        if node.op_type not in _FOLDED or node.domain not in ("", "ai.onnx"):
            continue
        tensors = [view.tensor(name) for name in node.input]
        sizes = [int(np.prod(tensor.dims)) for tensor in tensors if tensor is not None]
        if not sizes or len(sizes) < len(tensors) or max(sizes) > _LARGEST:
            continue
        value = _computed(view, node)
        if value.size <= max(sizes):  # a file does not grow by it
            view.bypass(node, view.add(value))
            changed += 1
    return changed


def _computed(view: View, node: NodeProto) -> np.ndarray[Any, Any]:
    given = {name: value for name in node.input if (value := view.constant(name)) is not None}
    inputs, outputs = ([helper.make_empty_tensor_value_info(name) for name in names] for names in (given, node.output))
    opset = helper.make_opsetid("", view.opset)
    model = helper.make_model(helper.make_graph([node], "folded", inputs, outputs), opset_imports=[opset])
    (found,) = ReferenceEvaluator(model).run(None, given)
    return np.asarray(found)
