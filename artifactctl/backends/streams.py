"""Models that are larger than memory should be: their tensors go from file to file, a block at a time."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from onnx import ModelProto, TensorProto

from artifactctl.backends import graph
from artifactctl.backends.external import external_files
from artifactctl.backends.tensors import BLOCK_BYTES, blocks
from artifactctl.copies import clone

INSIDE_BYTES = 1024  # what is smaller stays in the model: shapes and limits that others must be able to read
ALIGNED_BYTES = 64  # where a tensor begins: runtimes compute with it where it lies


def save(model: ModelProto, home: Path, path: Path) -> None:
    """One file with the graph and one with the tensors, in their order; `home` has the model's external data, which may
    be the file that is written anew."""
    data = path.with_name(path.name + graph.DATA_SUFFIX)
    part = data.with_name(data.name + ".part")
    with part.open("wb") as writer:
        for tensor in graph.tensors(model):
            external = tensor.data_location == TensorProto.EXTERNAL
            size = sum(map(len, blocks(tensor, home))) if external else len(tensor.raw_data)
            if size < INSIDE_BYTES:
                if external:
                    bring_in(tensor, home)
                continue
            writer.write(bytes(-writer.tell() % ALIGNED_BYTES))
            offset = writer.tell()
            for block in blocks(tensor, home):
                writer.write(block)
            _point(tensor, data.name, offset, size)
    part.replace(data)
    path.write_bytes(model.SerializeToString(deterministic=True))


def lay_out(path: Path, place: Path, over_bytes: int) -> Path:
    """The file; or, where it is itself over a size, one in `place` with its data beside it. To read such a file takes
    twice its size, to write it five times."""
    if path.stat().st_size <= over_bytes:
        return path
    place.mkdir(parents=True)
    save(graph.load(path, with_data=False), path.parent, place / path.name)
    return place / path.name


def bring_in(tensor: TensorProto, home: Path) -> None:
    """External data into the model."""
    raw = b"".join(blocks(tensor, home))
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    tensor.raw_data = raw


def _point(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    tensor.ClearField("raw_data")
    tensor.ClearField("external_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=str(value))


def stage_onnx(source: str, folder: str) -> dict[str, Any]:
    """Copy a model and its external data into `folder`; from here on only the copy is read."""
    origin, target = Path(source), Path(folder)
    names = external_files(graph.load(origin, with_data=False), origin)
    target.mkdir(parents=True, exist_ok=True)
    staged = target / origin.name  # its own name: external data may be called model.onnx
    files = [_copy(origin, staged, origin.name)]
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        files.append(_copy(origin.parent / name, target / name, name))
    return {"path": str(staged), "files": files} | graph.describe(graph.load(staged, with_data=False))


def _copy(source: Path, target: Path, name: str) -> dict[str, Any]:
    """The digest is that of the copy, whatever becomes of the source meanwhile."""
    digest, size = hashlib.sha256(), 0
    cloned = clone(source, target)
    with (target if cloned else source).open("rb") as reader, target.open("ab") as writer:
        while block := reader.read(BLOCK_BYTES):
            digest.update(block)
            size += len(block) if cloned else writer.write(block)
    return {"name": name, "sha256": digest.hexdigest(), "size_bytes": size}
