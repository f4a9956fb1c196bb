"""The sizes of free dimensions: which are tried first, which levels each one gets, and how levels are combined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, product
from math import prod
from typing import Any

SIZES = (1, 2, 8, 16, 32, 48, 64, 128, 224, 256, 512, 576, 1024, 4096, 16000)
BATCHES = (3, 4, 2)
STEPS = ((1, 3), (2, 0), (1, 8), (1, 16), (1, 32))  # times, plus: for sizes that must be multiples of something
LARGEST_INPUT = 16_000_000  # elements of all inputs together, beyond which no larger size is tried

Dims = dict[str, int]


def symbols_of(inputs: list[dict[str, Any]]) -> tuple[list[str], dict[str, list[str | int]]]:
    """The free symbols, and those that are sums of others: `past + sequence`, or a total that names itself so."""
    named = sorted({size for spec in inputs for size in spec["shape"] if isinstance(size, str)})
    sums: dict[str, list[str | int]] = {}
    for name in named:
        parts = [int(part) if part.isdigit() else part for part in re.split(r"\s*\+\s*", name)]
        if len(parts) > 1 and all(isinstance(part, int) or part in named for part in parts):
            sums[name] = list(parts)
    past = [name for name in named if "past" in name.lower() and name not in sums]
    fresh = [name for name in named if re.fullmatch(r"(sequence|seq)(_?len(gth)?)?", name.lower())]
    for name in named:
        if name.lower().startswith("total") and len(past) == len(fresh) == 1 and name not in sums:
            sums[name] = [past[0], fresh[0]]
    return [name for name in named if name not in sums], sums


def complete(dims: Dims, sums: dict[str, list[str | int]]) -> Dims:
    """With the sizes that follow from others."""
    known = {name: size for name, size in dims.items() if name not in sums}
    for name, parts in sums.items():
        known[name] = sum(part if isinstance(part, int) else dims.get(part, 0) for part in parts)
    return known


def guesses(plan: dict[str, Any], symbols: list[str], batch: set[str], data: Dims) -> Iterator[Dims]:
    """Sizes at which a model may run: by the data, by what the shapes look like, one size for all, then one by one."""
    if not symbols:
        yield {}
        return
    likely: Dims = {}
    for spec in plan["inputs"]:
        image = len(spec["shape"]) == 4 and spec["fill"] in ("float", "range")
        for size in spec["shape"]:
            if size in symbols and size not in likely:
                past = bool(spec.get("state")) and "past" in size.lower()  # a decoder's first step has none
                likely[size] = 1 if size in batch else 0 if past else 64 if image else 16
    yield likely | {name: size for name, size in data.items() if name in symbols}
    for size in SIZES:
        yield {symbol: 1 if symbol in batch else size for symbol in symbols}
    free = [symbol for symbol in symbols if symbol not in batch]
    if len(free) > 1:
        for symbol in free:
            for size in SIZES[2:]:
                yield {other: size if other == symbol else 1 for other in symbols}
    for size in SIZES[1:6]:
        yield dict.fromkeys(symbols, size)


def larger_batches(base: Dims, batch: set[str]) -> Iterator[Dims]:
    """Larger batches; sizes of 1 elsewhere may be the same batch under another name."""
    if not batch:
        return
    for size in BATCHES:
        yield base | dict.fromkeys(batch, size)
    for size in BATCHES:
        yield base | {symbol: size for symbol in base if symbol in batch or base[symbol] == 1}


def levels(base: int, is_batch: bool) -> list[int]:
    """The base size first, then 1, 2, an odd prime and a larger size."""
    prime = 3 if is_batch or base < 4 else 7 if base != 7 else 5
    larger = 8 if is_batch else max(2 * base, 8)
    return list(dict.fromkeys((base, 1, 2, prime, larger)))


def pairwise(factors: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Rows in which every two factors meet at every two of their levels: an orthogonal array over a prime field."""
    if len(factors) < 2:
        yield from product(*factors)
        return
    prime = max(*map(len, factors), len(factors) - 1)
    while any(prime % divisor == 0 for divisor in range(2, prime)):
        prime += 1
    seen = set()
    for first, second in product(range(max(prime, 2)), repeat=2):
        places = [first, *((second + first * times) % prime for times in range(len(factors) - 1))]
        row = tuple(factor[place % len(factor)] for factor, place in zip(factors, places, strict=True))
        if row not in seen:
            seen.add(row)
            yield row


def open_pairs(factors: dict[str, list[int]], tried: list[Dims]) -> Iterator[Dims]:
    """Pairs of levels that no set has yet."""
    for one, other in combinations(factors, 2):
        met = {(dims[one], dims[other]) for dims in tried}
        for pair in product(factors[one], factors[other]):
            if pair not in met:
                yield {one: pair[0], other: pair[1]}


def elements(inputs: list[dict[str, Any]], dims: Dims) -> int:
    total = 0
    for spec in inputs:
        total += prod(size if isinstance(size, int) else dims[size] for size in spec["shape"])
    return total
