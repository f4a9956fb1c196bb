"""The user's own samples and labels, checked against the model's inputs."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from artifactctl.errors import ConfigError

CHUNK, CHUNK_BYTES = 64, 1_000_000  # samples at once: few enough that golden.npz can take some of them

Array = np.ndarray[Any, Any]


def read_data(
    plan: dict[str, Any], samples: Path, labels: Path | None
) -> Iterator[tuple[dict[str, Array], Array | None]]:
    """The user's samples in chunks that the model takes; a shape or dtype that does not fit is a ConfigError."""
    arrays = load_arrays(samples)
    names = [spec["name"] for spec in plan["inputs"]]
    if sorted(arrays) != sorted(names):
        raise ConfigError(
            f"{samples.name} has arrays {sorted(arrays)}, but the model's inputs are {sorted(names)}",
            hint="Save one array for each input: numpy.savez(FILE, name=array, …), first axis = sample.",
        )
    counts = {name: len(array) for name, array in arrays.items() if array.ndim}
    if len(counts) != len(arrays) or len(set(counts.values())) != 1 or not min(counts.values(), default=0):
        message = f"{samples.name}: the first axis is the sample, and must be one length for all: {counts}"
        raise ConfigError(message, hint="Save as many rows of each input: numpy.savez(FILE, name=array[:N], …).")
    total = next(iter(counts.values()))
    truth = _load_labels(labels, total) if labels else None
    step = min(_fit(spec, arrays, samples.name) for spec in plan["inputs"])
    loose = {spec["name"]: arrays[spec["name"]].ndim == len(spec["shape"]) + 1 for spec in plan["inputs"]}
    if step > 1 and not _free_batch(plan) and total % step:
        hint = f"Give a multiple of {step} samples, or a model with a free batch."
        raise ConfigError(f"{samples.name} has {total} samples, but the model takes {step} at once", hint=hint)
    for start in range(0, total, step):
        part = {name: array[start] if loose[name] else array[start : start + step] for name, array in arrays.items()}
        part = {name: _strings(np.asarray(array)) for name, array in part.items()}
        yield part, None if truth is None else truth[start : start + step]


def _strings(array: Array) -> Array:
    """ONNX Runtime takes strings as objects."""
    return array.astype(object) if array.dtype.kind == "U" else array


def _free_batch(plan: Mapping[str, Any]) -> bool:
    return all(spec["shape"] and isinstance(spec["shape"][0], str) for spec in plan["inputs"])


def _fit(spec: Mapping[str, Any], arrays: Mapping[str, Array], file: str) -> int:
    """How many samples of this array the model takes at once; a ConfigError where it takes none."""
    array, shape = arrays[spec["name"]], list(spec["shape"])
    if spec.get("sequence"):
        hint = "Leave it out of 'data': made-up inputs are used in its place."
        raise ConfigError(f"{file}: {spec['name']!r} is a sequence, which an array cannot be", hint=hint)
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
        message = f"{file}: {spec['name']!r} has {len(array)} samples, but the model takes {batch} at once"
        raise ConfigError(message, hint=f"Give at least {batch} samples, or a model with a free batch.")
    each_bytes = max(1, array.nbytes // max(1, len(array)))
    return batch if isinstance(batch, int) else max(1, min(CHUNK, CHUNK_BYTES // each_bytes))


def load_arrays(path: Path) -> dict[str, Array]:
    hint = "Save it with numpy.savez(FILE, name=array, …); pickled objects are not read."
    try:
        stored = np.load(path, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            raise ConfigError(f"{path.name} is one array, not an archive of named arrays", hint=hint)
        with stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise ConfigError(f"{path.name} cannot be read as .npz: {error}", hint=hint) from None


def _load_labels(path: Path, total: int) -> Array:
    try:
        labels = np.load(path, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise ConfigError(
            f"{path.name} cannot be read as .npy: {error}", hint="Save it with numpy.save(FILE, array)."
        ) from None
    if not isinstance(labels, np.ndarray):
        raise ConfigError(f"{path.name} is an archive, not one array", hint="Save it with numpy.save(FILE, array).")
    if labels.dtype.kind not in "iuU":
        raise ConfigError(
            f"{path.name} is {labels.dtype}, but labels are class numbers or names", hint="Save integers."
        )
    if labels.shape != (total,):
        raise ConfigError(f"{path.name} has shape {list(labels.shape)}, but there are {total} samples")
    return np.asarray(labels)
