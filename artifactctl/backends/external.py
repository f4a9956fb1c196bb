"""External data: whole, beside the model, and nowhere else."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath

import onnx
from onnx import ModelProto, TensorProto

from artifactctl.backends import graph
from artifactctl.errors import SourceError

_SHARING = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}  # bits of an element


def external_files(model: ModelProto, path: Path) -> list[str]:
    """Names of the external data files, each proved to be whole and inside the model's own folder."""
    home = path.parent.resolve()
    needed: dict[str, int] = {}
    for tensor in graph.tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if not _inside(home, location):
            hint = "External data must lie beside the model; save the model again with a relative location."
            shown = str(location)[:200]
            raise SourceError(
                f"{path.name}: tensor {tensor.name!r} points outside the model's folder ({shown!r})", hint=hint
            )
        needed[location] = max(needed.get(location, 0), _end(tensor, entries, path))
    for location, end in needed.items():
        file = home / location
        hint = f"Fetch {location} again; it belongs beside {path.name}."
        if not file.is_file():
            raise SourceError(f"{path.name}: its external data {location!r} is missing", hint=hint)
        if file.stat().st_size < end:
            message = f"{path.name}: its external data {location!r} is truncated ({file.stat().st_size} of {end} bytes)"
            raise SourceError(message, hint=hint)
    return sorted(needed)


def _inside(home: Path, location: str | bytes) -> bool:
    """A relative name of something below the folder; what the system cannot even look at is not."""
    if not isinstance(location, str) or not location or "\0" in location or ":" in location:
        return False
    pure = PurePosixPath(location.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts:
        return False
    try:
        (home / pure).is_file()
        return (home / pure).resolve().is_relative_to(home)
    except (OSError, RuntimeError):  # a name too long, a link to itself
        return False


def _end(tensor: TensorProto, entries: dict[str, str], path: Path) -> int:
    """The first byte after the tensor; its size by its shape where no length is given."""
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries["length"]) if "length" in entries else stored_bytes(tensor) or 0
    except ValueError:
        offset = length = -1
    if offset < 0 or length < 0:
        message = f"{path.name}: tensor {tensor.name!r} has a damaged external data entry"
        raise SourceError(message, hint="Save or fetch the model again.")
    return offset + length


def stored_bytes(tensor: TensorProto) -> int | None:
    """What the shape needs; small kinds share bytes. None where the type does not say."""
    name = TensorProto.DataType.Name(tensor.data_type) if tensor.data_type in TensorProto.DataType.values() else ""
    if name in _SHARING:
        return -(-int(math.prod(tensor.dims)) * _SHARING[name] // 8)
    try:
        each = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (KeyError, TypeError):
        return None
    return None if each.hasobject or name.startswith("FLOAT6") else int(math.prod(tensor.dims)) * int(each.itemsize)


def stored_size(model: ModelProto) -> int:
    """Bytes of all tensors, wherever they lie."""
    return sum(
        stored_bytes(tensor) or 0 if tensor.data_location == TensorProto.EXTERNAL else len(tensor.raw_data)
        for tensor in graph.tensors(model)
    )


def load_external(model: ModelProto, path: Path) -> None:
    external_files(model, path)
    for tensor in graph.tensors(model):
        # without a length onnx reads to the end of the file, where ONNX Runtime reads what the shape needs
        if tensor.data_location == TensorProto.EXTERNAL and not any(
            entry.key == "length" for entry in tensor.external_data
        ):
            tensor.external_data.add(key="length", value=str(stored_bytes(tensor) or 0))
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (onnx.checker.ValidationError, ValueError, OSError) as error:
        hint = "External data must be plain files beside the model: no links."
        raise SourceError(f"{path.name}: its external data cannot be read ({error})", hint=hint) from None
