"""ONNX files as graphs: read with suspicion, describe, write with fixed bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from artifactctl.backends import layout, streams
from artifactctl.backends.external import external_files, load_external, stored_bytes, stored_size
from artifactctl.backends.tensors import listed_as_inputs
from artifactctl.copies import copy
from artifactctl.errors import SourceError
from artifactctl.portability import tied_to

# protobuf ends at 2 GiB, and writing a file of it holds it four times, over 512 MB more: what is made of a large model
# in narrower numbers must not take more than the model itself
EXTERNAL_OVER_BYTES = 500_000_000
DATA_SUFFIX = ".data"
SMALL_BYTES = 1 << 20  # of external data that may say something about sizes and limits
MOST_BYTES = 1 << 31  # what protobuf can hold
LONGEST_NAME = 4096
_QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantize", "MatMulInteger", "ConvInteger", "QLinear",
              "QAttention", "QGemm", "QOrdered", "QEmbedLayerNorm")  # fmt: skip
_FLOATS: dict[int, str] = {
    TensorProto.FLOAT: "fp32",
    TensorProto.FLOAT16: "fp16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.DOUBLE: "fp64",
}


def load(path: Path, *, with_data: bool = True) -> ModelProto:
    """The model, or a SourceError that says what is wrong with the file."""
    try:
        head, size = path.open("rb").read(64), path.stat().st_size
    except OSError as error:
        hint = "Check the path; paths in artifactctl.yaml are relative to its folder."
        raise SourceError(f"{path.name} cannot be read: {error.strerror}", hint=hint) from None
    if size >= MOST_BYTES:
        hint = "Save its weights as external data: onnx.save_model(model, FILE, save_as_external_data=True)."
        raise SourceError(f"{path.name} is larger than 2 GiB, which no ONNX file can be", hint=hint)
    if not head:
        raise SourceError(f"{path.name} is empty", hint="Export or fetch the model again.")
    if head.startswith(b"version https://git-lfs"):
        raise SourceError(f"{path.name} is a git-lfs pointer, not the model", hint="Run 'git lfs pull' first.")
    try:
        model = onnx.load_model(str(path), format="protobuf", load_external_data=False)
    except (DecodeError, UnicodeDecodeError, RuntimeError) as error:
        hint = "It is damaged, truncated, or another kind of file; fetch or export it again."
        raise SourceError(f"{path.name} is not a whole ONNX file ({error})", hint=hint) from None
    if not model.ir_version or not model.graph.output or not model.opset_import:
        hint = "An ONNX model has an IR version, an opset and at least one output; fetch or export it again."
        raise SourceError(f"{path.name} is not an ONNX model", hint=hint)
    if not _is_text(model):
        message = f"{path.name} is damaged: a name in it is not text, or longer than {LONGEST_NAME} characters"
        raise SourceError(message, hint="Fetch or export it again.")
    if with_data:
        load_external(model, path)
    else:
        external_files(model, path)
    return model


def load_light(path: Path) -> ModelProto:
    """The model with those of its external data that are small; the others are weights."""
    model = load(path, with_data=False)
    for tensor in tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL and (stored_bytes(tensor) or 0) <= SMALL_BYTES:
            streams.bring_in(tensor, path.parent)
    return model


def _is_text(model: ModelProto) -> bool:
    """protobuf hands a string that is not UTF-8 out as bytes; everything after this relies on text."""
    words: list[Any] = [model.producer_name, model.producer_version, *(entry.domain for entry in model.opset_import)]
    for node in nodes(model):
        words += [node.name, node.op_type, node.domain, *node.input, *node.output]
        words += [attribute.name for attribute in node.attribute]
    for graph in graphs(model):
        values = (*graph.input, *graph.output, *graph.value_info)
        words += [value.name for value in (*values, *graph.initializer)]
        words += [dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim]
    return all(isinstance(word, str) and len(word) <= LONGEST_NAME for word in words)


def graphs(model: ModelProto) -> Iterator[GraphProto]:
    """The graph and every inner graph: of If, Loop and Scan, at any depth, in functions too."""
    yield model.graph
    for node in nodes(model):
        for attribute in node.attribute:
            yield from inner_graphs(attribute)


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node, at any depth, in functions too."""
    waiting = [model.graph.node, *(function.node for function in model.functions)]
    while waiting:
        for node in waiting.pop():
            yield node
            waiting += [inner.node for attribute in node.attribute for inner in inner_graphs(attribute)]


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that is stored in the model: initializers and attributes."""
    for graph in graphs(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in nodes(model):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == AttributeProto.TENSORS:
                yield from attribute.tensors


def inner_graphs(attribute: AttributeProto) -> Iterator[GraphProto]:
    if attribute.type == AttributeProto.GRAPH:
        yield attribute.g
    elif attribute.type == AttributeProto.GRAPHS:
        yield from attribute.graphs


def describe(model: ModelProto) -> dict[str, Any]:
    opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    opset = opsets.get("ai.onnx", max(opsets.values(), default=0))
    return {"opset": opset, "opsets": opsets, "precision": precision(model), "portability": portability(model)}


def precision(model: ModelProto) -> str:
    """By what most of the weights are, unless operators say otherwise, ONNX's or ONNX Runtime's own."""
    kinds = {node.op_type for node in nodes(model)}
    if any(kind.endswith("NBits") for kind in kinds):
        return "int4"
    if any(kind.startswith(_QUANTIZED) for kind in kinds):
        return "int8"
    weight: Counter[str] = Counter()
    for tensor in tensors(model):
        if tensor.data_type in _FLOATS:
            weight[_FLOATS[tensor.data_type]] += _elements(tensor)
    return weight.most_common(1)[0][0] if weight else "fp32"


def _elements(tensor: TensorProto) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
    return count


def inspect(path: str) -> dict[str, Any]:
    """What `artifactctl inspect` shows; the model is not run."""
    return summary(load(Path(path), with_data=False), Path(path))


def summary(model: ModelProto, file: Path) -> dict[str, Any]:
    external = external_files(model, file)
    operators = Counter((node.domain or "ai.onnx", node.op_type) for node in nodes(model))
    initializers = {tensor.name for tensor in model.graph.initializer}
    return {
        "ir_version": model.ir_version,
        **describe(model),
        "producer": " ".join(part for part in (model.producer_name, model.producer_version) if part),
        "inputs": [value for value in inspect_values(model.graph.input) if value["name"] not in initializers],
        "outputs": inspect_values(model.graph.output),
        "operators": [
            {"domain": domain, "operator": kind, "count": count}
            for (domain, kind), count in sorted(operators.items(), key=lambda item: (-item[1], item[0]))
        ],
        "parameters": sum(_elements(tensor) for tensor in tensors(model)),
        "size_bytes": sum(item.stat().st_size for item in (file, *(file.parent / name for name in external))),
        "external_data": external,
        "functions": sorted({function.domain for function in model.functions}),
    }


def portability(model: ModelProto) -> str:
    domains = {node.domain for node in nodes(model)}
    kinds = {node.op_type for node in nodes(model)}
    if "EPContext" in kinds:
        return "this-device"
    if layout.DOMAIN in domains:
        return tied_to(layout.isas_of(model))
    own = {function.domain for function in model.functions}
    other = domains - {"", "ai.onnx", "ai.onnx.ml"} - own
    custom = sorted(domain for domain in other if not domain.startswith("com.microsoft"))
    if custom:
        return f"custom:{','.join(custom)}"
    # ONNX Runtime has a few operators of its own that go under ONNX's name
    own_names = any(node.domain in ("", "ai.onnx") and not onnx.defs.has(node.op_type) for node in nodes(model))
    return "ort-only" if other or own_names else "any"


def inspect_values(values: Iterable[onnx.ValueInfoProto]) -> list[dict[str, Any]]:
    return [_value(value) for value in values]


def _value(value: onnx.ValueInfoProto) -> dict[str, Any]:
    """A tensor's type and shape; of a sequence those of its items; an optional counts as what it may hold."""
    kind, inner = value.type.WhichOneof("value"), value.type
    if kind == "optional_type":
        inner = inner.optional_type.elem_type
        kind = inner.WhichOneof("value")
    sequence = kind == "sequence_type"
    if sequence:
        inner = inner.sequence_type.elem_type
        kind = inner.WhichOneof("value")
    if kind != "tensor_type":
        return {"name": value.name, "dtype": (kind or "unknown").removesuffix("_type"), "shape": None}
    dtype = dtype_name(inner.tensor_type.elem_type)
    shape = shape_of(inner.tensor_type)
    return {"name": value.name, "dtype": f"sequence({dtype})" if sequence else dtype, "shape": shape}


def dtype_name(element: int) -> str:
    name: str = TensorProto.DataType.Name(element).lower() if element in TensorProto.DataType.values() else "unknown"
    return {"float": "float32", "double": "float64"}.get(name, name)


def shape_of(tensor: onnx.TypeProto.Tensor) -> list[int | str | None] | None:
    if not tensor.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim]


def clean(model: ModelProto) -> None:
    """Take out what depends on the machine that made the file: stack traces, and domains no node uses."""
    for node in nodes(model):
        node.doc_string = ""
        del node.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.training_info[:]  # nothing runs it, and it may point anywhere
    used = {node.domain for node in nodes(model)} | {function.domain for function in model.functions}
    used = {domain.removesuffix("ai.onnx") for domain in used} or {""}  # both names of the default domain are one
    kept = [entry for entry in model.opset_import if entry.domain.removesuffix("ai.onnx") in used]
    kept.sort(key=lambda entry: entry.domain)
    kept = [type(entry).FromString(entry.SerializeToString()) for entry in kept]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def save_normalized(source: str, target: str, verbatim: bool = False) -> dict[str, Any]:
    """Write one file, or one file and one data file; `verbatim` keeps the bytes of a single file."""
    origin, destination = Path(source), Path(target)
    model = load(origin, with_data=False)
    external = external_files(model, origin)
    if verbatim and not external:
        copy(origin, destination)
    else:
        if not verbatim:
            clean(model)
        save_light(model, origin, destination)
    written = [destination, destination.with_name(destination.name + DATA_SUFFIX)]
    size = sum(file.stat().st_size for file in written if file.exists())
    return describe(model) | {"size_bytes": size}


def save_light(model: ModelProto, origin: Path, path: Path) -> None:
    """A model that was read from `origin` without all its data: as one file, or as one and its data, where that is
    large, or has weights that are inputs: ONNX Runtime maps them where they lie, which spares each load a copy."""
    listed = any((stored_bytes(tensor) or 0) >= streams.INSIDE_BYTES for tensor in listed_as_inputs(model))
    if stored_size(model) > EXTERNAL_OVER_BYTES or listed:
        streams.save(model, origin.parent, path)
    else:
        load_external(model, origin)
        save(model, path)


def save(model: ModelProto, path: Path) -> None:
    """A model that has all its data with it."""
    if sum(len(tensor.raw_data) for tensor in tensors(model)) <= EXTERNAL_OVER_BYTES:
        try:
            path.write_bytes(model.SerializeToString(deterministic=True))
        except (EncodeError, ValueError):
            pass  # over 2 GiB in fields that were not counted
        else:
            return
    streams.save(model, path.parent, path)


def save_beside(model: ModelProto, origin: Path, path: Path) -> None:
    """A model that was read from `origin` without its data, which then lie beside the new file too."""
    for name in external_files(model, origin):
        (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
        if not (path.parent / name).exists():
            copy(origin.parent / name, path.parent / name)
    path.write_bytes(model.SerializeToString(deterministic=True))
