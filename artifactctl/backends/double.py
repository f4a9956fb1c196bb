"""The source once more in float64: how far its own float32 rounding carries its answers."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, inliner, numpy_helper

from artifactctl.backends import core, graph
from artifactctl.backends.evaluator import OPERATORS, Costly, Evaluator, Purse
from artifactctl.backends.proof import read_sample

SETTINGS = core.as_written({"intra_op_threads": 1, "inter_op_threads": 1, "allow_spinning": False})
DISAGREES = "the float64 run does not agree with the source"
WEIGHTS_LIMIT = 1_000_000_000  # bytes in float64
_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)

Array = np.ndarray[Any, Any]


def float64_noise(path: str, samples: list[str], bounds: dict[str, Any]) -> dict[str, Any]:
    """The stored answers against a float64 copy of the graph; whatever stands in the way is a reason, not an error."""
    try:
        sizes = (math.prod(tensor.dims) for tensor in graph.tensors(graph.load(Path(path), with_data=False)))
        if 8 * sum(sizes) > WEIGHTS_LIMIT:
            return _not_run(f"its weights would take over {WEIGHTS_LIMIT // 1_000_000} MB in float64")
        model = widened(graph.load(Path(path)))
        if (found := _by_runtime(model, samples)) is None:
            found = _by_evaluator(model, samples)
    except Costly:
        return _not_run("too many calculations for an operator that ONNX Runtime does not have in float64")
    except Exception as error:  # noqa: BLE001 - the evaluator raises all kinds
        line = (str(error).strip().splitlines() or [""])[0]
        return _not_run(f"cannot be run in float64: {line or type(error).__name__}"[:300])
    engine, comparison = found
    outputs = comparison.outputs({"default": {"max_abs": None}, "outputs": {}})
    if not outputs:
        return _not_run("no sample has floating-point outputs")
    limit = 10 * (bounds["default"].get("max_abs") or 1e-3)
    if any(output["reason"] or not output["max_error"] <= limit for output in outputs):
        return _not_run(DISAGREES)
    # six digits: the last ones of a float64 sum depend on the machine
    kept = {entry["name"]: {key: _short(entry[key]) for key in ("max_abs", "max_error")} for entry in outputs}
    worst = {key: max(entry[key] for entry in kept.values()) for key in ("max_abs", "max_error")}
    return {"ran": True, "engine": engine, "samples": comparison.samples, **worst, "outputs": kept}


def _not_run(reason: str) -> dict[str, Any]:
    return {"ran": False, "reason": reason}


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _by_runtime(model: onnx.ModelProto, samples: list[str]) -> tuple[str, Any] | None:
    """None where ONNX Runtime lacks a float64 kernel; of LSTM it says so only when run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "double.onnx"
        graph.save(model, file)
        try:
            return "onnxruntime", _compared(core.open_session(file, SETTINGS), samples)
        except core.runtime_errors():
            return None


def _by_evaluator(model: onnx.ModelProto, samples: list[str]) -> tuple[str, Any]:
    class Priced(Evaluator):
        purse = Purse()  # of this call: inner graphs, which are evaluators of the same class, pay from it too

    with np.errstate(all="ignore"):
        return "onnx.reference", _compared(Priced(model, new_ops=OPERATORS), samples)


def _compared(session: Any, samples: list[str]) -> Any:
    comparison = core.Comparison()
    for sample in map(read_sample, map(Path, samples)):
        try:
            found = core.run(session, {name: _wide(value) for name, value in sample["inputs"].items()})
        except Costly:
            if comparison.samples:
                break  # the samples before it were enough to pay for
            raise
        expected = {name: _wide(value) for name, value in sample["outputs"].items() if value.dtype.kind == "f"}
        plain = {name: name.removesuffix(".bfloat16") for name in expected}
        comparison.add(expected, {name: _wide(found[plain[name]]) for name in expected if plain[name] in found})
    return comparison


def _wide(value: Any) -> Any:
    if isinstance(value, list):
        return [_wide(item) for item in value]
    return value.astype(np.float64) if value.dtype.kind == "f" else value


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with every float type made float64; the values are those of the narrow type."""
    if model.functions:
        model = inliner.inline_local_functions(model)
    for tensor in graph.tensors(model):
        if tensor.data_type in _NARROW:
            wide = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for each in graph.graphs(model):
        del each.value_info[:]
        for value in (*each.input, *each.output):
            _widen_type(value.type)
    for node in graph.nodes(model):
        _widen_attributes(node)
    return model


def _widen_type(kind: onnx.TypeProto) -> None:
    which = kind.WhichOneof("value")
    if which == "tensor_type" and kind.tensor_type.elem_type in _NARROW:
        kind.tensor_type.elem_type = TensorProto.DOUBLE
    elif which in {"sequence_type", "optional_type"}:
        _widen_type(getattr(kind, which).elem_type)


def _widen_attributes(node: onnx.NodeProto) -> None:
    present = {attribute.name: attribute for attribute in node.attribute}
    for attribute in present.values():
        if attribute.type == onnx.AttributeProto.TYPE_PROTO:
            _widen_type(attribute.tp)
        elif attribute.name in {"to", "dtype", "output_datatype"} and attribute.i in _NARROW:
            attribute.i = TensorProto.DOUBLE
    if node.op_type == "ConstantOfShape" and not present:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
    if node.op_type == "Constant" and (one := present.get("value_float") or present.get("value_floats")):
        value = np.array(one.f if one.name == "value_float" else one.floats, np.float64)
        one.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(value)))
    default = {"SequenceEmpty": "dtype", "MelWeightMatrix": "output_datatype"}.get(node.op_type)
    if default is None and node.op_type.endswith("Window"):
        default = "output_datatype"
    if default and default not in present:
        node.attribute.append(helper.make_attribute(default, TensorProto.DOUBLE))
