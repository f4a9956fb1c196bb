"""The model that faults are put into: the user's, with an output of every kind beside its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper, version_converter

from artifactctl.backends import graph
from artifactctl.backends.faults import FAULTS
from artifactctl.backends.patch import FLOATS, INTEGERS, Patch
from artifactctl.errors import SourceError

OLDEST_OPSET = 9  # every operator that is added here exists since then, and has not changed its form


def small_cnn() -> ModelProto:
    """The host when no model is named: two free sizes besides the batch; a pooling that does not even answers out."""
    rng = np.random.default_rng(7)
    shapes = {"kernel": (8, 3, 3, 3), "shift": (8,), "dense": (8, 6), "bias": (6,)}
    weights = {name: (0.3 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "shift"], ["features"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["features"], ["active"]),
        helper.make_node("GlobalMaxPool", ["active"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "dense", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["scores"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 6])
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    made = helper.make_graph(nodes, "small_cnn", [image], [scores], stored)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def make_host(path: str | None, target: str) -> dict[str, Any]:
    """The model with more outputs, so that every fault finds its place: a second float, booleans, integers, texts."""
    patch = Patch(_recent(graph.load(Path(path)) if path else small_cnn()))
    info: dict[str, Any] = {"own": [value.name for value in patch.model.graph.output], "faults": list(FAULTS)}
    info["nodes"] = len(patch.model.graph.node)
    found, info["target"] = _find_float(patch.model)
    if found:
        info |= _grow(patch, found, info["own"])
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    graph.save(patch.model, Path(target))
    return info


def _grow(patch: Patch, found: str, own: list[str]) -> dict[str, str]:
    element = patch.element(found)
    value = found
    if found not in own or element not in FLOATS:
        to = element if element in FLOATS else TensorProto.FLOAT
        value = patch.op("Cast", found, to=to, output=patch.fresh("selftest_value"))
        patch.declare(value, to)
        element = to
    halves = patch.constant(0.5, FLOATS[element]), patch.constant(1.0, FLOATS[element])
    twin = patch.op("Add", patch.op("Mul", value, halves[0]), halves[1], output=patch.fresh("selftest_twin"))
    flag = patch.fresh("selftest_bool")
    _tell_apart(patch, value, flag)
    true = patch.op("ReduceSum", patch.op("Cast", flag, to=TensorProto.FLOAT), keepdims=0)
    total = patch.op("Reshape", patch.op("Cast", true, to=TensorProto.INT64), patch.constant([1]))
    count = patch.op("Concat", total, patch.op("Shape", value), axis=0, output=patch.fresh("selftest_int"))
    text = patch.op("Cast", count, to=TensorProto.STRING, output=patch.fresh("selftest_text"))
    for name, kind in ((twin, element), (flag, TensorProto.BOOL), (count, TensorProto.INT64)):
        patch.declare(name, kind)
    patch.declare(text, TensorProto.STRING)
    zipped = any(node.op_type == "ZipMap" and found in node.input for node in patch.model.graph.node)
    made = any(found in node.output for node in patch.model.graph.node)
    site = found if zipped and made else value
    return {"site": site, "value": value, "twin": twin, "flag": flag, "count": count, "text": text}


def _tell_apart(patch: Patch, value: str, flag: str) -> None:
    """Booleans that no noise flips and that vary with the input: a constant output would tell nothing apart."""
    stored = {tensor.name for tensor in patch.model.graph.initializer}
    inputs = [(given.name, given.type.tensor_type.elem_type) for given in patch.model.graph.input]
    inputs = [(name, element) for name, element in inputs if name not in stored]
    if given := [name for name, element in inputs if element in FLOATS]:
        exact = patch.op("Cast", given[0], to=TensorProto.FLOAT)
        patch.op("Greater", exact, patch.constant(0.5, np.float32), output=flag)
    elif given := [name for name, element in inputs if element in INTEGERS | {TensorProto.BOOL}]:
        exact, two = patch.op("Cast", given[0], to=TensorProto.INT64), patch.constant(2)
        even = patch.op("Mul", patch.op("Div", exact, two), two)
        patch.op("Cast", patch.op("Sub", exact, even), to=TensorProto.BOOL, output=flag)
    else:
        patch.op("IsNaN", patch.op("Cast", value, to=TensorProto.FLOAT), output=flag)


def _recent(model: ModelProto) -> ModelProto:
    """With an opset that has the operators of the faults."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    version = opsets.get("", opsets.get("ai.onnx"))
    if version is None:  # only trees and the like
        model.opset_import.append(helper.make_opsetid("", 18 if model.ir_version >= 8 else OLDEST_OPSET))
    elif version < OLDEST_OPSET:
        try:
            return version_converter.convert_version(model, OLDEST_OPSET)
        except (RuntimeError, ValueError) as error:
            hint = f"Export it with opset {OLDEST_OPSET} or newer."
            raise SourceError(f"opset {version} is too old for the self-test ({error})", hint=hint) from None
    return model


def _find_float(model: ModelProto) -> tuple[str | None, str | None]:
    """A float that can be seen at an output, and a word on what it is."""
    made = {name: node for node in model.graph.node for name in node.output}
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.output if value.name in made}
    for name, element in types.items():
        if element in FLOATS:
            return name, f"output {name!r}"
    for name in types:
        if made[name].op_type == "ZipMap":
            return made[name].input[0], f"the scores of ZipMap {name!r}"
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph
    except (RuntimeError, ValueError):  # over 2 GiB, or an operator that onnx does not know
        inferred = model.graph
    known = {value.name: value.type.tensor_type.elem_type for value in (*inferred.value_info, *inferred.input)}
    waiting, seen = list(types), set(types)
    while waiting:
        name = waiting.pop(0)
        if known.get(name) == TensorProto.FLOAT:
            return name, f"{name!r}, which feeds an output"
        before = [given for given in made[name].input if given not in seen] if name in made else []
        seen.update(before)
        waiting += before
    numbers = [name for name, element in types.items() if element in INTEGERS | {TensorProto.BOOL}]
    return (numbers[0], f"output {numbers[0]!r}, as float32") if numbers else (None, None)
