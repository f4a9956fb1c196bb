"""Which inputs a model is tried on: a plan taken from its graph, checked against the model itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import onnx

from artifactctl.backends import core, graph
from artifactctl.backends.consumers import GUESSED, Consumers, describe_input
from artifactctl.backends.npz import write_npz
from artifactctl.backends.userdata import load_arrays, read_data
from artifactctl.errors import SourceError

KINDS = ("normal", "uniform", "normal", "uniform", "wide")
OTHER_KINDS = ("positive", "negative", "tiny", "pixels", "ones", "zeros", "wide", "normal", "uniform")
SIZES = (1, 2, 8, 16, 32, 48, 64, 128, 224, 256, 512, 576, 1024, 4096, 16000)
BATCHES = (3, 4, 2)
SECOND_SIZES = ((1, 3), (2, 0), (1, 8), (1, 16), (1, 32))  # times, plus
REDRAWS = 4  # a draw that is refused may only have been an unlucky one
TELLING = 1e-3  # outputs that differ by less cannot tell models apart
_NUMPY = {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
_NUMPY |= {"bool", "string", "complex64", "complex128"}
_ANONYMOUS = re.compile(r"(unk__\d+|\?|-1|p2o\.DynamicDimension\.\d+|)\Z")

Array = np.ndarray[Any, Any]


def plan_inputs(
    path: str, declared: dict[str, Any], settings: dict[str, Any], seed: int, probe: bool, samples: str | None
) -> dict[str, Any]:
    """A plan of input sets. With `probe` the model decides what is in its domain; else the framework will."""
    file = Path(path)
    model = graph.load(file)
    inputs, batch = _inputs(model, declared, Consumers(model))
    session = _open(file, settings)
    plan: dict[str, Any] = {"inputs": inputs, "seed": seed, "draws": 0, "sets": [], "batched": False}
    plan |= {"outside": [], "branches": [], "single_size": []}
    base = _base_dims(session, plan, batch, _data_dims(plan, samples), optional=samples is not None)
    if base is None:
        return plan  # only the user's own data fit
    judge = session if probe else None
    for kind in KINDS if inputs else KINDS[:1]:
        _add(plan, judge, kind, base)
    if inputs:
        _add_batches(plan, judge, base, batch)
        _add_sizes(plan, judge, base, batch)
        _cover(model, file, settings, plan, list(_guesses(plan, sorted(base), batch, {})))
    return plan


def _add(plan: dict[str, Any], judge: Any, kind: str, dims: dict[str, int]) -> bool:
    """Append a set; one that the judge refuses is drawn anew a few times, then recorded as outside the domain."""
    message = None
    for _ in range(REDRAWS):
        entry = {"kind": kind, "dims": dims, "draw": plan["draws"]}
        plan["draws"] += 1
        message = _refusal(judge, plan | {"sets": [entry]}) if judge else None
        if message is None:
            plan["sets"].append(entry)
            return True
    plan["outside"].append({"dims": dims, "message": str(message).splitlines()[0][:300]})
    return False


def _add_batches(plan: dict[str, Any], judge: Any, base: dict[str, int], batch: set[str]) -> None:
    for position, sizes in enumerate(_larger(base, batch)):
        if judge is None and position >= len(BATCHES):
            break
        if _add(plan, judge, KINDS[0], sizes):
            plan["batched"] = True
            first = judge is not None or position == 0
            for kind in KINDS[1:] if first else KINDS[1:2]:
                _add(plan, judge, kind, sizes)
            if judge is not None:
                break


def _add_sizes(plan: dict[str, Any], judge: Any, base: dict[str, int], batch: set[str]) -> None:
    """A second size of every other free dimension, alone or together with the rest; for a framework, every try."""
    free = [symbol for symbol in base if symbol not in batch]
    together = {symbol: {symbol: base[symbol]} for symbol in free}
    for symbol in free:
        tries = [base | {symbol: base[symbol] * times + more} for times, more in SECOND_SIZES]
        tries += [base | {other: base[other] * times + more for other in free} for times, more in SECOND_SIZES]
        for sizes in tries if len(free) > 1 else tries[: len(SECOND_SIZES)]:
            if _add(plan, judge, "normal", sizes) and judge is not None:
                _add(plan, judge, "uniform", sizes)
                del together[symbol]
                break
    if judge is not None:
        plan["single_size"] = sorted(together)


def _data_dims(plan: dict[str, Any], samples: str | None) -> dict[str, int]:
    """The sizes of the user's own data: the first guess."""
    arrays = load_arrays(Path(samples)) if samples else {}
    found: dict[str, int] = {}
    for spec in plan["inputs"]:
        array, rank = arrays.get(spec["name"]), len(spec["shape"])
        if array is not None and array.ndim in (rank, rank + 1):
            sizes = array.shape[1:] if array.ndim == rank + 1 else (1, *array.shape[1:])
            found |= {
                str(name): int(size) for name, size in zip(spec["shape"], sizes, strict=True) if isinstance(name, str)
            }
    return found


def _open(file: Path, settings: dict[str, Any]) -> Any:
    try:
        return core.open_session(file, settings)
    except core.runtime_errors() as error:
        message = str(error)
        hint = "Run 'artifactctl inspect FILE' to see what can be read of the model."
        if "No opset import for domain" in message or "is not a registered function/op" in message:
            hint = "It uses an operator that this ONNX Runtime does not have; replace it, or install what carries it."
        elif "IR version" in message or "opset" in message.lower():
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


def _base_dims(
    session: Any, plan: dict[str, Any], batch: set[str], data: dict[str, int], *, optional: bool
) -> dict[str, int] | None:
    """Sizes at which the model runs: by the data, by what the shapes look like, one size for all, then one by one."""
    symbols = sorted({size for spec in plan["inputs"] for size in spec["shape"] if isinstance(size, str)})
    message = ""
    for limit in (None, 9, 1):
        if limit is not None and not _narrow(plan, limit):
            break
        for dims in _guesses(plan, symbols, batch, data):
            for draw in range(REDRAWS):
                entry = {"kind": "normal", "dims": dims, "draw": draw}
                message = _refusal(session, plan | {"sets": [entry]}) or ""
                if not message:
                    return dims
    if optional:
        return None
    hint = (
        "No made-up input fits. Give real ones in artifactctl.yaml: data: {samples: FILE.npz}, "
        "and their sizes: source: {onnx: FILE, inputs: {NAME: {shape: […], dtype: …}}}."
    )
    raise SourceError(f"the model refuses every input that was tried; the last reason: {message}", hint=hint)


def _guesses(
    plan: dict[str, Any], symbols: list[str], batch: set[str], data: dict[str, int]
) -> Iterator[dict[str, int]]:
    if not symbols:
        yield {}
        return
    likely: dict[str, int] = {}
    for spec in plan["inputs"]:
        image = len(spec["shape"]) == 4 and spec["fill"] in ("float", "range")
        for size in spec["shape"]:
            if isinstance(size, str):
                likely[size] = 1 if size in batch else 64 if image else 16
    yield likely | data
    for size in SIZES:
        yield {symbol: 1 if symbol in batch else size for symbol in symbols}
    free = [symbol for symbol in symbols if symbol not in batch]
    if len(free) > 1:
        for symbol in free:
            for size in SIZES[2:]:
                yield {other: size if other == symbol else 1 for other in symbols}
    for size in SIZES[1:6]:
        yield dict.fromkeys(symbols, size)


def _narrow(plan: dict[str, Any], limit: int) -> bool:
    """Integers whose range is only a guess become smaller: sizes, counts and flags accept that more often."""
    guessed = [spec for spec in plan["inputs"] if spec["why"] == GUESSED]
    for spec in guessed:
        spec["range"] = [0, limit]
    return bool(guessed)


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
    more = [(kind, base) for kind in (*OTHER_KINDS, *OTHER_KINDS)]
    more += [("normal", dims) for dims in guesses]
    for kind, dims in more:
        if shown.enough:
            break
        plan["sets"].append({"kind": kind, "dims": dims, "draw": plan["draws"]})
        plan["draws"] += 1
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
        return self.run(core.make_inputs(plan, [plan["seed"]], index))

    def run(self, feeds: dict[str, Array]) -> bool:
        try:
            leaves = core.run(self._session, feeds)
        except core.runtime_errors():
            return False
        before = self._score()
        for name, sides in self.taken.items():
            sides.add(bool(np.asarray(leaves.pop(name)).reshape(-1)[0]))
        self._comparison.add(leaves, leaves)
        return before != self._score()

    def _score(self) -> tuple[int, int]:
        return sum(map(len, self.taken.values())), sum(not tally.vacuous(TELLING) for tally in self._tallies)

    @property
    def _tallies(self) -> list[Any]:
        return list(self._comparison.tallies.values())

    @property
    def enough(self) -> bool:
        taken = all(len(sides) == 2 for sides in self.taken.values())
        return taken and not any(tally.vacuous(TELLING) for tally in self._tallies)


def branches_taken(path: str, folder: str, settings: dict[str, Any], conditions: list[str]) -> list[dict[str, Any]]:
    """Which sides of the outer branches the samples take, the user's data included."""
    file = Path(path)
    shown = Shown(_watch(graph.load(file), file, conditions, settings), conditions)
    for sample in sorted(Path(folder).glob("*.npz")):
        shown.run(core.read_golden(sample)[0]["inputs"])
    return [{"condition": name, "taken": sorted(sides)} for name, sides in shown.taken.items()]


def _watch(model: onnx.ModelProto, file: Path, conditions: list[str], settings: dict[str, Any]) -> Any:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    present = {value.name for value in watched.graph.output}
    for name in dict.fromkeys(conditions):
        if name not in present:
            watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, None))
    path = file.parent.parent / "watched" / "model.onnx"
    path.parent.mkdir(exist_ok=True)
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
