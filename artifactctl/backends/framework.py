"""PyTorch sources: load with suspicion, export to ONNX, and answer samples with the framework itself."""

from __future__ import annotations

import inspect as signatures
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from artifactctl.backends import graph, proof, torchfiles
from artifactctl.backends.factory import from_factory, watch_files
from artifactctl.errors import SourceError

DEFAULT_OPSET = 18
_EXAMPLE = {"batch": 2, "image": 64, "other": 16}  # 0 and 1 would be baked in by the exporter
_REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, KeyError)


class Loaded:
    """The framework's model, kept in this process between `export` and `answer`."""

    def __init__(self, call: Any, names: Sequence[str], by_keyword: bool) -> None:
        self.call, self.names, self.by_keyword = call, list(names), by_keyword
        self.outputs: list[str] = []

    def run(self, tensors: Mapping[str, torch.Tensor]) -> Any:
        with torch.no_grad():
            return self.call(**tensors) if self.by_keyword else self.call(*tensors.values())

    def __call__(self, feeds: Mapping[str, Any]) -> list[Any]:
        result = self.run({name: torch.from_numpy(np.array(feeds[name])) for name in self.names})
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if leaf is not None]
        return [_array(leaf) for leaf in leaves]


_loaded: list[Loaded] = []


def _array(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return np.asarray(leaf)
    leaf = leaf.detach()
    return leaf.float().numpy() if leaf.dtype == torch.bfloat16 else leaf.numpy()


def export(
    kind: str, target: str, weights: str | None, inputs: dict[str, Any], opset: int | None, root: str, output: str
) -> dict[str, Any]:
    """Write the reference ONNX to `output`; every local file that took part is reported."""
    base, path, asked = Path(root), Path(output), opset or DEFAULT_OPSET
    with watch_files(base) as opened:
        model = _load(kind, target, weights, base)
        names, by_keyword = _argument_names(kind, model, inputs)
        loaded = Loaded(model.module() if kind == "exported_program" else model, names, by_keyword)
        examples = _program_examples(model, names) if kind == "exported_program" else _examples(inputs, names)
        if examples:
            loaded.outputs = _output_names(loaded, examples)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raw = path.with_name("exported") / path.name  # in a folder of its own: there may be a file for each weight
            raw.parent.mkdir()
            _write(kind, model, loaded, examples, inputs, asked, raw)
    exported = graph.load(raw, with_data=False)
    _check(exported, names, asked)
    if kind == "exported_program":
        _name_dimensions(exported, inputs)
    graph.clean(exported)
    graph.save_light(exported, raw, path)
    shutil.rmtree(raw.parent)
    loaded.outputs = [value.name for value in exported.graph.output]  # the exporter may leave one out: see `answer`
    _loaded[:] = [loaded]
    return {"framework": f"torch {torch.__version__.split('+')[0]}", "files": sorted(opened)} | graph.describe(exported)


def _load(kind: str, target: str, weights: str | None, root: Path) -> Any:
    if kind == "torch":
        return from_factory(target, weights, root)
    return torchfiles.load_script(root / target) if kind == "torchscript" else torchfiles.load_program(root / target)


def answer(folder: str, states: list[dict[str, str]]) -> dict[str, Any]:
    """The framework's own outputs for every sample, under the names that the exported model gives them."""
    loaded = _loaded[0]

    def run(feeds: dict[str, Any]) -> dict[str, Any]:
        leaves = loaded(feeds)
        if len(leaves) != len(loaded.outputs):
            message = f"the source returns {len(leaves)} outputs, but its export has {len(loaded.outputs)}"
            raise SourceError(message, hint="Return tensors only, always the same number of them.")
        return dict(zip(loaded.outputs, leaves, strict=True))

    return proof.record_answers(Path(folder), run, _REFUSALS, states)


def _argument_names(kind: str, model: Any, inputs: dict[str, Any]) -> tuple[list[str], bool]:
    """ONNX input names in the order of the call; by keyword where they are the parameters' own names."""
    if kind == "exported_program":
        own = list(model.graph_signature.user_inputs)
        if inputs and len(inputs) != len(own):
            raise SourceError(f"the program takes {len(own)} inputs {own}, but {len(inputs)} are declared")
        return (list(inputs) or own), False
    if kind == "torchscript":
        own = [argument.name for argument in model.forward.schema.arguments[1:]]
        needed = [argument for argument in model.forward.schema.arguments[1:] if not argument.has_default_value()]
    else:
        parameters = signatures.signature(model.forward).parameters.values()
        own = [item.name for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
        needed = [item for item in parameters if item.default is item.empty and item.kind == item.POSITIONAL_OR_KEYWORD]
        if any(item.kind == item.VAR_POSITIONAL for item in parameters):
            own = list(inputs)
    if len(inputs) > len(own) or len(inputs) < len(needed):
        hint = "Declare one entry under source.inputs for each argument of forward: NAME: {shape: […], dtype: float32}."
        raise SourceError(f"forward takes {own}, but {len(inputs)} inputs are declared: {list(inputs)}", hint=hint)
    if kind == "torch" and set(inputs) <= set(own):
        return [name for name in own if name in inputs], True
    return list(inputs), False


def _output_names(loaded: Loaded, examples: dict[str, torch.Tensor]) -> list[str]:
    """A mapping's keys, a named tuple's fields, else `output` or `output_0`, `output_1`, …"""
    try:
        result = loaded.run(examples)
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in examples.items())
        hint = "Compare source.inputs in artifactctl.yaml with the arguments of forward."
        raise SourceError(
            f"forward fails on {shapes}: {type(error).__name__}: {_shorten(str(error))}", hint=hint
        ) from None
    count = len([leaf for leaf in torch.utils._pytree.tree_leaves(result) if leaf is not None])
    names = ["output"] if count == 1 else [f"output_{position}" for position in range(count)]
    own = list(result) if isinstance(result, Mapping) else list(getattr(result, "_fields", ()))
    if len(own) == count and all(isinstance(name, str) for name in own):
        names = own
    return [f"{name}_out" if name in examples else name for name in names]


def _examples(inputs: dict[str, Any], names: list[str]) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(0)
    examples = {}
    for name in names:
        shape = [
            size if isinstance(size, int) else _example_size(inputs[name]["shape"], axis)
            for axis, size in enumerate(inputs[name]["shape"])
        ]
        dtype, own = inputs[name]["dtype"], inputs[name]["values"] or inputs[name]["range"]
        values = rng.random(shape) if dtype.startswith("float") and not own else np.full(shape, own[0] if own else 0)
        examples[name] = torch.from_numpy(np.asarray(values).astype(dtype))
    return examples


def _program_examples(program: Any, names: list[str]) -> dict[str, torch.Tensor]:
    """A .pt2 may carry the arguments it was exported with."""
    stored = program.example_inputs[0] if program.example_inputs else ()
    usable = len(stored) == len(names) and all(isinstance(item, torch.Tensor) for item in stored)
    return dict(zip(names, stored, strict=True)) if usable else {}


def _example_size(shape: list[int | str], axis: int) -> int:
    if axis == 0:
        return _EXAMPLE["batch"]
    return _EXAMPLE["image"] if len(shape) == 4 else _EXAMPLE["other"]


def _write(
    kind: str,
    model: Any,
    loaded: Loaded,
    examples: dict[str, torch.Tensor],
    inputs: dict[str, Any],
    opset: int,
    path: Path,
) -> None:
    dynamic = {
        name: {axis: size for axis, size in enumerate(inputs[name]["shape"] or ()) if isinstance(size, str)}
        for name in loaded.names
        if name in inputs
    }
    arguments = tuple(examples.values())
    common: dict[str, Any] = {"opset_version": opset, "input_names": loaded.names, "verbose": False}
    common |= {"output_names": loaded.outputs} if loaded.outputs else {}
    state = model.state_dict if kind == "exported_program" else model.state_dict()
    heavy = sum(tensor.nbytes for tensor in state.values()) > graph.EXTERNAL_OVER_BYTES
    try:
        if kind == "exported_program":
            torch.onnx.export(model, (), str(path), dynamo=True, external_data=heavy, **common)
        elif kind == "torchscript" or opset < DEFAULT_OPSET:
            # The tracer is the only exporter of TorchScript's If and Loop, and of old opsets. What it bakes in
            # shows when the framework is asked at other sizes.
            torch.onnx.export(model, arguments, str(path), dynamo=False, dynamic_axes=dynamic, **common)
        elif loaded.by_keyword:
            common |= {"kwargs": dict(examples), "dynamic_shapes": dynamic}
            torch.onnx.export(model, (), str(path), dynamo=True, external_data=heavy, **common)
        else:
            common["dynamic_shapes"] = tuple(dynamic.values())
            torch.onnx.export(model, arguments, str(path), dynamo=True, external_data=heavy, **common)
    except Exception as error:  # noqa: BLE001 - the exporter raises classes of its own
        hint = "See the reason above; a branch on data needs torch.jit.script and 'torchscript:', or torch.cond."
        raise SourceError(
            f"torch cannot export the model to opset {opset}: {_shorten(str(error))}", hint=hint
        ) from None


def _shorten(text: str) -> str:
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line.strip()]
    return "\n".join(line[:300] for line in lines[:12])


def _check(model: Any, names: list[str], opset: int) -> None:
    written = next((entry.version for entry in model.opset_import if not entry.domain), 0)
    if written != opset:
        hint = f"Set source.opset to {written}, or to another that torch can write."
        raise SourceError(f"opset {opset} was asked for, but torch writes {written}", hint=hint)
    stored = {tensor.name for tensor in model.graph.initializer}
    found = [value.name for value in model.graph.input if value.name not in stored]
    if found != names:
        hint = "An input that the traced path does not use disappears; remove it or use it on every path."
        raise SourceError(f"the export takes inputs {found}, but the source takes {names}", hint=hint)


def _name_dimensions(model: Any, inputs: dict[str, Any]) -> None:
    """A .pt2 calls its dimensions s77; give them the user's names, or names from their places."""
    renamed: dict[str, str] = {}
    for value in model.graph.input:
        declared = inputs.get(value.name, {}).get("shape") or []
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param and dim.dim_param not in renamed:
                own = declared[axis] if axis < len(declared) and isinstance(declared[axis], str) else None
                free = "batch" if axis == 0 and "batch" not in renamed.values() else f"{value.name}_dim{axis}"
                renamed[dim.dim_param] = own or free
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in renamed:
                dim.dim_param = renamed[dim.dim_param]
