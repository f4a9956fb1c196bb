"""What recipes ask of a graph before anything is tried: cheap facts, nothing is run."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from artifactctl.backends import graph, saturation
from artifactctl.backends.external import stored_size
from artifactctl.backends.tensors import constant_of, listed_as_inputs

WEIGHTED = {"MatMul": 1, "Gemm": 1, "Conv": 1, "ConvTranspose": 1, "Gather": 0, "LSTM": 1, "GRU": 1}
# where the weights stand that meet int8 activations, of operators that may become int8
_MULTIPLIED = {"MatMul": (1,), "Gemm": (1,), "Conv": (1,), "LSTM": (1, 2)}
_BETWEEN = {"Add", "Mul", "Div", "Sub", "Where", "Cast", "Identity", "Dropout", "Reshape", "Transpose", "Clip", "Max"}
_BETWEEN |= {"Squeeze", "Unsqueeze"}
_WHOLE = ("Attention", "MultiHeadAttention", "GroupQueryAttention")
_PRODUCERS = {"tf2onnx": "bert_tf", "keras2onnx": "bert_keras"}  # they write attention in other words
LARGE_BYTES = 1_500_000_000  # six times this is more than most machines have
_NEAR = 6  # nodes between the product of queries and keys and its Softmax

Array = np.ndarray[Any, Any]


def recipe_facts(path: str) -> dict[str, Any]:
    file = Path(path)
    model = graph.load(file, with_data=False)
    weights = float_weights(model)
    whole = graph.summary(model, file)
    inputs = whole["inputs"]
    free = [(value["name"], axis, size) for value in inputs for axis, size in enumerate(value["shape"] or ())]
    attention = Attention(model).count
    return {
        "precision": whole["precision"],
        "external_data": whole["external_data"],
        "large": stored_size(model) > LARGE_BYTES,
        "weighted": dict(Counter(node.op_type for node in model.graph.node if weight_of(node, weights))),
        "free": [f"{size or f'{name}:{axis}'}" for name, axis, size in free if not isinstance(size, int)],
        "inputs": inputs,
        "listed": _listed(model),
        "attention": attention,
        "transformer": _model_type(model, inputs) if attention else None,
    }


def _listed(model: ModelProto) -> bool:
    """Most of the weights are inputs too."""
    stored, listed = (
        sum(math.prod(tensor.dims) for tensor in tensors if tensor.data_type == TensorProto.FLOAT)
        for tensors in (model.graph.initializer, listed_as_inputs(model))
    )
    return bool(2 * listed > stored)


def float_weights(model: ModelProto) -> dict[str, TensorProto]:
    """Stored float32 tensors of the main graph by the name that nodes use."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if (tensor := constant_of(node)) is not None:
            stored[node.output[0]] = tensor
    return {name: tensor for name, tensor in stored.items() if tensor.data_type == TensorProto.FLOAT}


def weight_of(node: NodeProto, weights: dict[str, TensorProto]) -> str | None:
    """The stored float weight that a node multiplies by, or looks up."""
    place = WEIGHTED.get(node.op_type)
    if place is None or node.domain not in ("", "ai.onnx") or place >= len(node.input):
        return None
    return node.input[place] if node.input[place] in weights else None


class Attention:
    """Where a graph has attention: a Softmax between two products of computed values, or one operator for all of it."""

    def __init__(self, model: ModelProto) -> None:
        self._maker = {output: node for node in model.graph.node for output in node.output}
        self._users: dict[str, list[NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        soft = [node for node in model.graph.node if node.op_type == "Softmax"]
        paths = [(self._back(node.input[0], _NEAR), self._ahead(node.output[0], _NEAR)) for node in soft]
        found = [back for back, ahead in paths if back is not None and ahead]
        whole = [node for node in model.graph.node if node.op_type in _WHOLE]
        self.count = len(found) + len(whole)
        self.scores = {output for back in found for node in back for output in node.output}  # before their Softmax

    def _product(self, node: NodeProto) -> bool:
        made = [name for name in node.input if name in self._maker and self._maker[name].op_type != "Constant"]
        return node.op_type in ("MatMul", "Einsum") and len(made) == 2

    def _back(self, name: str, steps: int) -> list[NodeProto] | None:
        """The nodes between a product and this value; None where there is no product behind it."""
        node = self._maker.get(name)
        if node is None or (not self._product(node) and (not steps or node.op_type not in _BETWEEN)):
            return None
        if self._product(node):
            return []
        ways = [self._back(each, steps - 1) for each in node.input if each]
        return next(([node, *way] for way in ways if way is not None), None)

    def _ahead(self, name: str, steps: int) -> bool:
        return any(
            self._product(node) or (steps > 0 and node.op_type in _BETWEEN and self._ahead(node.output[0], steps - 1))
            for node in self._users.get(name, ())
        )


def _model_type(model: ModelProto, inputs: list[dict[str, Any]]) -> str:
    """As ONNX Runtime's optimizer names them; "bert" is its general encoder."""
    if model.producer_name in _PRODUCERS:
        return _PRODUCERS[model.producer_name]
    if any("past" in value["name"].lower() for value in inputs):
        return "gpt2"
    image = any(len(value["shape"] or ()) == 4 and value["dtype"].startswith("float") for value in inputs)
    return "vit" if image and any(node.op_type == "Conv" for node in model.graph.node) else "bert"


def would_saturate(path: str, operators: list[str] | None) -> list[str]:
    """Layers whose weights could saturate once they are int8: symmetric, each output channel with its own scale.

    Only those of the `operators` that become int8; None: of all.
    """
    file = Path(path)
    model = graph.load_light(file)
    weights, found = float_weights(model), []
    for node in model.graph.node:
        if operators is not None and node.op_type not in operators:
            continue
        names = [node.input[place] for place in _MULTIPLIED.get(node.op_type, ()) if place < len(node.input)]
        for name in names:
            if name not in weights:
                continue
            orders = saturation.rows_of(node, numpy_helper.to_array(weights[name], base_dir=str(file.parent)))
            if any(saturation.count(rows, _steps)[0] for rows in orders):
                found.append(node.name or node.output[0])
                break
    return found


def _steps(rows: Array) -> Array:
    scale = np.abs(rows).max(axis=-1, keepdims=True, initial=0) / 127
    steps: Array = np.rint(np.divide(rows, scale, out=np.zeros_like(rows), where=scale > 0))
    return steps.astype(np.int8)
