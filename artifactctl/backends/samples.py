"""Which inputs a model is tried on: a plan taken from its graph, checked against the model itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from artifactctl.backends import core, graph
from artifactctl.backends.consumers import GUESSED, Consumers, describe_input
from artifactctl.backends.coverage import cover, open_judge
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.backends.userdata import load_arrays, read_data
from artifactctl.errors import ConfigError, SourceError

KINDS = ("normal", "uniform", "normal", "uniform", "wide")
SIZES = (1, 2, 8, 16, 32, 48, 64, 128, 224, 256, 512, 576, 1024, 4096, 16000)
BATCHES = (3, 4, 2)
SECOND_SIZES = ((1, 3), (2, 0), (1, 8), (1, 16), (1, 32))  # times, plus
REDRAWS = 4  # a draw that is refused may only have been an unlucky one
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
    session = open_judge(file, settings)
    plan: dict[str, Any] = {"inputs": inputs, "seed": seed, "draws": 0, "sets": [], "batched": False}
    plan |= {"outside": [], "branches": [], "unwatched_branches": 0, "single_size": []}
    base = _base_dims(session, plan, batch, _data_dims(plan, samples), optional=samples is not None)
    if base is None:
        return plan  # only the user's own data fit
    judge = session if probe else None
    for kind in KINDS if inputs else KINDS[:1]:
        _add(plan, judge, kind, base, draws=4 * REDRAWS)  # these must be found
    if inputs:
        _add_batches(plan, judge, base, batch)
        _add_sizes(plan, judge, base, batch)
        cover(model, file, settings, plan, list(_guesses(plan, sorted(base), batch, {})))
    return plan


def _add(plan: dict[str, Any], judge: Any, kind: str, dims: dict[str, int], draws: int = REDRAWS) -> bool:
    """Append a set; one that the judge refuses is drawn anew a few times, then recorded as outside the domain."""
    message = None
    for _ in range(draws):
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
    single = set(free)
    for symbol in free:
        tries = [base | {symbol: base[symbol] * times + more} for times, more in SECOND_SIZES]
        tries += [base | {other: base[other] * times + more for other in free} for times, more in SECOND_SIZES]
        for sizes in tries if len(free) > 1 else tries[: len(SECOND_SIZES)]:
            if _add(plan, judge, "normal", sizes) and judge is not None:
                _add(plan, judge, "uniform", sizes)
                single.discard(symbol)
                break
    if judge is not None:
        plan["single_size"] = sorted(single)


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


def _inputs(
    model: onnx.ModelProto, declared: dict[str, Any], consumers: Consumers
) -> tuple[list[dict[str, Any]], set[str]]:
    stored = {tensor.name for tensor in model.graph.initializer}
    described, batch = [], set()
    for value in graph.inspect_values(model.graph.input):
        name = value["name"]
        if name in stored:
            continue
        if value["dtype"].startswith("sequence("):
            value |= {"dtype": value["dtype"][9:-1], "sequence": True, "shape": value["shape"] or [4]}
        if value["dtype"] not in _NUMPY:
            hint = "Wrap the model so that its inputs are tensors of ordinary types."
            raise SourceError(f"input {name!r} is of type {value['dtype']}, which cannot be made up", hint=hint)
        own = declared.get(name) or {}
        if own.get("dtype") not in (None, value["dtype"]):
            raise ConfigError(f"input {name!r} is declared as {own['dtype']}, but the model takes {value['dtype']}")
        value["shape"] = value["shape"] if own.get("shape") is None else own["shape"]
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
        described.append(value | (_declared_fill(own) or describe_input(value, consumers)))
    known = [value["name"] for value in described]
    if unknown := [name for name in declared if name not in known]:
        message = f"source.inputs names {unknown[0]!r}, but the model's inputs are {', '.join(known)}"
        raise ConfigError(message, hint="Correct the name; 'artifactctl inspect FILE' lists the inputs.")
    return described, batch


def _declared_fill(own: dict[str, Any]) -> dict[str, Any] | None:
    """The user's word goes before anything that the graph says."""
    for key in ("values", "range"):
        if own.get(key) is not None:
            return {"fill": key, key: list(own[key]), "why": "declared in source.inputs"}
    return None


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


def write_samples(plan: dict[str, Any], folder: str, samples: str | None, labels: str | None) -> list[dict[str, Any]]:
    """One .npz a set: the user's data first, then the planned sets."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []

    def keep(origin: str, feeds: dict[str, Array], more: dict[str, Any], truth: Array | None = None) -> None:
        number = f"{len(entries):05d}"
        sample = {"inputs": feeds, "outputs": {}, "labels": truth}
        write_npz(target / f"{number}.npz", sample_arrays(number, sample))
        batched = plan["batched"] or origin == "data"
        entries.append({"set": number, "origin": origin, "rows": core.rows(feeds, batched)} | more)

    if samples:
        for feeds, truth in read_data(plan, Path(samples), Path(labels) if labels else None):
            keep("data", feeds, {}, truth)
    for index, chosen in enumerate(plan["sets"]):
        keep("seeded", core.make_inputs(plan, [plan["seed"]], index), chosen)
    return entries
