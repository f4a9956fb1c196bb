"""Which inputs a model is tried on: a plan taken from its graph, checked against the model itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from artifactctl.backends import core, graph
from artifactctl.backends.consumers import DECLARED, Consumers, describe_input
from artifactctl.backends.coverage import Watched, cover, open_judge
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.backends.planner import Planner
from artifactctl.backends.states import pair_states
from artifactctl.backends.userdata import load_arrays, read_data
from artifactctl.errors import ConfigError, SourceError

_NUMPY = {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
_NUMPY |= {"bool", "string", "complex64", "complex128"}
_ANONYMOUS = re.compile(r"(unk__\d+|\?|-1|p2o\.DynamicDimension\.\d+|)\Z")

Array = np.ndarray[Any, Any]


def plan_inputs(
    path: str, declared: dict[str, Any], settings: dict[str, Any], seed: int, probe: bool, samples: str | None
) -> dict[str, Any]:
    """A plan of input sets. With `probe` the model decides what is in its domain; else the framework will."""
    file = Path(path)
    model = graph.load_light(file)
    session = open_judge(file, settings)  # first: shape inference crashes on graphs that ONNX Runtime refuses
    inputs, batch = _inputs(model, declared, Consumers(model))
    states = [pair for pair in pair_states(model, inputs) if not _declared_fill(declared.get(pair["input"]) or {})]
    planner = Planner(session, probe, inputs, graph.inspect_values(model.graph.output), batch, seed)
    if planner.make(states, _data_dims(inputs, samples) if samples else None):
        cover(model, Watched(file, settings, session), planner.plan, planner.guesses)
    return planner.plan


def _data_dims(inputs: list[dict[str, Any]], samples: str) -> dict[str, int]:
    """The sizes of the user's own data: the first guess."""
    arrays = load_arrays(Path(samples))
    found: dict[str, int] = {}
    for spec in inputs:
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
        if value["dtype"] not in _NUMPY and value["dtype"] not in core.ODD_TYPES:
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
        said = _declared_fill(own)
        if said:
            _demand_fit(name, value["dtype"], said)
        described.append(value | (said or describe_input(value, consumers)))
    known = [value["name"] for value in described]
    if unknown := [name for name in declared if name not in known]:
        message = f"source.inputs names {unknown[0]!r}, but the model's inputs are {', '.join(known)}"
        raise ConfigError(message, hint="Correct the name; 'artifactctl inspect FILE' lists the inputs.")
    return described, batch


def _declared_fill(own: dict[str, Any]) -> dict[str, Any] | None:
    """The user's word goes before anything that the graph says, if the input can hold it."""
    for key in ("values", "range"):
        if own.get(key) is not None:
            return {"fill": key, key: list(own[key]), "why": DECLARED}
    return None


def _demand_fit(name: str, dtype: str, fill: dict[str, Any]) -> None:
    """Values and ranges that the type cannot hold would be bent in silence."""
    asked = fill.get("values") or fill.get("range") or []
    whole = "int" in dtype
    for item in asked:
        wrong = isinstance(item, str) != (dtype == "string") or (whole and float(item) != int(item))
        if whole and not wrong:
            limits = np.iinfo(dtype) if dtype in _NUMPY else np.iinfo(np.int8)
            wrong = not limits.min <= item <= limits.max
        if wrong:
            hint = f"Give values that a {dtype} can hold."
            raise ConfigError(f"source.inputs: {name!r} is {dtype}, which cannot be {item!r}", hint=hint)


def write_samples(plan: dict[str, Any], folder: str, samples: str | None, labels: str | None) -> list[dict[str, Any]]:
    """One .npz a set: the user's data first, then the planned sets."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []

    def keep(origin: str, feeds: dict[str, Array], more: dict[str, Any], truth: Array | None = None) -> None:
        number = f"{len(entries):05d}"
        sample = {"inputs": feeds, "outputs": {}, "labels": truth, "follows": more.get("follows", False)}
        write_npz(target / f"{number}.npz", sample_arrays(number, sample))
        batched = plan["batched"] or origin == "data"
        entries.append({"set": number, "origin": origin, "rows": core.rows(feeds, batched)} | more)

    if samples:
        for feeds, truth in read_data(plan, Path(samples), Path(labels) if labels else None):
            keep("data", feeds, {}, truth)
    for index, chosen in enumerate(plan["sets"]):
        keep("seeded", core.make_inputs(plan, [plan["seed"]], index), chosen)
    return entries
