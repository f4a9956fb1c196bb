"""Which inputs a model is tried on: a plan taken from its graph, checked against the model itself."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import onnx

from artifactctl.backends import core, graph
from artifactctl.backends.consumers import Consumers, describe_input
from artifactctl.errors import ConfigError, SourceError

KINDS = ("normal", "uniform", "normal", "uniform", "wide")
OTHER_KINDS = ("positive", "negative", "tiny", "pixels", "ones", "zeros", "wide", "normal", "uniform")
SIZES = (1, 2, 8, 16, 32, 48, 64, 128, 224, 256, 512, 576, 1024, 4096, 16000)
BATCHES = (3, 4, 2)
CHUNK = 64
_NUMPY = {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
_NUMPY |= {"bool", "string", "complex64", "complex128"}
_ANONYMOUS = re.compile(r"(unk__\d+|\?|-1|p2o\.DynamicDimension\.\d+|)\Z")

Array = np.ndarray[Any, Any]


def plan_inputs(
    path: str, declared: dict[str, Any], settings: dict[str, Any], seed: int, probe: bool
) -> dict[str, Any]:
    """A plan of input sets. With `probe` the model decides which sizes are in its domain; else the framework will."""
    file = Path(path)
    model = graph.load(file)
    inputs, batch = _inputs(model, declared, Consumers(model))
    session = _open(file, settings)
    plan: dict[str, Any] = {
        "inputs": inputs,
        "seed": seed,
        "sets": [],
        "batched": False,
        "outside": [],
        "branches": [],
    }
    base = _base_dims(session, plan, batch)
    plan["sets"] = [{"kind": kind, "dims": base} for kind in KINDS]
    for sizes in _larger(base, batch):
        larger = [{"kind": kind, "dims": sizes} for kind in KINDS]
        refused = _refusal(session, plan | {"sets": larger[:1]}) if probe else None
        if refused is None:
            plan["sets"] += larger
            plan["batched"] = True
            break
        plan["outside"].append({"dims": sizes, "message": refused})
    for symbol in [symbol for symbol in base if symbol not in batch]:
        sizes = base | {symbol: base[symbol] + 3}
        refused = _refusal(session, plan | {"sets": [{"kind": "normal", "dims": sizes}]}) if probe else None
        if refused is None:
            plan["sets"] += [{"kind": kind, "dims": sizes} for kind in ("normal", "uniform")]
        else:
            plan["outside"].append({"dims": sizes, "message": refused})
    if not inputs:
        plan["sets"] = plan["sets"][:1]
        return plan
    _cover(model, file, settings, plan, list(_guesses(plan, sorted(base), batch)))
    return plan


def _open(file: Path, settings: dict[str, Any]) -> Any:
    try:
        return core.open_session(file, settings)
    except core.runtime_errors() as error:
        message = str(error)
        hint = "Run 'artifactctl inspect FILE' to see what can be read of the model."
        if "IR version" in message or "opset" in message.lower():
            hint = "The model is newer than this ONNX Runtime; export it with an older opset, or upgrade onnxruntime."
        raise SourceError(f"ONNX Runtime cannot load the model: {message}", hint=hint) from None


def _inputs(
    model: onnx.ModelProto, declared: dict[str, Any], consumers: Consumers
) -> tuple[list[dict[str, Any]], set[str]]:
    stored = {tensor.name for tensor in model.graph.initializer}
    described, batch = [], set()
    for value in graph.inspect_values(model.graph.input):
        name = value["name"]
        if name in stored:
            continue
        if value["dtype"] not in _NUMPY:
            hint = "Wrap the model so that its inputs are tensors of ordinary types."
            raise SourceError(f"input {name!r} is of type {value['dtype']}, which cannot be made up", hint=hint)
        if name in declared:
            value["shape"] = declared[name]["shape"]
        shape: list[int | str] = []
        for axis, size in enumerate(value["shape"] or []):
            if isinstance(size, int) and size >= 0:
                shape.append(size)
                continue
            anonymous = not isinstance(size, str) or bool(_ANONYMOUS.match(size))
            symbol = ("batch?" if axis == 0 else f"{name}:{axis}") if anonymous else str(size)
            if axis == 0:
                batch.add(symbol)
            shape.append(symbol)
        value["shape"] = shape
        described.append(value | describe_input(value, consumers))
    return described, batch


def _base_dims(session: Any, plan: dict[str, Any], batch: set[str]) -> dict[str, int]:
    """Sizes at which the model runs: first by what the shapes look like, then one size for all, then one by one."""
    symbols = sorted({size for spec in plan["inputs"] for size in spec["shape"] if isinstance(size, str)})
    message = ""
    for narrow in (False, True):
        if narrow:
            _narrow(plan)
        for dims in _guesses(plan, symbols, batch):
            message = _refusal(session, plan | {"sets": [{"kind": "normal", "dims": dims}]}) or ""
            if not message:
                return dims
    hint = (
        "No made-up input fits. Give real ones in artifactctl.yaml: data: {samples: FILE.npz}, "
        "and their sizes: source: {onnx: FILE, inputs: {NAME: {shape: […], dtype: …}}}."
    )
    raise SourceError(f"the model refuses every input that was tried; the last reason: {message}", hint=hint)


def _guesses(plan: dict[str, Any], symbols: list[str], batch: set[str]) -> Iterator[dict[str, int]]:
    if not symbols:
        yield {}
        return
    likely = {}
    for spec in plan["inputs"]:
        image = len(spec["shape"]) == 4 and spec["fill"] in ("float", "range")
        for size in spec["shape"]:
            if isinstance(size, str):
                likely[size] = 1 if size in batch else 64 if image else 16
    yield likely
    for size in SIZES:
        yield {symbol: 1 if symbol in batch else size for symbol in symbols}
    free = [symbol for symbol in symbols if symbol not in batch]
    if len(free) > 1:
        for symbol in free:
            for size in SIZES[2:]:
                yield {other: size if other == symbol else 1 for other in symbols}
    for size in SIZES[1:6]:
        yield dict.fromkeys(symbols, size)


def _narrow(plan: dict[str, Any]) -> None:
    """Integers whose range is only a guess become 0 or 1: sizes, counts and flags accept that more often."""
    for spec in plan["inputs"]:
        if spec["fill"] == "range" and spec["why"] == "integers":
            spec |= {"range": [0, 1], "why": "integers; larger ones were refused"}


def _larger(base: dict[str, int], batch: set[str]) -> Iterator[dict[str, int]]:
    """Larger batches; sizes of 1 elsewhere may be the same batch under another name."""
    if not batch:
        return
    for size in BATCHES:
        yield base | dict.fromkeys(batch, size)
    for size in BATCHES:
        yield base | {symbol: size for symbol in base if symbol in batch or base[symbol] == 1}


def _refusal(session: Any, plan: dict[str, Any]) -> str | None:
    try:
        core.run(session, core.make_inputs(plan, [plan["seed"]], 0))
    except core.runtime_errors() as error:
        return str(error)
    return None


def _cover(
    model: onnx.ModelProto, file: Path, settings: dict[str, Any], plan: dict[str, Any], guesses: list[dict[str, int]]
) -> None:
    """Add sets until both sides of every outer If are taken and every output varies, or nothing helps."""
    made = {name for node in model.graph.node for name in node.output} | {value.name for value in model.graph.input}
    conditions = [node.input[0] for node in model.graph.node if node.op_type == "If" and node.input[0] in made]
    shown = Shown(_watch(model, file, conditions, settings) if conditions else _open(file, settings), conditions)
    for index in range(len(plan["sets"])):
        shown.look(plan, index)
    base = plan["sets"][0]["dims"]
    more = [{"kind": kind, "dims": base} for kind in (*OTHER_KINDS, *OTHER_KINDS)]
    for extra in more:
        if shown.enough:
            break
        plan["sets"].append(extra)
        if not shown.look(plan, len(plan["sets"]) - 1):
            plan["sets"].pop()
    for dims in guesses if not shown.branches_enough else []:
        plan["sets"].append({"kind": "normal", "dims": dims})
        if not shown.look(plan, len(plan["sets"]) - 1):
            plan["sets"].pop()
    plan["branches"] = [{"condition": name, "taken": sorted(sides)} for name, sides in shown.taken.items()]


class Shown:
    """What the samples so far have shown: sides of branches, and outputs that are not constant."""

    def __init__(self, session: Any, conditions: list[str]) -> None:
        self._session = session
        self.taken: dict[str, set[bool]] = {name: set() for name in conditions}
        self._comparison = core.Comparison()

    def look(self, plan: dict[str, Any], index: int) -> bool:
        """Run one set; True when it showed something new."""
        try:
            leaves = core.run(self._session, core.make_inputs(plan, [plan["seed"]], index))
        except core.runtime_errors():
            return False
        before = self._score()
        for name, sides in self.taken.items():
            sides.add(bool(np.asarray(leaves.pop(name)).reshape(-1)[0]))
        self._comparison.add(leaves, leaves)
        return before != self._score()

    def _score(self) -> tuple[int, int]:
        return sum(map(len, self.taken.values())), sum(tally.varies for tally in self._comparison.tallies.values())

    @property
    def branches_enough(self) -> bool:
        return all(len(sides) == 2 for sides in self.taken.values())

    @property
    def enough(self) -> bool:
        return self.branches_enough and all(tally.varies for tally in self._comparison.tallies.values())


def _watch(model: onnx.ModelProto, file: Path, conditions: list[str], settings: dict[str, Any]) -> Any:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    present = {value.name for value in watched.graph.output}
    for name in dict.fromkeys(conditions):
        if name not in present:
            watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, None))
    path = file.with_name("watched.onnx")
    graph.save(watched, path)
    return _open(path, settings)


def write_samples(plan: dict[str, Any], folder: str, samples: str | None, labels: str | None) -> list[dict[str, Any]]:
    """One .npz a set: the user's data first, then the planned sets."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []

    def keep(origin: str, feeds: dict[str, Array], more: dict[str, Any], truth: Array | None = None) -> None:
        number = f"{len(entries):05d}"
        arrays = {f"{number}/inputs/{quote(name, safe='')}": array for name, array in feeds.items()}
        if truth is not None:
            arrays[f"{number}/labels/"] = truth
        write_npz(target / f"{number}.npz", arrays)
        batched = plan["batched"] or origin == "data"
        entries.append({"set": number, "origin": origin, "rows": core.rows(feeds, batched)} | more)

    if samples:
        for feeds, truth in read_data(plan, Path(samples), Path(labels) if labels else None):
            keep("data", feeds, {}, truth)
    for index, chosen in enumerate(plan["sets"]):
        keep("seeded", core.make_inputs(plan, [plan["seed"]], index), chosen)
    return entries


def read_data(
    plan: dict[str, Any], samples: Path, labels: Path | None
) -> Iterator[tuple[dict[str, Array], Array | None]]:
    """The user's samples in chunks that the model takes; a shape or dtype that does not fit is a ConfigError."""
    arrays = _load_arrays(samples)
    names = [spec["name"] for spec in plan["inputs"]]
    if sorted(arrays) != sorted(names):
        raise ConfigError(
            f"{samples.name} has arrays {sorted(arrays)}, but the model's inputs are {sorted(names)}",
            hint="Save one array for each input: numpy.savez(FILE, name=array, …), first axis = sample.",
        )
    counts = {name: len(array) for name, array in arrays.items() if array.ndim}
    if len(counts) != len(arrays) or len(set(counts.values())) != 1 or not min(counts.values(), default=0):
        raise ConfigError(f"{samples.name}: the first axis is the sample, and must be one length for all: {counts}")
    total = next(iter(counts.values()))
    truth = _load_labels(labels, total) if labels else None
    step = min(_fit(spec, arrays, samples.name) for spec in plan["inputs"])
    loose = all(arrays[spec["name"]].ndim == len(spec["shape"]) + 1 for spec in plan["inputs"])
    if not loose and step > 1 and not _free_batch(plan):
        total -= total % step
    for start in range(0, total, step):
        part = {name: array[start] if loose else array[start : start + step] for name, array in arrays.items()}
        part = {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in part.items()}
        yield part, None if truth is None else truth[start : start + step]


def _free_batch(plan: Mapping[str, Any]) -> bool:
    return all(spec["shape"] and isinstance(spec["shape"][0], str) for spec in plan["inputs"])


def _fit(spec: Mapping[str, Any], arrays: Mapping[str, Array], file: str) -> int:
    """How many samples of this array the model takes at once; a ConfigError where it takes none."""
    array, shape = arrays[spec["name"]], list(spec["shape"])
    kind = "string" if array.dtype.kind in "US" else str(array.dtype)
    if kind != spec["dtype"]:
        message = f"{file}: {spec['name']!r} is {kind}, but the model takes {spec['dtype']}"
        raise ConfigError(message, hint=f"Save it with array.astype({spec['dtype']!r}).")
    each = list(array.shape) if array.ndim == len(shape) else list(array.shape[1:])
    expected = shape if array.ndim == len(shape) else list(shape)
    body = slice(1, None) if array.ndim == len(shape) else slice(None)
    wrong = [
        (have, want)
        for have, want in zip(each[body], expected[body], strict=False)
        if isinstance(want, int) and have != want
    ]
    if array.ndim not in (len(shape), len(shape) + 1) or wrong:
        hint = "The first axis is the sample; the rest must be the model's input shape."
        raise ConfigError(
            f"{file}: {spec['name']!r} has shape {list(array.shape)}, but the model takes {shape}", hint=hint
        )
    if array.ndim == len(shape) + 1:
        return 1
    batch = shape[0] if shape else 1
    if isinstance(batch, int) and len(array) < batch:
        raise ConfigError(f"{file}: {spec['name']!r} has {len(array)} samples, but the model takes {batch} at once")
    return batch if isinstance(batch, int) else CHUNK


def _load_arrays(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError, EOFError) as error:
        hint = "Save it with numpy.savez(FILE, name=array, …); pickled objects are not read."
        raise ConfigError(f"{path.name} cannot be read as .npz: {error}", hint=hint) from None


def _load_labels(path: Path, total: int) -> Array:
    try:
        labels = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(
            f"{path.name} cannot be read as .npy: {error}", hint="Save it with numpy.save(FILE, array)."
        ) from None
    if labels.shape != (total,):
        raise ConfigError(f"{path.name} has shape {list(labels.shape)}, but there are {total} samples")
    return np.asarray(labels)


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """A .npz whose bytes depend on the arrays alone."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            stored = array.astype(str) if array.dtype == object else np.ascontiguousarray(array).reshape(array.shape)
            np.lib.format.write_array(buffer, stored, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, buffer.getvalue())
