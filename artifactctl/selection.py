"""Which layers become int8: those that spare the most work for the error they add. Pure: numbers in, a set out.

A strain is an error measured by its bound: 1 is at the bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

AIM = 0.8  # of the bound, for a set that is only predicted
ROOM = 0.9  # of the bound, for one that was proved: it was chosen on these very samples, and others may be worse
ENOUGH = 0.05  # of all multiplications: what is not worth another try
MOST_DROPPED = 2  # layers at a time, of a set that failed
SMALL_REL_L2 = 1e-2  # of the contract, for outputs that are all small
OVER = 1.01


@dataclass(frozen=True, slots=True)
class Cost:
    """What a set of layers adds to the outputs: the largest error as the contract bounds it, and its strain."""

    error: float | None  # None where the answers cannot be compared
    strain: float


@dataclass(frozen=True, slots=True)
class Layer:
    """Shares are of all multiplications of the model: what it multiplies, and what conversions cost beside that."""

    name: str
    operator: str
    share: float
    alone: Cost
    reads: float = 0.0  # to make its input int8
    writes: float = 0.0  # to make its output float again
    behind: str | None = None  # the layer whose int8 output it could read as it is
    followers: tuple[str | None, ...] = ()  # what reads its output; None is not a layer, and wants floats


def layer_of(entry: Mapping[str, Any], alone: Cost) -> Layer:
    known = {key: entry[key] for key in ("name", "operator", "share", "reads", "writes", "behind")}
    return Layer(alone=alone, followers=tuple(entry["followers"]), **known)


@dataclass(frozen=True, slots=True)
class Link:
    """A layer, what it saves beside all before it, and the predicted cost of them together."""

    layer: Layer
    saves: float
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


def saving(chosen: Mapping[str, Layer]) -> float:
    """Of a set. Between two of its layers nothing is converted."""
    found = 0.0
    for layer in chosen.values():
        found += layer.share
        found -= 0.0 if layer.behind in chosen else layer.reads
        found -= layer.writes if any(name not in chosen for name in layer.followers) else 0.0
    return found


def grow(layers: Sequence[Layer], total: Callable[[list[str]], Cost]) -> list[Link]:
    """First the largest set that is predicted to stay inside the bound, layer by layer: each time the one that saves
    most for the error it adds. Then all the others, whose cost is only estimated.

    `total` predicts what a set costs.
    """
    chain: list[Link] = []
    chosen: dict[str, Layer] = {}
    left = list(layers)
    waiting = [layer for layer in layers if layer.alone.strain <= AIM]
    while waiting:
        best = max(waiting, key=lambda layer: _worth(layer, chosen))
        if (saves := _saves(best, chosen)) <= 0:
            break
        waiting.remove(best)
        cost = total([*chosen, best.name]) if chosen else best.alone
        if cost.strain <= AIM:
            chosen[best.name] = best
            chain.append(Link(best, saves, cost))
            left.remove(best)
    while left:
        best = max(left, key=lambda layer: _worth(layer, chosen))
        before = chain[-1].total if chain else Cost(0.0, 0.0)
        chain.append(Link(best, _saves(best, chosen), _sum(before, best.alone)))
        chosen[best.name] = best
        left.remove(best)
    return chain


def _saves(layer: Layer, chosen: Mapping[str, Layer]) -> float:
    return saving({**chosen, layer.name: layer}) - saving(chosen)


def _worth(layer: Layer, chosen: Mapping[str, Layer]) -> float:
    """What it saves for the error it adds; errors of rounding add up by their squares.

    Two digits: what another machine computes a little differently must not decide.
    """
    saves, strain = _saves(layer, chosen), _rough(layer.alone.strain)
    if saves <= 0:
        return saves
    return saves / strain**2 if strain else math.inf


def _rough(strain: float) -> float:
    return float(f"{strain:.1e}")


def worst(failed: Mapping[str, Layer], strain: float, total: Callable[[list[str]], Cost]) -> list[str]:
    """The layers without which a set that failed with `strain` is predicted to hold: one, or a few. None where that
    does not help.

    `total` predicts what a set costs where that one failed. Of two that would do, the one that saves less goes.
    """
    whole, kept, dropped = total(list(failed)).strain, dict(failed), list[str]()
    scale = strain / whole if whole and math.isfinite(strain) and math.isfinite(whole) else 1.0
    while len(kept) > 1 and len(dropped) < MOST_DROPPED:
        rest = {name: total([other for other in kept if other != name]).strain * scale for name in kept}
        fitting = [name for name in kept if rest[name] <= (AIM + ROOM) / 2]
        lost = {name: saving(kept) - saving(_less(kept, name)) for name in kept}
        if fitting:
            return [*dropped, min(fitting, key=lambda name: lost[name])]
        dropped.append(min(kept, key=lambda name: (_rough(rest[name]), lost[name])))
        kept = _less(kept, dropped[-1])
    return []


def _less(layers: Mapping[str, Layer], name: str) -> dict[str, Layer]:
    return {other: layer for other, layer in layers.items() if other != name}


def without(chain: Sequence[Link], dropped: Sequence[str]) -> list[Link]:
    """The chain without these layers; what it costs behind them is estimated."""
    found, chosen, gone = list[Link](), dict[str, Layer](), Cost(0.0, 0.0)
    for link in chain:
        layer, before = link.layer, found[-1].total if found else Cost(0.0, 0.0)
        if layer.name in dropped:
            gone = _sum(gone, layer.alone)
            continue
        known = math.isfinite(link.total.strain)
        total = _difference(link.total, gone, before) if known else _sum(before, layer.alone)
        found.append(Link(layer, _saves(layer, chosen), total))
        chosen[layer.name] = layer
    return found


def _difference(total: Cost, gone: Cost, least: Cost) -> Cost:
    def less(one: float, other: float, smallest: float) -> float:
        return max(smallest, math.sqrt(max(0.0, one**2 - other**2)))

    error = None if total.error is None else less(total.error, gone.error or 0.0, least.error or 0.0)
    return Cost(error, less(total.strain, gone.strain, least.strain))


def useful(chain: Sequence[Link]) -> int:
    """How many layers of the chain save the most together."""
    sums = list(itertools.accumulate((link.saves for link in chain), initial=0.0))
    return max(range(len(sums)), key=sums.__getitem__)


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
    if high - low <= 1 or (low and sum(link.saves for link in chain[low : high - 1]) < ENOUGH):
        return None
    last = tried[-1] if tried else None
    factor = 1.0
    if last and last.size < len(chain) and math.isfinite(last.strain):
        factor = last.strain / (chain[last.size - 1].total.strain or math.inf)
    limit = AIM if factor == 1.0 else (AIM + ROOM) / 2
    wanted = sum(link.total.strain * factor <= limit for link in chain)
    return wanted if low < wanted < high else (low + high) // 2
