"""Looks for the input on which two models differ most: hill-climbing inside the domain of the plan."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from artifactctl.backends import core
from artifactctl.backends.again import open_model
from artifactctl.backends.messages import first_line
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.backends.rows import badness_of

FARTHEST = 30.0  # of a float that nothing limits: what the widest kind of sample reaches
LEAP = 0.1
RESTART_AFTER = 40  # tries without success

Array = np.ndarray[Any, Any]


def search_worst(
    path: str,
    reference: str,
    settings: dict[str, Any],
    bounds: dict[str, Any],
    plan: dict[str, Any],
    seconds: float,
    target: str,
) -> dict[str, Any]:
    """Climb from the sample with the largest error until the time ends; write the worst sample to `target`."""
    climber = Climber(open_model(path, settings), open_model(reference, core.as_written(settings)), bounds, plan)
    deadline = monotonic() + seconds
    starts = [index for index, entry in enumerate(plan["sets"]) if not entry.get("follows")]
    for index in starts:
        climber.look(core.make_inputs(plan, [plan["seed"]], index))
        if monotonic() > deadline:
            break
    begun = climber.best
    while monotonic() < deadline and climber.best.score != np.inf:
        climber.step(starts)
    best = climber.best
    if best.feeds is not None:
        sample = {"inputs": best.feeds, "outputs": best.expected, "labels": None, "follows": False}
        write_npz(Path(target), sample_arrays("00000", sample))
    return {
        "evaluations": climber.evaluations,
        "start": _finite(begun.score),
        "found": _finite(best.score),
        "outputs": best.outputs,
    }


def _finite(score: float) -> float | None:
    return float(score) if np.isfinite(score) else None


class Spot:
    """One input and how far the models lie apart on it; 1 is the bound."""

    def __init__(self, score: float, feeds: dict[str, Any] | None, expected: Any = None, outputs: Any = None) -> None:
        self.score, self.feeds, self.expected, self.outputs = score, feeds, expected, outputs or []


class Climber:
    def __init__(self, model: Any, source: Any, bounds: dict[str, Any], plan: dict[str, Any]) -> None:
        self._model, self._source, self._bounds, self._plan = model, source, bounds, plan
        self._rng = np.random.default_rng([plan["seed"], 7])
        self._width, self._failures = 0.3, 0
        self.best = self._here = Spot(-1.0, None)
        self.evaluations = 0

    def look(self, feeds: dict[str, Any]) -> Spot:
        """How far apart the models are; an input that the source refuses is outside its domain."""
        self.evaluations += 1
        try:
            expected = core.run(self._source, feeds)
        except core.runtime_errors():
            return Spot(-1.0, feeds)
        comparison = core.Comparison()
        try:
            comparison.add(expected, core.run(self._model, feeds))
            outputs = comparison.outputs(self._bounds)
            spot = Spot(max(map(badness_of, outputs), default=0.0), feeds, expected, outputs)
        except core.runtime_errors() as error:
            comparison.add(expected, {})
            why = {"reason": f"it cannot be run: {first_line(error)[:200]}"}
            spot = Spot(np.inf, feeds, expected, [output | why for output in comparison.outputs(self._bounds)])
        if spot.score > self.best.score:
            self.best = self._here = spot
        return spot

    def step(self, starts: list[int]) -> None:
        """A changed neighbour; after too many failures a fresh start elsewhere."""
        if self._here.feeds is None or self._failures > RESTART_AFTER:
            index = int(self._rng.choice(starts))
            fresh = core.make_inputs(self._plan, [self._plan["seed"], int(self._rng.integers(1 << 30))], index)
            self._here, self._width, self._failures = self.look(fresh), 0.3, 0
            return
        spot = self.look({spec["name"]: self._moved(spec) for spec in self._plan["inputs"]})
        if spot.score > self._here.score:
            self._here, self._failures, self._width = spot, 0, min(1.0, self._width * 1.3)
        else:
            self._failures, self._width = self._failures + 1, max(0.01, self._width * 0.93)

    def _moved(self, spec: dict[str, Any]) -> Any:
        assert self._here.feeds is not None
        value = self._here.feeds[spec["name"]]
        if isinstance(value, list) or not value.size or spec["fill"] in ("string", "bool", "mask"):
            return value
        chosen = self._rng.random(value.shape) < self._rng.choice([0.02, 0.2, 1.0])
        if value.dtype.kind == "f":
            far = max(FARTHEST, float(np.abs(value).max()))
            low, high = spec.get("range") or (-far, far)
            if spec["fill"] == "values":
                return np.where(chosen, self._rng.choice(np.asarray(spec["values"], value.dtype), value.shape), value)
            if self._rng.random() < LEAP:  # over what looks flat from here
                return np.where(chosen, self._rng.uniform(low, high, value.shape), value).astype(value.dtype)
            size = self._width * max(1e-3, float(np.abs(value).max()))
            moved = value + chosen * self._rng.standard_normal(value.shape) * size
            return np.clip(moved, low, high).astype(value.dtype)
        fresh = core.fill(spec, value.shape, "normal", self._rng)
        return np.where(chosen, fresh, value).astype(value.dtype)
