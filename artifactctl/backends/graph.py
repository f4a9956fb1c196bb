"""ONNX files as graphs: read with suspicion, describe, write with fixed bytes."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from artifactctl.errors import SourceError

EXTERNAL_OVER_BYTES = 1_500_000_000  # protobuf ends at 2 GiB
DATA_SUFFIX = ".data"
_QUANTIZED = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"}
_FLOATS: dict[int, str] = {
    TensorProto.FLOAT: "fp32",
    TensorProto.FLOAT16: "fp16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.DOUBLE: "fp64",
}


def load(path: Path, *, with_data: bool = True) -> ModelProto:
    """The model, or a SourceError that says what is wrong with the file."""
    try:
        head = path.open("rb").read(64)
    except OSError as error:
        hint = "Check the path; paths in artifactctl.yaml are relative to its folder."
        raise SourceError(f"{path.name} cannot be read: {error.strerror}", hint=hint) from None
    if not head:
        raise SourceError(f"{path.name} is empty", hint="Export or fetch the model again.")
    if head.startswith(b"version https://git-lfs"):
        raise SourceError(f"{path.name} is a git-lfs pointer, not the model", hint="Run 'git lfs pull' first.")
    try:
        model = onnx.load_model(str(path), load_external_data=False)
    except (DecodeError, UnicodeDecodeError, RuntimeError) as error:
        hint = "It is damaged, truncated, or another kind of file; fetch or export it again."
        raise SourceError(f"{path.name} is not a whole ONNX file ({error})", hint=hint) from None
    if not model.ir_version or not model.graph.output or not model.opset_import:
        hint = "An ONNX model has an IR version, an opset and at least one output; fetch or export it again."
        raise SourceError(f"{path.name} is not an ONNX model", hint=hint)
    external_files(model, path)
    if with_data:
        onnx.load_external_data_for_model(model, str(path.parent))
    return model


def tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Every tensor that is stored in the graph: initializers, attributes, and those of inner graphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == AttributeProto.TENSORS:
                yield from attribute.tensors
            for inner in inner_graphs(attribute):
                yield from tensors(inner)


def nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in inner_graphs(attribute):
                yield from nodes(inner)


def inner_graphs(attribute: AttributeProto) -> Iterator[GraphProto]:
    if attribute.type == AttributeProto.GRAPH:
        yield attribute.g
    elif attribute.type == AttributeProto.GRAPHS:
        yield from attribute.graphs


def external_files(model: ModelProto, path: Path) -> list[str]:
    """Names of the external data files, each proved to be whole and inside the model's own folder."""
    home = path.parent.resolve()
    needed: dict[str, int] = {}
    for tensor in tensors(model.graph):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        pure = PurePosixPath(location.replace("\\", "/"))
        outside = pure.is_absolute() or ".." in pure.parts or ":" in location
        if not location or outside or not (home / pure).resolve().is_relative_to(home):
            hint = "External data must lie beside the model; save the model again with a relative location."
            raise SourceError(
                f"{path.name}: tensor {tensor.name!r} points outside the model's folder ({location!r})", hint=hint
            )
        try:
            end = int(entries.get("offset", 0)) + int(entries.get("length", 0))
        except ValueError:
            raise SourceError(f"{path.name}: tensor {tensor.name!r} has a damaged external data entry") from None
        needed[location] = max(needed.get(location, 0), end)
    for location, end in needed.items():
        file = home / location
        hint = f"Fetch {location} again; it belongs beside {path.name}."
        if not file.is_file():
            raise SourceError(f"{path.name}: its external data {location!r} is missing", hint=hint)
        if file.stat().st_size < end:
            message = f"{path.name}: its external data {location!r} is truncated ({file.stat().st_size} of {end} bytes)"
            raise SourceError(message, hint=hint)
    return sorted(needed)


def stage_onnx(source: str, folder: str) -> dict[str, Any]:
    """Copy a model and its external data into `folder`; from here on only the copy is read."""
    origin, target = Path(source), Path(folder)
    names = external_files(load(origin, with_data=False), origin)
    target.mkdir(parents=True, exist_ok=True)
    files = [_copy(origin, target / "model.onnx")]
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        files.append(_copy(origin.parent / name, target / name))
    staged = target / "model.onnx"
    return {"path": str(staged), "files": files} | describe(load(staged, with_data=False))


def _copy(source: Path, target: Path) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as reader, target.open("wb") as writer:
        while block := reader.read(1 << 20):
            digest.update(block)
            size += writer.write(block)
    return {"name": source.name, "sha256": digest.hexdigest(), "size_bytes": size}


def describe(model: ModelProto) -> dict[str, Any]:
    opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    return {"opset": opsets.get("ai.onnx", max(opsets.values())), "opsets": opsets, "precision": precision(model)}


def precision(model: ModelProto) -> str:
    """By what most of the weights are, unless quantized operators say otherwise."""
    kinds = {node.op_type for node in nodes(model.graph)}
    if any(kind.endswith("NBits") for kind in kinds):
        return "int4"
    if kinds & _QUANTIZED or any(kind.startswith("QLinear") for kind in kinds):
        return "int8"
    weight: Counter[str] = Counter()
    for tensor in tensors(model.graph):
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
    file = Path(path)
    model = load(file, with_data=False)
    external = external_files(model, file)
    operators = Counter((node.domain or "ai.onnx", node.op_type) for node in nodes(model.graph))
    initializers = {tensor.name for tensor in model.graph.initializer}
    return {
        "ir_version": model.ir_version,
        "opsets": {entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
        "producer": " ".join(part for part in (model.producer_name, model.producer_version) if part),
        "inputs": [value for value in inspect_values(model.graph.input) if value["name"] not in initializers],
        "outputs": inspect_values(model.graph.output),
        "operators": [
            {"domain": domain, "operator": kind, "count": count}
            for (domain, kind), count in sorted(operators.items(), key=lambda item: (-item[1], item[0]))
        ],
        "parameters": sum(_elements(tensor) for tensor in tensors(model.graph)),
        "precision": precision(model),
        "portability": portability(model),
        "size_bytes": sum(item.stat().st_size for item in (file, *(file.parent / name for name in external))),
        "external_data": external,
    }


def portability(model: ModelProto) -> str:
    domains = {node.domain for node in nodes(model.graph)}
    kinds = {node.op_type for node in nodes(model.graph)}
    if "EPContext" in kinds:
        return "this-device"
    if "com.microsoft.nchwc" in domains:
        return "cpu:nchwc"
    own = {function.domain for function in model.functions}
    other = domains - {"", "ai.onnx", "ai.onnx.ml"} - own
    if all(domain.startswith(("com.microsoft", "ai.onnx")) for domain in other):
        return "ort-only" if other else "any"
    return "custom:" + ",".join(sorted(domain for domain in other if not domain.startswith("com.microsoft")))


def inspect_values(values: Iterable[onnx.ValueInfoProto]) -> list[dict[str, Any]]:
    return [_value(value) for value in values]


def _value(value: onnx.ValueInfoProto) -> dict[str, Any]:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return {"name": value.name, "dtype": (kind or "unknown").removesuffix("_type"), "shape": None}
    tensor = value.type.tensor_type
    return {"name": value.name, "dtype": dtype_name(tensor.elem_type), "shape": shape_of(tensor)}


def dtype_name(element: int) -> str:
    name: str = TensorProto.DataType.Name(element).lower() if element in TensorProto.DataType.values() else "unknown"
    return {"float": "float32", "double": "float64"}.get(name, name)


def shape_of(tensor: onnx.TypeProto.Tensor) -> list[int | str | None] | None:
    if not tensor.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim]


def clean(model: ModelProto) -> None:
    """Take out what depends on the machine that made the file: stack traces, and domains no node uses."""
    for node in nodes(model.graph):
        node.doc_string = ""
        del node.metadata_props[:]
    for function in model.functions:
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    used = {node.domain for node in nodes(model.graph)} | {
        domain for function in model.functions for domain in (function.domain, *(node.domain for node in function.node))
    }
    kept = [entry for entry in model.opset_import if entry.domain in used or not entry.domain]
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
        shutil.copyfile(origin, destination)
    else:
        onnx.load_external_data_for_model(model, str(origin.parent))
        if not verbatim:
            clean(model)
        save(model, destination)
    written = [destination, destination.with_name(destination.name + DATA_SUFFIX)]
    size = sum(file.stat().st_size for file in written if file.exists())
    return describe(model) | {"size_bytes": size, "portability": portability(model)}


def save(model: ModelProto, path: Path) -> None:
    if sum(len(tensor.raw_data) for tensor in tensors(model.graph)) <= EXTERNAL_OVER_BYTES:
        try:
            path.write_bytes(model.SerializeToString(deterministic=True))
        except (EncodeError, ValueError):
            pass  # over 2 GiB in fields that were not counted
        else:
            return
    # onnx refuses to save elsewhere when the working directory has a file of the data's name
    previous = Path.cwd()
    os.chdir(path.parent)
    try:
        onnx.save_model(
            model, str(path), save_as_external_data=True, location=path.name + DATA_SUFFIX, size_threshold=1024
        )
    finally:
        os.chdir(previous)
