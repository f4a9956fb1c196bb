"""The bytes of a tensor, wherever they are stored: as they would lie in raw_data, little-endian, a block at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from artifactctl.backends.external import stored_bytes
from artifactctl.errors import SourceError

BLOCK_BYTES = 1 << 20
_CONSTANTS: dict[str, tuple[int, str, bool]] = {  # attribute -> type, field, whether it is a list
    "value_float": (TensorProto.FLOAT, "f", False),
    "value_floats": (TensorProto.FLOAT, "floats", True),
    "value_int": (TensorProto.INT64, "i", False),
    "value_ints": (TensorProto.INT64, "ints", True),
    "value_string": (TensorProto.STRING, "s", False),
    "value_strings": (TensorProto.STRING, "strings", True),
}


class Digests:
    """sha256 by tensor, each computed once; `home` is the folder of the model."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[int, tuple[TensorProto, str]] = {}  # the tensor is kept, so that its id stays its own

    def of(self, tensor: TensorProto) -> str:
        if id(tensor) not in self._known:
            digest = hashlib.sha256()
            for block in blocks(tensor, self._home):
                digest.update(block)
            self._known[id(tensor)] = tensor, digest.hexdigest()
        return self._known[id(tensor)][1]


def blocks(tensor: TensorProto, home: Path, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """What lies in another file is read from there by offset, `size` bytes at a time."""
    if tensor.data_location == TensorProto.EXTERNAL:
        yield from _external_blocks(tensor, home, size)
        return
    if tensor.data_type == TensorProto.STRING:
        yield from (len(word).to_bytes(8, "little") + word for word in tensor.string_data)
        return
    raw = tensor.raw_data if tensor.HasField("raw_data") else _packed(tensor)
    _demand_length(tensor, len(raw))
    view = memoryview(raw)
    yield from (bytes(view[start : start + size]) for start in range(0, len(raw), size))


def _external_blocks(tensor: TensorProto, home: Path, size: int) -> Iterator[bytes]:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    left = int(entries["length"]) if "length" in entries else stored_bytes(tensor) or 0
    _demand_length(tensor, left)
    with (home / entries["location"]).open("rb") as file:
        file.seek(int(entries.get("offset", 0)))
        while left:
            block = file.read(min(size, left))
            if not block:
                raise SourceError(f"the external data of {tensor.name!r} ended early", hint="Fetch the model again.")
            left -= len(block)
            yield block


def _packed(tensor: TensorProto) -> bytes:
    """Of numbers that stand in a typed field."""
    try:
        packed: bytes = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
    except (ValueError, TypeError, KeyError) as error:
        message = f"tensor {tensor.name!r} cannot be read ({error})"
        raise SourceError(message, hint="The model is damaged; fetch or export it again.") from None
    return packed


def _demand_length(tensor: TensorProto, length: int) -> None:
    needed = stored_bytes(tensor)
    if needed is not None and needed != length:
        message = f"tensor {tensor.name!r} has {length} bytes, where its shape needs {needed}"
        raise SourceError(message, hint="The model is damaged; fetch or export it again.")


def constant_of(node: NodeProto) -> TensorProto | None:
    """What a Constant holds, as a tensor: a weight that stands among the nodes."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            return None  # what it holds is said where the function is called
        if attribute.name == "value" and attribute.type == AttributeProto.TENSOR:
            held: TensorProto = attribute.t
            return held
        if attribute.name in _CONSTANTS:
            kind, field, many = _CONSTANTS[attribute.name]
            found = list(getattr(attribute, field)) if many else [getattr(attribute, field)]
            return helper.make_tensor("", kind, [len(found)] if many else [], found)
    return None


def listed_as_inputs(model: ModelProto) -> list[TensorProto]:
    """Weights that are inputs too, as old exporters write them: a caller may pass others."""
    names = {value.name for value in model.graph.input}
    return [tensor for tensor in model.graph.initializer if tensor.name in names]
