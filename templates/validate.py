# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "onnxruntime"]
# ///
"""Check this artifact: its files are whole, and its model still answers as its source did.

python validate.py                      compare with the source's own answers in golden.npz
python validate.py --reference FILE     also compare with that model on fresh inputs
python validate.py --provider cuda      on another execution provider
python validate.py --json               one JSON document instead of a table

Needs numpy and onnxruntime. Exit codes: 0 equivalent, 4 a model cannot be run, 6 different, 8 nothing to
compare on, 9 provider or package missing, 10 damaged.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib
import importlib.util
import json
import math
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

try:
    import numpy as np
except ImportError:
    sys.stderr.write("NotAvailable: numpy is not installed\nNext: pip install numpy onnxruntime\n")
    sys.exit(9)

# <data>
DATA: dict[str, Any] = {}
# </data>

Array = np.ndarray[Any, Any]
SMALL_PEAK = SMALL_REL_L2 = (
    1e-2  # an output that never reaches the first must also keep its relative error under the second
)
REQUIRED = ("model_opt.onnx", "golden.npz", "metadata.yaml", "validate.py", "README.md", "evidence/equivalence.json")
# what `flatten` and `run` append to an output's name
PART = re.compile(r"(\.keys|\.values|\.length|\.none|\[\d+\].*|\.(bfloat16|float8\w+|u?int[24]))\Z")
# types that numpy lacks: ONNX's number of each, and of the small floats exponent bits, mantissa bits and bias
ODD_TYPES = {"bfloat16": 16, "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20}
ODD_TYPES |= {"uint4": 21, "int4": 22, "uint2": 25, "int2": 26}
FLOAT8 = {
    "float8e4m3fn": (4, 3, 7),
    "float8e4m3fnuz": (4, 3, 8),
    "float8e5m2": (5, 2, 15),
    "float8e5m2fnuz": (5, 2, 16),
}
TINY = 1e-300  # numbers below it cannot be divided by
TOP = 5
MARGINS_KEPT = 2_000_000  # rows of scores whose margin is remembered
PLUGINS = {"OpenVINOExecutionProvider": "onnxruntime_ep_openvino", "QNNExecutionProvider": "onnxruntime_qnn"}
REGISTERED: set[str] = set()
CPU = "CPUExecutionProvider"
SYSTEMS = {"darwin": "macos"}
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}
WORDS = ("artifact", "model", "42", "", "naïve", "A longer string, with punctuation.")
FLOAT_KINDS: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.random(shape),
    "wide": lambda rng, shape: rng.standard_normal(shape) * 10,
    "outlier": lambda rng, shape: rng.standard_normal(shape) * np.where(rng.random(shape) < 0.05, 10, 1),
    # a single number is a setting, of whatever size
    "scales": lambda rng, shape: rng.standard_normal(shape) * (10 ** (6 * rng.random() - 2) if not any(shape) else 1),
    "tiny": lambda rng, shape: rng.standard_normal(shape) * 0.01,
    "positive": lambda rng, shape: rng.random(shape) + 1,
    "negative": lambda rng, shape: -1 - rng.random(shape),
    "pixels": lambda rng, shape: rng.integers(0, 256, shape),
    "zeros": lambda rng, shape: np.zeros(shape),
    "ones": lambda rng, shape: np.ones(shape),
}


class Failure(Exception):
    def __init__(self, code: int, name: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.name, self.hint = code, name, hint


def make_inputs(plan: dict[str, Any], seed: list[int], index: int) -> dict[str, Any]:
    """The inputs of one set of the plan; the same numbers on every machine."""
    chosen = plan["sets"][index]
    rng = np.random.default_rng([*seed, chosen["draw"]])
    feeds: dict[str, Any] = {}
    for spec in plan["inputs"]:
        shape = tuple(chosen["dims"].get(size, size) for size in spec["shape"])
        if spec["fill"] == "arrays":  # whole arrays that go together with those of other inputs
            array = spec["arrays"][chosen["draw"] % len(spec["arrays"])]
            feeds[spec["name"]] = np.array(array, spec["dtype"]).reshape(shape)
            continue
        plain = {key: value for key, value in spec.items() if not (chosen.get("narrow") and key == "wide")}
        items = [fill(plain, shape, chosen["kind"], rng) for _ in range(3 if spec.get("sequence") else 1)]
        if spec.get("state") and chosen.get("rest"):
            items = [np.zeros_like(item) for item in items]
        feeds[spec["name"]] = items if spec.get("sequence") else items[0]
    return feeds


def fill(spec: dict[str, Any], shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Array:
    if spec["dtype"] in ODD_TYPES:
        made = fill(spec | {"dtype": "int8" if "int" in spec["dtype"] else "float32"}, shape, kind, rng)
        return decode(spec["dtype"], encode(spec["dtype"], made), shape)
    dtype, how = spec["dtype"], spec["fill"]
    if how == "values":
        kind_of_array = object if dtype == "string" else dtype
        return np.asarray(rng.choice(np.array(spec["values"], dtype=kind_of_array), shape), dtype=kind_of_array)
    if how == "range":
        low, high = spec["range"]
        if dtype.startswith(("float", "double")):
            return np.asarray(low + (high - low) * rng.random(shape)).astype(dtype)
        if kind == "outlier" and spec.get("wide"):  # nothing says that they are small
            return np.asarray(rng.choice(np.array(spec["wide"], dtype), shape))
        whole = np.uint64 if high >= 2**63 else np.int64
        return np.asarray(rng.integers(math.ceil(low), math.floor(high), shape, whole, endpoint=True)).astype(dtype)
    if how == "mask":
        length = shape[-1] if shape else 1
        kept = rng.integers(1, length, (*shape[:-1], 1), endpoint=True) if length else 0
        return np.asarray(np.broadcast_to(np.arange(length) < kept, shape)).astype(dtype)
    if how == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if how == "string":
        return np.asarray(rng.choice(np.array(WORDS, dtype=object), shape), dtype=object)
    if kind == "uniform" and spec.get("soft"):  # a part that the model treats in a way of its own
        low, high = spec["soft"]
        return np.asarray(low + (high - low) * rng.random(shape)).astype(dtype)
    values = FLOAT_KINDS["normal" if kind == "edges" else kind](rng, shape)
    if kind == "edges" and spec.get("edges"):  # at, just below and just above what it is compared with
        edges = rng.choice(np.array(spec["edges"], np.float64), shape)
        beside = edges + rng.integers(-1, 1, shape, endpoint=True) * np.maximum(1e-2, np.abs(edges) / 20)
        values = np.where(rng.random(shape) < 0.7, beside, values)
    if how == "complex":
        values = values + 1j * FLOAT_KINDS[kind](rng, shape)
    return np.asarray(values).astype(dtype)


def flatten(name: str, value: Any) -> dict[str, Array]:
    """Any ONNX value as named arrays: tensors, sequences, maps, lists of maps (ZipMap), optionals."""
    if value is None:
        return {f"{name}.none": np.array(True)}
    if isinstance(value, dict):
        keys = sorted(value)
        return {f"{name}.keys": np.array(keys), f"{name}.values": np.array([value[key] for key in keys])}
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, dict) and item.keys() == value[0].keys() for item in value):
            keys = sorted(value[0])
            table = np.array([[item[key] for key in keys] for item in value])
            return {f"{name}.keys": np.array(keys), f"{name}.values": table}
        leaves = {f"{name}.length": np.array(len(value))}
        for position, item in enumerate(value):
            leaves |= flatten(f"{name}[{position}]", item)
        return leaves
    array = np.asarray(value)
    if array.dtype == object:  # numpy drops a NUL at the end of a text
        texts = [str(text).replace("\0", "\u2400") for text in array.reshape(-1)]
        array = np.array(texts, dtype=str).reshape(array.shape) if texts else array.astype(str)
    return {name: array}


def float8_table(kind: str) -> Array:
    """The value of each of the 256 codes."""
    exponent_bits, mantissa_bits, bias = FLOAT8[kind]
    codes = np.arange(256)
    exponent, mantissa = (codes >> mantissa_bits) & (2**exponent_bits - 1), codes & (2**mantissa_bits - 1)
    size = (mantissa / 2**mantissa_bits + (exponent > 0)) * 2.0 ** (np.maximum(exponent, 1) - bias)
    values = np.where(codes < 128, size, -size).astype(np.float32)
    if kind.endswith("uz"):
        values[128] = np.nan
    elif kind == "float8e4m3fn":
        values[[127, 255]] = np.nan
    else:
        top = exponent == 31
        values[top] = np.where(mantissa[top] > 0, np.nan, np.copysign(np.inf, values[top]))
    return np.asarray(values)


def encode(kind: str, values: Array) -> bytes:
    """The nearest that the type holds, as ONNX Runtime stores it."""
    flat = values.reshape(-1)
    if kind == "bfloat16":
        bits = flat.astype(np.float32).view(np.uint32).astype(np.uint64)
        rounded = np.where(np.isnan(flat), bits | 0x400000, bits + 0x7FFF + ((bits >> 16) & 1))
        return bytes((rounded >> 16).astype(np.uint16).tobytes())
    if kind in FLOAT8:
        return bytes(encode_float8(float8_table(kind), flat).astype(np.uint8).tobytes())
    width = int(kind[-1])
    low, high = (0, 2**width - 1) if kind.startswith("u") else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    each = 8 // width
    parts = flat.astype(np.int64).clip(low, high) & (2**width - 1)
    parts = np.append(parts, np.zeros(-len(parts) % each, np.int64)).reshape(-1, each)
    return bytes((parts << (width * np.arange(each))).sum(axis=1).astype(np.uint8).tobytes())


def encode_float8(table: Array, flat: Array) -> Array:
    """NaN stays NaN; infinity stays so where the type has it, and is the largest number elsewhere."""
    ordered = np.flatnonzero(~np.isnan(table))
    ordered = ordered[np.argsort(table[ordered], kind="stable")]
    finite = ordered[np.isfinite(table[ordered])]
    above = np.searchsorted(table[finite], flat).clip(1, len(finite) - 1)
    nearer = np.abs(table[finite[above - 1]] - flat) <= np.abs(table[finite[above]] - flat)
    codes = finite[above - nearer]
    codes = np.where(np.isposinf(flat), ordered[-1], np.where(np.isneginf(flat), ordered[0], codes))
    return np.asarray(np.where(np.isnan(flat), np.flatnonzero(np.isnan(table))[0], codes))


def decode(kind: str, stored: bytes, shape: tuple[int, ...]) -> Array:
    """Values of a type that numpy lacks, in one that it has."""
    if kind == "bfloat16":
        return (np.frombuffer(stored, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    raw = np.frombuffer(stored, np.uint8)
    if kind in FLOAT8:
        return float8_table(kind)[raw].reshape(shape)
    width = int(kind[-1])
    parts = (raw[:, None] >> (width * np.arange(8 // width))) & (2**width - 1)
    parts = parts.reshape(-1)[: int(np.prod(shape))].astype(np.int8)
    if not kind.startswith("u"):
        parts = np.where(parts >= 2 ** (width - 1), parts - 2**width, parts)
    return np.asarray(parts).reshape(shape)


def odd_type(value: Any) -> str:
    """`value` is an input or output of a session; "" where numpy has its type."""
    kind = str(value.type).removeprefix("tensor(").removesuffix(")")
    return kind if kind in ODD_TYPES else ""


def run(session: Any, feeds: dict[str, Any]) -> dict[str, Array]:
    """All outputs, flattened; those of a type that numpy lacks carry its name, so that types are compared too."""
    leaves: dict[str, Array] = {}
    for output, value in zip(session.get_outputs(), prepare(session, feeds)(), strict=True):
        if kind := odd_type(output):
            found = {f"{output.name}.{kind}": as_read(kind, value)}
        else:
            found = flatten(output.name, value.numpy() if hasattr(value, "numpy") else value)
        if same := found.keys() & leaves.keys():
            raise ValueError(f"two outputs would both be called {sorted(same)[0]!r}: they cannot be told apart")
        leaves |= found
    return leaves


def prepare(session: Any, feeds: dict[str, Any]) -> Callable[[], list[Any]]:
    """A call of the model and nothing else: what ONNX Runtime needs of the inputs is done here."""
    odd = {value.name: kind for value in session.get_inputs() if (kind := odd_type(value))}
    if odd:
        feeds = {name: as_stored(odd[name], value) if name in odd else value for name, value in feeds.items()}
    if not any(odd_type(output) for output in session.get_outputs()):
        return partial(session.run, None, feeds)
    import onnxruntime as ort

    boxed = {name: value if name in odd else ort.OrtValue.ortvalue_from_numpy(value) for name, value in feeds.items()}
    return partial(session.run_with_ort_values, None, boxed)


def as_stored(kind: str, values: Array) -> Any:
    import onnxruntime as ort

    width = np.dtype(np.uint16 if kind == "bfloat16" else np.uint8)
    stored = encode(kind, values)
    buffer = np.zeros(values.shape, width)  # small numbers share a byte: the rest of the buffer is not read
    buffer.reshape(-1).view(np.uint8)[: len(stored)] = np.frombuffer(stored, np.uint8)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(buffer, ODD_TYPES[kind])


def as_read(kind: str, value: Any) -> Array:
    shape = tuple(value.shape())
    count = int(np.prod(shape))
    bits = 16 if kind == "bfloat16" else 8 if kind in FLOAT8 else int(kind[-1])
    size = (bits * count + 7) // 8
    return decode(kind, ctypes.string_at(value.data_ptr(), size) if size else b"", shape)


def carry(states: list[dict[str, str]], sample: dict[str, Any], before: dict[str, Array] | None) -> dict[str, Any]:
    """The sample's inputs; a step of a sequence continues from the state that the model itself gave one step before."""
    inputs: dict[str, Any] = sample["inputs"]
    if sample.get("follows") and before is not None:
        return inputs | {pair["input"]: before[pair["output"]] for pair in states if pair["output"] in before}
    return inputs


def same_oddities(r: Array, c: Array) -> bool:
    """NaN and infinity in the same places, infinity with the same sign."""
    odd = ~np.isfinite(r)
    return np.array_equal(odd, ~np.isfinite(c)) and np.array_equal(r[odd], c[odd], equal_nan=True)


class Tally:
    """Everything known so far about one output, over all samples."""

    def __init__(self, name: str) -> None:
        self.name, self.dtype, self.reason = name, "", ""
        self.exact = False
        self.count = self.unequal = self.top1_same = self.top1_total = 0
        self.max_abs = self.max_error = self.max_error_absolute = self.peak = 0.0
        self.scale = 0.0  # sums are of values divided by this, so that squares neither overflow nor vanish
        self.sum_abs = self.sq_diff = self.sq_ref = 0.0
        self.top5_same = self.top5_total = 0
        self.margins: list[Array] = []  # between the best and the second best score, row by row
        self.cosine = 1.0  # the smallest over all rows: one wrong answer is not outvoted by large ones
        self.spread = 0.0  # how far the source's answers lie apart
        self.seen: dict[tuple[int, ...], Array] = {}

    def add(self, reference: Array | None, candidate: Array | None) -> None:
        """Nothing broadcasts and nothing is skipped: what cannot be compared is a difference."""
        if reference is None or candidate is None:
            self.reason = self.reason or f"output is {'not in the source' if reference is None else 'missing'}"
            return
        kind = "string" if reference.dtype.kind in "US" else str(reference.dtype)
        if self.dtype not in ("", kind):
            self.reason = self.reason or f"dtype {kind} after {self.dtype}"
        self.dtype = kind
        for rows in (reference[:1], reference[-1:]) if reference.ndim and self.spread < 1 else (reference,):
            self._spread(rows)
        if reference.shape != candidate.shape:
            self.reason = self.reason or f"shape {list(candidate.shape)} instead of {list(reference.shape)}"
        elif (reference.dtype.kind, candidate.dtype.kind) != ("U", "U") and reference.dtype != candidate.dtype:
            self.reason = self.reason or f"dtype {candidate.dtype} instead of {reference.dtype}"
        elif reference.dtype.kind in "biuUS":
            self._add_exact(reference, candidate)
        else:
            self._add_floats(reference, candidate)

    def _spread(self, row: Array) -> None:
        first = self.seen.setdefault(row.shape, row)
        if first is row or not row.size:
            return
        if row.dtype.kind not in "fc":
            self.spread = np.inf if np.any(first != row) else self.spread
            return
        with np.errstate(all="ignore"):
            apart = np.abs(row.astype(np.complex128) - first) / np.maximum(1.0, np.abs(first))
        odd = ~np.isfinite(apart)
        self.spread = max(self.spread, float(apart[~odd].max(initial=0.0)))
        if np.any(np.isnan(first) != np.isnan(row)) or np.any(np.isinf(first) != np.isinf(row)):
            self.spread = np.inf

    def vacuous(self, limit: float) -> bool:
        """Whether the answers lie so close together that a wrong model could not be told from a right one."""
        if 0 < self.peak < SMALL_PEAK:  # small outputs are judged by their relative error as well
            return bool(self.spread <= min(limit, SMALL_REL_L2 * self.peak))
        return bool(self.spread <= limit)

    def _add_exact(self, reference: Array, candidate: Array) -> None:
        self.exact = True
        self.count += reference.size
        self.unequal += int(np.count_nonzero(reference != candidate))
        if reference.size and reference.dtype.kind in "biu":
            gap = np.abs(reference.astype(np.float64) - candidate.astype(np.float64))
            self.max_abs = self.max_error = self.max_error_absolute = max(self.max_abs, float(gap.max()))
            self.sum_abs += float(gap.sum())

    def _add_floats(self, reference: Array, candidate: Array) -> None:
        wide = np.complex128 if reference.dtype.kind == "c" else np.float64
        r, c = reference.astype(wide), candidate.astype(wide)
        self.count += r.size
        finite = np.isfinite(r)
        if not all(same_oddities(*parts) for parts in ((r.real, c.real), (r.imag, c.imag))):
            self.reason = self.reason or "NaN or infinity in other places than the source's"
            return
        if r.dtype.kind == "c":  # where one part is odd, the other one counts
            r, c = (np.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0) for value in (r, c))
            finite = np.ones(r.shape, bool)
        if r.ndim in (2, 3) and r.shape[-1] >= 2 and r.size and r.dtype.kind == "f":
            self._add_decisions(r.reshape(-1, r.shape[-1]), c.reshape(-1, r.shape[-1]))
        self._add_cosine(np.where(finite, r, 0), np.where(finite, c, 0))
        r, c = r[finite], c[finite]
        if not r.size:
            return
        with np.errstate(over="ignore"):
            gap, size = np.abs(r - c), np.abs(r)
        if not np.isfinite(gap).all():
            self.reason = self.reason or "the difference is too large for a number"
            return
        self.max_abs = self.max_error_absolute = max(self.max_abs, float(gap.max()))
        self.max_error = max(self.max_error, float((gap / np.maximum(1.0, size)).max()))
        self.peak = max(self.peak, float(size.max()))
        self._rescale(max(float(size.max()), float(np.abs(c).max()), TINY))
        if self.scale:
            r, c, gap = r / self.scale, c / self.scale, gap / self.scale
        self.sum_abs += float(gap.sum())
        self.sq_diff += float(np.vdot(gap, gap))
        self.sq_ref += float(np.vdot(r, r).real)

    def _add_decisions(self, r: Array, c: Array) -> None:
        """What would be decided by the largest score of each row."""
        same = np.argmax(r, axis=-1) == np.argmax(c, axis=-1)
        self.top1_same, self.top1_total = self.top1_same + int(same.sum()), self.top1_total + same.size
        if r.shape[-1] > TOP:
            best = [np.sort(np.argpartition(scores, -TOP, axis=-1)[:, -TOP:], axis=-1) for scores in (r, c)]
            self.top5_same += int((best[0] == best[1]).all(axis=-1).sum())
            self.top5_total += len(r)
        if self.top1_total <= MARGINS_KEPT:
            first = np.partition(r, -2, axis=-1)[:, -2:]
            with np.errstate(invalid="ignore"):
                self.margins.append(first[:, 1] - first[:, 0])

    def decisions(self) -> dict[str, Any] | None:
        """No decision can change where the margin is above twice the largest difference: how many rows that covers."""
        if not self.top1_total:
            return None
        covered = None
        if self.top1_total <= MARGINS_KEPT:
            covered = float(np.mean(np.concatenate(self.margins) > 2 * self.max_abs))
        return {
            "rows": self.top1_total,
            "flips": self.top1_total - self.top1_same,
            "top5": self.top5_same / self.top5_total if self.top5_total else None,
            "margin": min(2 * self.max_abs, sys.float_info.max),
            "covered": covered,
        }

    def _add_cosine(self, r: Array, c: Array) -> None:
        if not r.size:
            return
        rows_r, rows_c = (array.reshape(len(array) if array.ndim > 1 else 1, -1) for array in (r, c))
        for left, right in zip(rows_r, rows_c, strict=True):
            scale = max(float(np.abs(left).max(initial=0.0)), float(np.abs(right).max(initial=0.0))) or 1.0
            scale = max(scale, TINY)
            left, right = left / scale, right / scale  # noqa: PLW2901 - squares must not overflow
            norms = float(np.linalg.norm(left)), float(np.linalg.norm(right))
            if norms[0] and norms[1]:
                self.cosine = min(self.cosine, float(np.vdot(left, right).real) / norms[0] / norms[1])
            elif norms[0] != norms[1]:
                self.cosine = 0.0

    def _rescale(self, peak: float) -> None:
        if peak > self.scale:
            factor = self.scale / peak
            self.sum_abs *= factor
            self.sq_diff, self.sq_ref = self.sq_diff * factor**2, self.sq_ref * factor**2
            self.scale = peak

    @property
    def rel_l2(self) -> float | None:
        if self.sq_diff == 0:
            return 0.0
        with np.errstate(all="ignore"):
            found = float(np.sqrt(np.float64(self.sq_diff) / np.float64(self.sq_ref)))
        return found if np.isfinite(found) else None

    @property
    def top1(self) -> float | None:
        return self.top1_same / self.top1_total if self.top1_total else None

    def result(self, bound: dict[str, Any]) -> dict[str, Any]:
        reason = self.reason or (self._exact_reason(bound) if self.exact else self._float_reason(bound))
        numbers, floats = not self.reason and self.dtype != "string", not self.reason and not self.exact
        error = self.max_error_absolute if bound.get("absolute") else self.max_error
        mean = self.sum_abs * (self.scale or 1.0) / self.count if self.count else None
        return {
            "name": self.name,
            "dtype": self.dtype or None,
            "max_abs": self.max_abs if numbers else None,
            "max_error": error if numbers else None,
            "mean_abs": mean if numbers else None,
            "rel_l2": self.rel_l2 if floats else None,
            "cosine": self.cosine if floats else None,
            "top1": self.top1 if floats else None,
            "decisions": self.decisions() if floats else None,
            "bound": bound.get("max_abs"),
            "vacuous": self.vacuous(bound.get("max_abs") or 0.0),
            "passed": not reason,
            "reason": reason or None,
        }

    def _exact_reason(self, bound: dict[str, Any]) -> str:
        if bound.get("max_abs") is None:
            share = 1 - self.unequal / self.count if self.count else 1.0
            if (least := bound.get("min_top1")) is not None:
                return f"{share:.4f} of the values agree, under min_top1 {least}" if share < least else ""
            if bound.get("max_accuracy_drop") is not None:
                return ""
        return f"{self.unequal} of {self.count} values differ" if self.unequal else ""

    def _float_reason(self, bound: dict[str, Any]) -> str:
        limit, cosine, top1 = (bound.get(key) for key in ("max_abs", "min_cosine", "min_top1"))
        if limit is not None:
            error = self.max_error_absolute if bound.get("absolute") else self.max_error
            if not error <= limit:
                return f"error {error:.3g} is over the bound {limit:g}"
            if self.peak < SMALL_PEAK and (self.rel_l2 is None or self.rel_l2 > SMALL_REL_L2):
                shown = "infinite" if self.rel_l2 is None else f"{self.rel_l2:.3g}"
                return f"values under {SMALL_PEAK:g} with relative error {shown}, over {SMALL_REL_L2:g}"
        if cosine is not None and self.cosine < cosine:
            return f"cosine {self.cosine:.6f} is under min_cosine {cosine}"
        if top1 is not None:
            if self.top1 is None:
                return "min_top1 needs scores along a last axis of 2 or more"
            if self.top1 < top1:
                return f"top-1 agreement {self.top1:.4f} is under min_top1 {top1}"
        return ""


class Comparison:
    """One Tally an output; an output that only one side has is there too, and fails."""

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self.samples = 0

    def add(self, reference: dict[str, Array], candidate: dict[str, Array], samples: int = 1) -> None:
        self.samples += samples
        for name in [*reference, *(name for name in candidate if name not in reference)]:
            self.tallies.setdefault(name, Tally(name)).add(reference.get(name), candidate.get(name))

    def outputs(self, bounds: dict[str, Any]) -> list[dict[str, Any]]:
        def bound_of(leaf: str) -> Any:
            own, base = bounds["outputs"], PART.sub("", leaf)
            part = own.get(base) if base not in self.tallies else None  # else the name only looks like a part of it
            return own.get(leaf) or part or bounds["default"]

        return [tally.result(bound_of(name)) for name, tally in self.tallies.items()]


def predictions(leaves: dict[str, Array], labels: Array) -> Array | None:
    """Classes: a vector of the labels' kind as it is, else the largest score of the first output with scores."""
    for array in leaves.values():
        if array.ndim == 1 and (array.dtype.kind in "iu" or array.dtype.kind == labels.dtype.kind == "U"):
            return array
        if array.dtype.kind == "f" and array.ndim == 2 and array.shape[1] >= 2 and labels.dtype.kind in "iu":
            return np.asarray(array.argmax(axis=1))
    return None


class Accuracy:
    """Right answers of source and candidate over the labelled samples."""

    def __init__(self) -> None:
        self.total = self.source_right = self.candidate_right = 0
        self.usable = True

    def add(self, labels: Array, reference: dict[str, Array], candidate: dict[str, Array]) -> None:
        source, other = predictions(reference, labels), predictions(candidate, labels)
        if source is None or other is None or source.shape != labels.shape or other.shape != labels.shape:
            self.usable = False
            return
        self.total += labels.size
        self.source_right += int((source == labels).sum())
        self.candidate_right += int((other == labels).sum())

    def result(self, limit: float | None) -> dict[str, Any] | None:
        """None when nothing can be said; labels that the source itself never meets say nothing."""
        if not self.usable or not self.total or not self.source_right:
            if limit is None:
                return None
            why = "max_accuracy_drop needs labels that the source gets right, and an output with classes"
            return {"passed": False, "reason": why}
        drop = (self.source_right - self.candidate_right) / self.total
        late = limit is not None and drop > limit
        return {
            "source": self.source_right / self.total,
            "candidate": self.candidate_right / self.total,
            "drop": drop,
            "samples": self.total,
            "passed": not late,
            "reason": f"accuracy fell by {drop:.4f}, more than {limit}" if late else None,
        }


def available_providers() -> list[str]:
    """Built-in providers, and those of the plugin packages that are installed and find a device."""
    import onnxruntime as ort

    for name, package in PLUGINS.items():
        if name not in REGISTERED and name not in ort.get_available_providers() and importlib.util.find_spec(package):
            REGISTERED.add(name)
            ort.register_execution_provider_library(name, importlib.import_module(package).get_library_path())
    return [str(name) for name in ort.get_available_providers()]


def open_session(path: Path | str, settings: dict[str, Any]) -> Any:
    """A session with exactly the recorded settings, which never falls back to another provider in silence."""
    try:
        session = make_session(path, settings, fall_back=False)
    except runtime_errors() as error:
        if "fallback to CPU EP has been explicitly disabled" in str(error):  # say which nodes it is about
            demand_placement(make_session(path, settings, fall_back=True), settings)
        raise
    demand_placement(session, settings)
    return session


def make_session(path: Path | str | bytes, settings: dict[str, Any], *, fall_back: bool) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    if prefix := settings.get("profile"):
        options.enable_profiling, options.profile_file_prefix = True, prefix
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if settings["allow_spinning"] else "0")
    options.add_session_config_entry("session.force_spinning_stop", "1")  # when a run ends
    options.intra_op_num_threads = settings["intra_op_threads"]
    options.inter_op_num_threads = settings["inter_op_threads"]
    options.enable_mem_pattern = settings.get("memory_pattern", True)
    options.enable_cpu_mem_arena = settings.get("arena", True)
    if settings.get("flush_denormals"):
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = {
        "all": levels.ORT_ENABLE_ALL,
        "extended": levels.ORT_ENABLE_EXTENDED,
        "basic": levels.ORT_ENABLE_BASIC,
        "disabled": levels.ORT_DISABLE_ALL,
    }[settings["graph_level"]]
    name, here = settings["execution_provider"], available_providers()
    if name not in here:
        hint = "Install the ONNX Runtime package that carries it, or leave --provider out."
        raise Failure(9, "NotAvailable", f"{name} is not available here (this machine has {', '.join(here)})", hint)
    if name != CPU and not fall_back:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    own, model = settings.get("options") or {}, path if isinstance(path, bytes) else str(path)
    if name in PLUGINS and (devices := [device for device in ort.get_ep_devices() if device.ep_name == name]):
        options.add_provider_for_devices(devices[:1], own)
        return ort.InferenceSession(model, options, enable_fallback=0)
    return ort.InferenceSession(model, options, providers=[(name, own)], enable_fallback=0)


def placement(session: Any) -> dict[str, list[str]] | None:
    """Which provider runs which nodes, by operator and name; None where this ONNX Runtime does not tell."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    placed: dict[str, list[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        nodes = [f"{node.op_type} {node.name}".strip() for node in part.get_nodes()]
        placed.setdefault(str(part.ep_name), []).extend(nodes)
    return placed


def proved_placement(
    session: Any, path: Path | str, settings: dict[str, Any], feeds: dict[str, Any]
) -> dict[str, list[str]] | None:
    """Which provider ran which nodes: as the session tells, or where it tells too little by the profile of one run."""
    placed, name = placement(session), settings["execution_provider"]
    if name == CPU or (placed and placed.get(name)):
        return placed
    placed = profiled(path, settings, feeds)
    demand_nodes(placed, settings)
    return placed


def profiled(path: Path | str, settings: dict[str, Any], feeds: dict[str, Any]) -> dict[str, list[str]]:
    """The nodes that really ran, by provider; what a provider has compiled into one counts as one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        session = make_session(path, settings | {"profile": str(Path(place) / "run")}, fall_back=False)
        run(session, feeds)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    placed: dict[str, dict[str, None]] = {}
    for event in events:
        about = event.get("args", {})
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time") and about.get("provider"):
            node = f"{about.get('op_name', '')} {event['name'].removesuffix('_kernel_time')}".strip()
            placed.setdefault(about["provider"], {})[node] = None
    return {provider: list(nodes) for provider, nodes in placed.items()}


def counted(placed: dict[str, list[str]] | None) -> dict[str, int] | None:
    return None if placed is None else {name: len(nodes) for name, nodes in placed.items()}


def demand_placement(session: Any, settings: dict[str, Any]) -> None:
    demand_nodes(placement(session) or {}, settings)


def demand_nodes(placed: dict[str, list[str]], settings: dict[str, Any]) -> None:
    """A failure where the provider that gives the proof its name runs none of the nodes, or fewer than before."""
    name = settings["execution_provider"]
    counts = {provider: len(nodes) for provider, nodes in placed.items()}
    elsewhere = [f"{node} on {provider}" for provider, nodes in placed.items() if provider != name for node in nodes]
    before = settings.get("placement") or {}
    allowed = sum(count for provider, count in before.items() if provider != name)
    if elsewhere and (not counts.get(name) or len(elsewhere) > allowed):
        few = "none" if not counts.get(name) else f"only {counts[name]}"
        listed = "; ".join(elsewhere[:10]) + (f"; and {len(elsewhere) - 10} more" if len(elsewhere) > 10 else "")
        message = f"{name} runs {few} of the model's {sum(counts.values())} nodes: {listed}"
        raise Failure(9, "NotAvailable", message, "Use a provider that runs the whole model, or leave --provider out.")


def runtime_errors() -> tuple[type[Exception], ...]:
    """What onnxruntime raises: classes of its own without a common base, and some of Python's."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = [kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, RuntimeError, TypeError, ValueError, MemoryError)


def read_golden(path: Path) -> list[dict[str, Any]]:
    """Samples in order: {"inputs": {...}, "outputs": {...}, "labels": array or None, "follows": a later step}."""
    samples: dict[str, dict[str, Any]] = {}
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            number, part, name = key.split("/", 2)
            sample = samples.setdefault(number, {"inputs": {}, "outputs": {}, "labels": None, "follows": False})
            array = stored[key]
            if part == "labels":
                sample["labels"] = array
                continue
            if part == "follows":
                sample["follows"] = True
                continue
            if part == "about":
                sample["about"] = str(array)
                continue
            name, _, item = name.partition("/")
            array = array.astype(object) if part == "inputs" and array.dtype.kind == "U" else array
            if not item:
                sample[part][unquote(name)] = array
            elif item == "length":
                sample[part][unquote(name)] = []
            else:  # items follow their length, in order
                sample[part][unquote(name)].append(array)
    return [samples[number] for number in sorted(samples)]


def rows(feeds: dict[str, Any], batched: bool) -> int:
    sizes = {array.shape[0] for array in feeds.values() if not isinstance(array, list) and array.ndim}
    return sizes.pop() if batched and len(sizes) == 1 else 1


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_integrity(folder: Path) -> None:
    """Every file but SHA256SUMS is listed in it and has that digest; nothing else is there."""
    problems = []
    listed: dict[str, str] = {}
    try:
        *lines, rest = (folder / "SHA256SUMS").read_bytes().decode("utf-8").split("\n")  # no other byte ends a line
        problems += ["SHA256SUMS is cut off"] * bool(rest)
        for line in lines:
            digest, separator, name = line.partition("  ")
            if not separator or name in listed:
                problems.append(f"SHA256SUMS has a damaged line: {line[:80]!r}")
            listed[name] = digest
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"SHA256SUMS cannot be read ({error})")
    present = set()
    for base, folders, files in os.walk(folder):
        names = [*files, *(name for name in folders if Path(base, name).is_symlink())]
        present |= {Path(base, name).relative_to(folder).as_posix() for name in names}
    problems += [f"{name} is not listed" for name in sorted(present - listed.keys() - {"SHA256SUMS"})]
    problems += [f"{name} is missing" for name in REQUIRED if name not in listed]
    for name, digest in sorted(listed.items()):
        path = folder / name
        if name not in present or path.is_symlink():
            problems.append(f"{name} is missing")
        elif file_digest(path) != digest:
            problems.append(f"{name} has been changed")
    if problems:
        hint = "Fetch the artifact again; never repair it by hand."
        raise Failure(10, "ArtifactDamaged", "; ".join(problems), hint)


def terms_on(provider: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The session's settings and the bounds on a provider, whose name may also stand for a kind of machine."""
    settings, known, own = dict(DATA["session"]), DATA["providers"], DATA["own"].get(provider, {})
    if provider not in known:
        hint = f"Choose one of: {', '.join(known)}."
        raise Failure(9, "NotAvailable", f"provider {provider!r} is not known", hint)
    row, system, machine = known[provider], platform.system().lower(), platform.machine().lower()
    here = {"system": SYSTEMS.get(system, system), "machine": MACHINES.get(machine, machine)}
    if any(row[key] not in ("", here[key]) for key in here):
        wanted = " ".join(row[key] for key in here if row[key])
        message = f"{provider} stands for {wanted}, and this machine is {' '.join(here.values())}"
        raise Failure(9, "NotAvailable", message, "Run it on such a machine, or name another provider: --provider P.")
    if provider != settings["provider"]:
        settings |= {"provider": provider, "execution_provider": row["execution_provider"], "placement": None}
        settings["options"] = row["options"] | own.get("options", {})
        if (other := settings.get("fallback")) and other["provider"] == provider:
            settings["graph_level"] = other["graph_level"]
    return settings, own.get("bounds", DATA["bounds"])


def recorded_provider() -> str:
    """What the artifact was chosen for; where this machine lacks it, what the same file was proved on too."""
    session = DATA["session"]
    other = session.get("fallback")
    missing = other and session["execution_provider"] not in available_providers()
    return str(other["provider"] if missing else session["provider"])


def validate(folder: Path, reference: str | None, provider: str | None) -> dict[str, Any]:
    check_integrity(folder)
    plan = DATA["plan"]
    try:
        settings, bounds = terms_on(provider or recorded_provider())
        session = load(
            folder / "model_opt.onnx", settings, "Check that this onnxruntime is not older than the recorded one."
        )
        samples = read_golden(folder / "golden.npz")
        report = compare_golden(session, samples, plan, bounds)
        placed = proved_placement(session, folder / "model_opt.onnx", settings, samples[0]["inputs"] if samples else {})
        if reference:
            source = load(reference, as_written(settings), "Give the ONNX file this artifact was built from.")
            report = merge(report, compare_fresh(session, source, plan, bounds, len(plan["sets"])))
    except ImportError as error:
        raise Failure(9, "NotAvailable", f"{error.name} is not installed", "pip install numpy onnxruntime") from None
    passed = bool(report["outputs"]) and all(output["passed"] for output in report["outputs"])
    if report["accuracy"] is not None:
        passed = passed and report["accuracy"]["passed"]
    verdict = "equivalent" if passed else "different"
    emulated = DATA["providers"][settings["provider"]]["emulated"]
    where = {"provider": settings["provider"], "emulated": emulated, "placement": counted(placed)}
    return {"verdict": verdict, "integrity": "ok", **where, **report}


def compare_golden(
    session: Any, samples: list[dict[str, Any]], plan: dict[str, Any], bounds: dict[str, Any]
) -> dict[str, Any]:
    """The model against the source's own answers."""
    comparison, accuracy = Comparison(), Accuracy()
    found = None
    for sample in samples:
        found = attempt(session, carry(plan.get("states", []), sample, found), "model_opt.onnx")
        comparison.add(sample["outputs"], found, rows(sample["inputs"], plan["batched"]))
        if sample["labels"] is not None:
            accuracy.add(sample["labels"], sample["outputs"], found)
    judged = accuracy.result(bounds["default"].get("max_accuracy_drop"))
    return {"samples": comparison.samples, "outputs": comparison.outputs(bounds), "accuracy": judged}


def compare_fresh(
    session: Any, source: Any, plan: dict[str, Any], bounds: dict[str, Any], count: int
) -> dict[str, Any]:
    """The model against a reference on inputs that neither has seen."""
    if not plan["sets"] or count < 1:
        hint = "Leave --reference out: no input can be made up for this model, only golden.npz has some."
        raise Failure(8, "NotProven", "there are no fresh inputs to compare on", hint)
    wanted, taken = ({value.name for value in each.get_inputs()} for each in (session, source))
    if wanted != taken:
        message = f"the reference takes inputs {sorted(taken)}, the artifact's model {sorted(wanted)}"
        raise Failure(4, "SourceError", message, "Give the ONNX file this artifact was built from.")
    comparison, states = Comparison(), plan.get("states", [])
    expected = found = None
    for number in range(count):
        again, index = divmod(number, len(plan["sets"]))
        sample = {"inputs": make_inputs(plan, [plan["seed"], again + 1], index)}
        sample["follows"] = plan["sets"][index].get("follows", False)
        if sample["follows"] and expected is None:
            continue  # the step before it was refused
        try:
            expected = run(source, carry(states, sample, expected))
        except runtime_errors():
            expected = found = None
            continue  # outside the reference's own domain
        found = attempt(session, carry(states, sample, found), "model_opt.onnx")
        comparison.add(expected, found, rows(sample["inputs"], plan["batched"]))
    if not comparison.samples:
        hint = "Give the ONNX file this artifact was built from."
        raise Failure(4, "SourceError", "the reference refuses every fresh input", hint)
    outputs = [output | {"name": f"{output['name']} (fresh)"} for output in comparison.outputs(bounds)]
    if all(output["passed"] and output["vacuous"] for output in outputs):
        hint = "Compare on real inputs: build with data.samples that tell models apart."
        raise Failure(8, "NotProven", "every output is constant over the fresh inputs: that proves nothing", hint)
    return {"samples": comparison.samples, "outputs": outputs, "accuracy": None}


def merge(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    samples, outputs = one["samples"] + other["samples"], one["outputs"] + other["outputs"]
    return {"samples": samples, "outputs": outputs, "accuracy": one["accuracy"]}


def as_written(settings: dict[str, Any]) -> dict[str, Any]:
    """How the source is run: on the CPU, with no graph optimization."""
    plain = {"provider": "cpu", "execution_provider": CPU, "options": {}, "graph_level": "disabled"}
    return settings | plain


def load(path: Path | str, settings: dict[str, Any], hint: str) -> Any:
    try:
        return open_session(path, settings)
    except runtime_errors() as error:
        raise Failure(4, "SourceError", f"{Path(path).name} cannot be loaded: {error}", hint) from None


def attempt(session: Any, feeds: dict[str, Array], name: str) -> dict[str, Array]:
    try:
        return run(session, feeds)
    except runtime_errors() as error:
        hint = "Check that this onnxruntime is at least as new as the one in metadata.yaml."
        raise Failure(4, "SourceError", f"{name} cannot be run: {error}", hint) from None


def show(data: dict[str, Any]) -> None:
    title = f"{DATA['model_name']} artifact_v{DATA['version']}"
    emulated = ", emulated" if data["emulated"] else ""
    print(f"{title}: {data['verdict']} on {data['samples']} samples, provider {data['provider']}{emulated}")
    print(f"{'output':<32} {'max |Δ|':>10} {'error':>10} {'bound':>10} {'rel L2':>10}  verdict")
    for output in data["outputs"]:
        numbers = [output[key] for key in ("max_abs", "max_error", "bound", "rel_l2")]
        cells = " ".join(f"{'–' if number is None else format(number, '.2e'):>10}" for number in numbers)
        plain = "ok, but constant over all samples" if output["vacuous"] else "ok"
        print(f"{output['name'][:32]:<32} {cells}  {output['reason'] or plain}")
    if data["accuracy"] and "drop" in data["accuracy"]:
        accuracy = data["accuracy"]
        shown = f"source {accuracy['source']:.4f}, this model {accuracy['candidate']:.4f}"
        print(f"accuracy on {accuracy['samples']} labelled samples: {shown}, drop {accuracy['drop']:+.4f}")


def keep_stdout() -> None:
    """What libraries print there goes to stderr: with --json, stdout holds one document."""
    sys.stdout.flush()
    own = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding)
    os.dup2(2, 1)
    sys.stdout = own


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", metavar="FILE", help="the source as an ONNX file")
    parser.add_argument("--provider", metavar="P", help="cpu, openvino, cuda, …")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    arguments = parser.parse_args()
    keep_stdout()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    code, data, error = 0, {}, None
    try:
        data = validate(Path(__file__).resolve().parent, arguments.reference, arguments.provider)
        if data["verdict"] == "different":
            hint = "The table names the outputs; python validate.py --json has every number."
            raise Failure(6, "NotEquivalent", "the model does not answer as its source did", hint)
    except Failure as failure:
        code = failure.code
        error = {"name": failure.name, "message": str(failure), "hint": failure.hint}
        if failure.name == "ArtifactDamaged":
            data = {"verdict": "different", "integrity": "damaged"}
    if arguments.json:
        document = {"ok": code == 0, "exit_code": code, "command": "validate", "error": error, "data": data}
        print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
    elif data.get("outputs"):
        show(data)
    if error:
        print(f"{error['name']}: {error['message']}\nNext: {error['hint']}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
