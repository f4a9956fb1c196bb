"""Which layers become int8: those that spare the most work for the error they add. Pure: numbers in, a set out.

A strain is an error measured by its bound: 1 is at the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

AIM = 0.8  # of the bound, for a set that is only predicted
ROOM = 0.9  # of the bound, for one that was proved: it was chosen on these very samples, and others may be worse
ENOUGH = 0.05  # of all multiplications: what is not worth another try
SMALL_REL_L2 = 1e-2  # of the contract, for outputs that are all small
OVER = 1.01


@dataclass(frozen=True, slots=True)
class Cost:
    """What a set of layers adds to the outputs: the largest error as the contract bounds it, and its strain."""

    error: float | None  # None where the answers cannot be compared
    strain: float


@dataclass(frozen=True, slots=True)
class Layer:
    name: str
    operator: str
    share: float  # of the multiplications of the model
    alone: Cost


@dataclass(frozen=True, slots=True)
class Link:
    """A layer, and the predicted cost of it together with all before it."""

    layer: Layer
    total: Cost


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was found of the first `size` layers when they were quantized for real."""

    size: int
    strain: float
    holds: bool


def cost_of(outputs: Iterable[Mapping[str, Any]], bounds: Mapping[str, Any]) -> Cost:
    found = list(outputs)
    errors = [output["max_error"] for output in found]
    strains = [_strain(output, bounds["outputs"].get(output["name"]) or bounds["default"]) for output in found]
    error = None if None in errors else max(errors, default=0.0)
    return Cost(error, max(strains, default=0.0))


def _strain(output: Mapping[str, Any], bound: Mapping[str, Any]) -> float:
    if output["max_error"] is None:
        return 0.0 if output["passed"] else math.inf
    parts = [output["max_error"] / output["bound"]] if output["bound"] else []
    if (least := bound.get("min_cosine")) is not None and output["cosine"] is not None:
        parts.append(math.sqrt(max(0.0, 1 - output["cosine"]) / max(1e-12, 1 - least)))  # it falls with the square
    if (least := bound.get("min_top1")) is not None and output["top1"] is not None:
        parts.append((1 - output["top1"]) / max(1e-12, 1 - least))
    found = max(parts) if parts else output["rel_l2"] or 0.0  # accuracy is counted over all samples, not by layer
    return found if output["passed"] else max(found, OVER, (output["rel_l2"] or 0.0) / SMALL_REL_L2)


def order(layers: Iterable[Layer]) -> list[Layer]:
    """The most work spared for the error added first. Errors of rounding add up by their squares.

    Two digits: what another machine computes a little differently must not decide.
    """

    def worth(layer: Layer) -> tuple[float, float, float]:
        strain = float(f"{layer.alone.strain:.1e}")
        return (layer.share / strain**2 if strain else math.inf, layer.share, -strain)

    return sorted(layers, key=worth, reverse=True)


def grow(ordered: Sequence[Layer], total: Callable[[list[str]], Cost]) -> list[Link]:
    """First the largest set that is predicted to stay inside the bound, layer by layer; then all the others.

    `total` predicts what a set costs. Of the others the cost is only estimated.
    """
    chain: list[Link] = []
    left: list[Layer] = []
    for layer in ordered:
        if layer.alone.strain <= AIM:
            cost = total([*(link.layer.name for link in chain), layer.name]) if chain else layer.alone
            if cost.strain <= AIM:
                chain.append(Link(layer, cost))
                continue
        left.append(layer)
    for layer in left:
        before = chain[-1].total if chain else Cost(0.0, 0.0)
        chain.append(Link(layer, _sum(before, layer.alone)))
    return chain


def _sum(one: Cost, other: Cost) -> Cost:
    unknown = one.error is None or other.error is None
    error = None if unknown else math.hypot(one.error or 0.0, other.error or 0.0)
    return Cost(error, math.hypot(one.strain, other.strain))


def next_size(chain: Sequence[Link], tried: Sequence[Attempt]) -> int | None:
    """How many layers of the chain to quantize next, or None when nothing is left that is worth a try.

    By what the predictions were worth so far, else by halving between what holds and what does not.
    """
    low = max((item.size for item in tried if item.holds), default=0)
    high = min((item.size for item in tried if not item.holds and item.size > low), default=len(chain) + 1)
    if high - low <= 1 or (low and sum(link.layer.share for link in chain[low : high - 1]) < ENOUGH):
        return None
    last = tried[-1] if tried else None
    factor = 1.0
    if last and 0 < last.size < len(chain) and math.isfinite(last.strain):
        factor = last.strain / (chain[last.size - 1].total.strain or math.inf)
    limit = AIM if factor == 1.0 else (AIM + ROOM) / 2
    wanted = sum(link.total.strain * factor <= limit for link in chain)
    return wanted if low < wanted < high else (low + high) // 2
