"""Whether a fault is real: by plain ONNX Runtime and numpy on inputs that the proof does not use."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from artifactctl.backends import core, proof
from artifactctl.backends.patch import Patch, plain_session

QUESTIONS = 24
DRAWS = 1_000_000  # far from the draws of any plan
NO_EFFECT = "no answer changes clearly"
CLEARLY = 1.5e-3  # a difference that the default bound of 1e-3 must not let pass

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=1)
def peaks_of(host: str, plan: str, samples: str, outputs: tuple[str, ...]) -> dict[str, float]:
    """The largest magnitude that both the proof and the check that a fault is real meet."""
    stored = [proof.read_sample(file)["outputs"] for file in sorted(Path(samples).glob("*.npz"))]
    fresh = [answers for _, answers in _questions(host, plan)]
    peaks = {name: min(_peak(stored, name), _peak(fresh, name)) for name in outputs}
    return {name: peak for name, peak in peaks.items() if peak}


def _peak(answers: list[dict[str, Any]], name: str) -> float:
    sizes = [np.abs(np.asarray(entry.get(name, 0.0), np.float64)) for entry in answers]
    return max((float(size[np.isfinite(size)].max(initial=0.0)) for size in sizes), default=0.0)


def harmless(host: str, plan: str, patch: Patch, path: Path) -> str | None:
    """Why a model does not count as wrong, or None; by plain ONNX Runtime and numpy, apart from the proof."""
    asked, saved = _questions(host, plan), False
    try:
        patch.save(path)
        saved = True
        session = plain_session(str(path))
        names = [output.name for output in session.get_outputs()]
        for feeds, answers in asked:
            found = dict(zip(names, session.run(None, feeds), strict=True))
            if found.keys() != answers.keys() or any(apart(answers[name], found[name]) for name in names):
                return None
    except core.runtime_errors() as error:
        return None if saved and patch.outside else f"it does not run ({str(error).splitlines()[0][:200]})"
    return NO_EFFECT


@lru_cache(maxsize=1)
def _questions(host: str, plan: str) -> list[tuple[dict[str, Array], dict[str, Any]]]:
    """Inputs that the proof does not use, at its sizes and at others, and what the host answers."""
    known: dict[str, Any] = json.loads(plan)
    sets = list({(entry["kind"], *entry["dims"].items()): entry for entry in known["sets"]}.values())
    base: dict[str, Any] = known["sets"][0] if known["sets"] else {"kind": "normal", "dims": {}}
    others = [base | {"dims": base["dims"] | {symbol: size + 1}} for symbol, size in base["dims"].items()]
    session, asked = plain_session(host), []
    names = [output.name for output in session.get_outputs()]
    for number, entry in enumerate([*sets[: QUESTIONS - len(others)], *others]):
        for draw in range(4):
            fresh = {"kind": entry["kind"], "dims": entry["dims"], "draw": DRAWS + 4 * number + draw}
            feeds = core.make_inputs(known | {"sets": [fresh]}, [known["seed"]], 0)
            try:
                asked.append((feeds, dict(zip(names, session.run(None, feeds), strict=True))))
                break
            except core.runtime_errors():  # outside its domain
                continue
    return asked


def apart(one: Any, other: Any) -> bool:
    """Whether two answers differ so far that no proof may let it pass."""
    if isinstance(one, dict):
        return one.keys() != other.keys() or any(apart(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) != len(other) or any(apart(*pair) for pair in zip(one, other, strict=True))
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype != b.dtype or a.shape != b.shape:
        return True
    if a.dtype.kind != "f":
        return not np.array_equal(a, b)
    a, b = a.astype(np.float64), b.astype(np.float64)
    odd = ~np.isfinite(a)
    if not np.array_equal(odd, ~np.isfinite(b)) or not np.array_equal(a[odd], b[odd], equal_nan=True):
        return True
    return bool(np.any(np.abs(a - b)[~odd] > CLEARLY * np.maximum(1.0, np.abs(a[~odd]))))
