"""Batch invariance: a row alone gets the answer that it gets in its batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from artifactctl.backends import core

Array = np.ndarray[Any, Any]


class Rows:
    """Asks rows one by one, and compares with what they got together."""

    ENOUGH = 3  # rows of a batch

    def __init__(self, how: dict[str, Any]) -> None:
        self._axes: dict[str, int] = how["batch_axes"]
        self._comparison, self._refused = core.Comparison(), False

    def ask(self, session: Any, feeds: dict[str, Any], together: dict[str, Array]) -> None:
        if any(isinstance(feeds[name], list) for name in self._axes):
            return  # the items of a sequence are no rows
        sizes = {feeds[name].shape[axis] for name, axis in self._axes.items()}
        if len(sizes) != 1 or sizes == {1}:
            return
        size = sizes.pop()
        for row in range(min(size, self.ENOUGH)):
            single = {
                name: value.take([row], self._axes[name]) if name in self._axes else value
                for name, value in feeds.items()
            }
            try:
                alone = core.run(session, single)
            except core.runtime_errors():
                self._refused = True
                return
            for name, value in alone.items():
                if name in together and (axis := _batch_axis(value, together[name], size)) is not None:
                    self._comparison.add({name: together[name].take([row], axis)}, {name: value})

    def result(self, bounds: dict[str, Any]) -> dict[str, Any] | None:
        """None where nothing could be asked."""
        outputs = self._comparison.outputs(bounds)
        if self._refused or not outputs:
            return None
        worst = max(outputs, key=badness_of)
        reason = None if worst["passed"] else f"output {worst['name']!r}: {worst['reason']}"
        return {"checked": self._comparison.samples, "max_error": worst["max_error"], "reason": reason}


def _batch_axis(alone: Array, together: Array, size: int) -> int | None:
    """Along which the answers of the rows lie, or None."""
    if alone.ndim != together.ndim:
        return None
    for axis in range(alone.ndim):
        expected = [*together.shape[:axis], 1, *together.shape[axis + 1 :]]
        if together.shape[axis] == size and list(alone.shape) == expected:
            return axis
    return None


def badness_of(output: dict[str, Any]) -> float:
    """How bad an output is, measured by its bound."""
    if output["max_error"] is None:
        return 0.0 if output["passed"] else float("inf")
    return float(output["max_error"]) / (output["bound"] or 1.0) + (not output["passed"])
