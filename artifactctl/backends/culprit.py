"""Where two files of one model part ways: the first node whose value leaves the bound."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import EncodeError

from artifactctl.backends import core, graph, streams
from artifactctl.backends.proof import read_sample

CHUNK_BYTES = 200_000_000  # of values that one session exposes
UNKNOWN_BYTES = 500_000  # a value whose shape cannot be inferred counts as this
ATTEMPTS = 12  # sessions of one file; each value that cannot be exposed costs some
FLOATS = {"tensor(float16)": np.float16, "tensor(float)": np.float32, "tensor(double)": np.float64}

Array = np.ndarray[Any, Any]


def first_departure(
    good: str, bad: str, sample: str, settings: dict[str, Any], bounds: dict[str, Any]
) -> dict[str, Any] | None:
    """The first node of `bad`, in its order, with a value that `good` has under the same name, and not so.

    None when no common value leaves the bound, or when nothing could be compared.
    """
    feeds, limit = read_sample(Path(sample))["inputs"], bounds["default"].get("max_abs") or 1e-3
    with tempfile.TemporaryDirectory(dir=Path(bad).parent) as folder:
        first, second = (
            streams.lay_out(Path(file), Path(folder) / place, graph.EXTERNAL_OVER_BYTES)
            for file, place in ((good, "one"), (bad, "other"))
        )
        one, other = graph.load_light(first), graph.load_light(second)
        made, sizes = {name for node in one.graph.node for name in node.output}, sizes_of(one, feeds)
        values = [name for node in other.graph.node for name in node.output if name]
        common = [name for name in values if name in made and sizes.get(name, 1)]
        maker = {name: node for node in other.graph.node for name in node.output}
        left = Exposed(one, first, Path(folder) / "good", core.as_written(settings), feeds)
        right = Exposed(other, second, Path(folder) / "bad", settings, feeds)
        for names in chunks(common, sizes):
            expected, found = left.values(names), right.values(names)
            for name in names:
                if name in expected and name in found:
                    error, node = _distance(expected[name], found[name]), maker[name]
                    if not error <= (limit if expected[name].dtype.kind == "f" else 0):
                        known = error if math.isfinite(error) else None
                        return {"operator": node.op_type, "node": node.name, "output": name, "error": known}
    return None


class Exposed:
    """A model that was read from `origin`, with its data or without, any of whose values can be asked for; `place` is
    a folder of its own, which is made."""

    def __init__(
        self, model: onnx.ModelProto, origin: Path, place: Path, settings: dict[str, Any], feeds: dict[str, Any]
    ) -> None:
        self._model, self._origin, self._file = model, origin, place / "exposed.onnx"
        self._settings, self._feeds = settings, feeds
        place.mkdir(parents=True)
        self._attempts = ATTEMPTS
        self._sound: bool | None = None

    def values(self, names: list[str]) -> dict[str, Array]:
        """Of `names` those that are tensors and can be exposed; what prevents the rest is found by halving."""
        if not names or not self._attempts:
            return {}
        self._attempts -= 1
        try:
            return self._run(names)
        except (*core.runtime_errors(), core.Failure):
            if len(names) == 1 or not self._runs():
                return {}
            half = len(names) // 2
            return self.values(names[:half]) | self.values(names[half:])

    def _runs(self) -> bool:
        """Asked once: of a file that cannot be run as it is no value can be had."""
        if self._sound is None:
            try:
                self._sound = self._run([]) == {}
            except (*core.runtime_errors(), core.Failure):
                self._sound, self._attempts = False, 0
        return self._sound

    def _run(self, names: list[str]) -> dict[str, Array]:
        outputs = self._model.graph.output
        before = len(outputs)
        present = {value.name for value in outputs}
        outputs.extend(onnx.ValueInfoProto(name=name) for name in names if name not in present)
        try:
            graph.save_beside(self._model, self._origin, self._file)
        finally:
            del outputs[before:]
        session = core.open_session(self._file, self._settings)
        found: dict[str, Array] = core.run(session, self._suited(session))
        wanted = set(names)
        leaves = {name.removesuffix(".bfloat16"): value for name, value in found.items()}
        return {name: value for name, value in leaves.items() if name in wanted}

    def _suited(self, session: Any) -> dict[str, Any]:
        """The sample in the types that this file takes: a pass may have narrowed the inputs too."""
        feeds = {}
        for taken in session.get_inputs():
            value = self._feeds.get(taken.name)
            if taken.type in FLOATS and value is not None and value.dtype.kind == "f":
                value = value.astype(FLOATS[taken.type])
            if value is not None:
                feeds[taken.name] = value
        return feeds


def chunks(names: list[str], sizes: dict[str, int]) -> Iterator[list[str]]:
    chunk: list[str] = []
    filled = 0
    for name in names:
        size = sizes.get(name, UNKNOWN_BYTES)
        if chunk and filled + size > CHUNK_BYTES:
            yield chunk
            chunk, filled = [], 0
        chunk.append(name)
        filled += size
    if chunk:
        yield chunk


def sizes_of(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, int]:
    """Bytes of the values whose shape can be inferred for these inputs; 0 for what is no tensor."""
    shaped = onnx.ModelProto()
    shaped.CopyFrom(model)
    for value in shaped.graph.input:
        if isinstance(feed := feeds.get(value.name), np.ndarray) and value.type.tensor_type.HasField("shape"):
            for dim, size in zip(value.type.tensor_type.shape.dim, feed.shape, strict=False):
                dim.dim_value = size
    del shaped.graph.value_info[:]  # written for other shapes
    try:
        inferred = onnx.shape_inference.infer_shapes(shaped)
    except (onnx.shape_inference.InferenceError, EncodeError, ValueError, RuntimeError):
        return {}
    sizes = {}
    for value in (*inferred.graph.value_info, *inferred.graph.output):
        if value.type.WhichOneof("value") not in {None, "tensor_type"}:
            sizes[value.name] = 0
        elif (shape := graph.shape_of(value.type.tensor_type)) is not None and value.type.tensor_type.elem_type:
            item = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize
            known = [size for size in shape if isinstance(size, int)]
            if len(known) == len(shape):
                sizes[value.name] = max(1, item * math.prod(known))
    return sizes


def _distance(reference: Array, candidate: Array) -> float:
    """The contract's measure over types of any width; infinite where there is no number for it."""
    if reference.shape != candidate.shape:
        return math.inf
    if reference.dtype.kind not in "biuf" or candidate.dtype.kind not in "biuf":
        return 0.0 if np.array_equal(reference, candidate) else math.inf
    if reference.dtype.kind != "f" and candidate.dtype.kind != "f":
        unequal = reference != candidate
        gap = np.abs(reference[unequal].astype(np.float64) - candidate[unequal].astype(np.float64))
        return float(np.maximum(1.0, gap).max(initial=0.0))
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    finite = np.isfinite(r)
    if not np.array_equal(finite, np.isfinite(c)) or not np.array_equal(r[~finite], c[~finite], equal_nan=True):
        return math.inf
    if not finite.all():
        r, c = r[finite], c[finite]
    c -= r
    np.abs(c, out=c)
    c /= np.maximum(1.0, np.abs(r))
    return float(c.max(initial=0.0))
