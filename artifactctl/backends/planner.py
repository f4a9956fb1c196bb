"""Collects the sets of inputs that a model is tried on, asking the model itself which it takes."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from artifactctl.backends import core, lattice
from artifactctl.backends.consumers import DECLARED, GUESSED
from artifactctl.backends.messages import first_line
from artifactctl.backends.states import continue_sequence
from artifactctl.errors import NO_MEMORY_HINT, SourceError

KINDS = ("normal", "uniform", "normal", "uniform", "outlier")
STARTS = (0, 1, 4)  # of the kinds: where sequences of a model with state begin
REDRAWS = 4  # a draw that is refused may only have been an unlucky one
SHORT, TRIALS, MOST_TAKEN = 9, 4000, 8  # elements of an input, tries, and what is enough
REACH = (4, 16, 64, 256)  # times the base size
MOST_FACTORS = 6  # free dimensions that are combined in pairs; further ones are tried one by one


class Planner:
    """Collects sets of inputs in `plan`, asking the model itself which it takes."""

    def __init__(
        self,
        session: Any,
        probe: bool,
        inputs: list[dict[str, Any]],
        outputs: list[dict[str, Any]],
        batch: set[str],
        seed: int,
    ) -> None:
        self._free_axes = {
            (value["name"], axis)
            for value in outputs
            for axis, size in enumerate(value["shape"] or ())
            if axis and not isinstance(size, int)
        }
        self._session, self._judge, self._batch = session, session if probe else None, batch
        self._symbols, self._sums = lattice.symbols_of(inputs)
        images = [spec.pop("image", False) for spec in inputs]
        self._kinds = (*KINDS, *(["pixels"] if any(images) else []))
        self._kinds += ("edges", "edges") if any(spec.get("edges") for spec in inputs) else ()
        self.plan: dict[str, Any] = {"inputs": inputs, "seed": seed, "draws": 0, "sets": [], "batched": False}
        self.plan |= {"states": [], "batch_axes": {}, "outside": [], "branches": [], "unwatched_branches": 0}
        self.plan |= {"single_size": []}

    @property
    def guesses(self) -> list[lattice.Dims]:
        return [self._whole(dims) for dims in lattice.guesses(self.plan, self._symbols, self._batch, {})]

    def make(self, states: list[dict[str, str]], data: lattice.Dims | None) -> bool:
        """Whether inputs can be made up at all; `data`: the sizes of the user's own samples, if there are any."""
        own = [dict(spec) for spec in self.plan["inputs"]]
        for spec in self.plan["inputs"]:
            for pair in states:
                if pair["input"] == spec["name"]:
                    fed = (
                        f"state: zero at the start of a sequence, then what {pair['output']!r} gave; else {spec['why']}"
                    )
                    spec |= {"state": True, "why": fed}
        self.plan["states"] = states
        base = self._base_dims(data or {}, optional=data is not None)
        if base is None:
            return False  # only the user's own data fit
        kinds = self._kinds if self.plan["inputs"] else KINDS[:1]
        for position, kind in enumerate(kinds):
            starts = bool(states) and position in STARTS
            self._add(kind, base, draws=4 * REDRAWS, rest=starts)  # these must be found
            if starts and not continue_sequence(self.plan, self._session, self._sums):
                # what looked like state is none: everything once more, without it
                self.plan |= {"inputs": own, "sets": [], "outside": [], "draws": 0}
                return self.make([], data)
        if self.plan["inputs"]:
            self._add_batches(base)
            self._add_lattice(base)
        return True

    def _whole(self, dims: lattice.Dims) -> lattice.Dims:
        return lattice.complete(dims, self._sums)

    def _feeds(self, entry: dict[str, Any]) -> dict[str, Any]:
        feeds: dict[str, Any] = core.make_inputs(self.plan | {"sets": [entry]}, [self.plan["seed"]], 0)
        return feeds

    def _add(self, kind: str, dims: lattice.Dims, draws: int = REDRAWS, rest: bool = False) -> bool:
        """Append a set; one that the judge refuses is drawn anew a few times, then recorded as outside the domain.

        With `rest` states are zero; else they are drawn too, unless the model takes no such state. Integers of which
        nothing is known are wide at first, then narrow.
        """
        plan, message, dims = self.plan, None, self._whole(dims)
        for turn in range(draws):
            entry: dict[str, Any] = {"kind": kind, "dims": dims, "draw": plan["draws"]}
            if rest or (plan["states"] and turn >= draws // 2):
                entry["rest"] = True
            if turn >= draws // 2 and any(spec.get("wide") for spec in plan["inputs"]):
                entry["narrow"] = True
            plan["draws"] += 1
            message = _refusal(self._judge, self._feeds(entry)) if self._judge else None
            if message is None:
                plan["sets"].append(entry)
                return True
        plan["outside"].append({"dims": dims, "message": str(message).splitlines()[0][:300]})
        return False

    def _add_batches(self, base: lattice.Dims) -> None:
        """Every kind of input in a larger batch; for a framework, which is asked later, more than one size."""
        for position, sizes in enumerate(lattice.larger_batches(base, self._batch)):
            if self._judge is None and position >= len(lattice.BATCHES):
                break
            if self._add(KINDS[0], sizes, rest=bool(self.plan["states"])):
                self.plan["batched"] = True
                self._batch = {symbol for symbol in base if sizes[symbol] != base[symbol]}  # under whatever names
                if self.plan["states"]:
                    continue_sequence(self.plan, self._session, self._sums)
                first = self._judge is not None or position == 0
                for kind in self._kinds[1:] if first else KINDS[1:2]:
                    self._add(kind, sizes)
                if self._judge is not None:
                    break
        for spec in self.plan["inputs"]:
            axes = [axis for axis, size in enumerate(spec["shape"]) if size in self._batch]
            if axes:
                self.plan["batch_axes"][spec["name"]] = axes[0]

    def _add_lattice(self, base: lattice.Dims) -> None:
        """Each free dimension at several sizes, alone and then in pairs; a batch under many names is one of them."""
        batch = sorted(self._batch & set(base))
        groups = {group[0]: group for group in [batch, *([name] for name in base if name not in batch)] if group}
        found = {name: self._levels_alone(base, group) for name, group in groups.items()}
        tied = [name for name, sizes in found.items() if len(sizes) < 2]
        if len(tied) > 1 and self._judge is not None:
            self._move_together(base, tied)
        factors = {name: sizes for name, sizes in found.items() if len(sizes) > 1}
        factors = dict(list(factors.items())[:MOST_FACTORS])

        def widen(levels: lattice.Dims) -> lattice.Dims:
            return base | {symbol: size for name, size in levels.items() for symbol in groups[name]}

        if len(factors) > 1:
            for row in lattice.pairwise(list(factors.values())):
                self._add_size(widen(dict(zip(factors, row, strict=True))))
            for pair in list(lattice.open_pairs(factors, [entry["dims"] for entry in self.plan["sets"]])):
                self._add_size(widen(pair))
        if self._judge is not None:
            ran = [entry["dims"] for entry in self.plan["sets"]]
            self.plan["single_size"] = [
                name for name in base if name not in batch and len({dims[name] for dims in ran}) < 2
            ]

    def _levels_alone(self, base: lattice.Dims, group: list[str]) -> list[int]:
        """The sizes that a dimension takes while the others stay."""
        size, is_batch = base[group[0]], group[0] in self._batch
        levels = lattice.levels(size, is_batch) + ([] if is_batch else self._reach(base, group))
        found = [other for other in levels if other == size or self._add_size(base | dict.fromkeys(group, other))]
        if len(found) < 2 and not is_batch:
            steps = [size * times + more for times, more in lattice.STEPS]
            for other in steps:
                if len(found) < 2 and self._add_size(base | dict.fromkeys(group, other)):
                    found.append(other)
        return found

    def _reach(self, base: lattice.Dims, group: list[str]) -> list[int]:
        """The size from which an output has more than one of something: frames, windows, boxes."""
        single = self._single_axes(base)
        if not single or any(
            len(spec["shape"]) > 3 for spec in self.plan["inputs"] if set(group) & set(map(str, spec["shape"]))
        ):
            return []
        for times in REACH:
            size = base[group[0]] * times
            dims = base | dict.fromkeys(group, size)
            if lattice.elements(self.plan["inputs"], self._whole(dims)) > lattice.LARGEST_INPUT:
                break
            if self._single_axes(dims) < single:
                for kind in (*self._kinds, "scales", "scales"):  # here the model shows more than at its base size
                    self._add(kind, dims)
                return [size]
        return []

    def _single_axes(self, dims: lattice.Dims) -> set[tuple[str, int]]:
        """Axes of outputs that are declared free, and are 1."""
        entry = {"kind": "normal", "dims": self._whole(dims), "draw": 0, "rest": True, "narrow": True}
        try:
            found = core.run(self._session, self._feeds(entry))
        except core.runtime_errors():
            return set(self._free_axes)
        return {(name, axis) for name, axis in self._free_axes if name in found and found[name].shape[axis] == 1}

    def _move_together(self, base: lattice.Dims, tied: list[str]) -> None:
        levels = {symbol: lattice.levels(base[symbol], False) for symbol in tied}
        places = range(1, max(map(len, levels.values())))
        tries = [{symbol: sizes[min(place, len(sizes) - 1)] for symbol, sizes in levels.items()} for place in places]
        tries += [{symbol: base[symbol] * times + more for symbol in tied} for times, more in lattice.STEPS]
        moved = 0
        for sizes in tries:
            moved += moved < len(tries) // 2 and self._add_size(base | sizes)

    def _add_size(self, dims: lattice.Dims) -> bool:
        dims = self._whole(dims)
        if any(entry["dims"] == dims for entry in self.plan["sets"]):
            return True
        if any(entry["dims"] == dims for entry in self.plan["outside"]):
            return False
        if lattice.elements(self.plan["inputs"], dims) > lattice.LARGEST_INPUT:
            return False
        return self._add(KINDS[len(self.plan["sets"]) % 2], dims)

    def _base_dims(self, data: lattice.Dims, *, optional: bool) -> lattice.Dims | None:
        """Sizes at which the model runs."""
        message = ""
        for limit in (None, 9, 1):
            if limit is not None and not self._narrow(limit):
                break
            for guess in lattice.guesses(self.plan, self._symbols, self._batch, data):
                dims = self._whole(guess)
                if lattice.elements(self.plan["inputs"], dims) > lattice.LARGEST_INPUT and message:
                    continue
                for draw in range(REDRAWS):
                    entry = {"kind": "normal", "dims": dims, "draw": draw, "rest": True, "narrow": True}
                    message = _refusal(self._session, self._feeds(entry)) or ""
                    if not message:
                        return guess
        if optional:
            return None
        if (found := self._by_trial()) is not None:
            return found
        if re.search(r"bad_alloc|allocate memory|Unable to allocate", message):
            raise SourceError(f"out of memory: {message}", hint=NO_MEMORY_HINT)
        hint = (
            "No made-up input fits. Give real ones in artifactctl.yaml: data: {samples: FILE.npz}, "
            "and their sizes: source: {onnx: FILE, inputs: {NAME: {shape: […], dtype: …}}}."
        )
        raise SourceError(
            f"ONNX Runtime cannot run it: it refuses every input that was tried; the last reason: {message}", hint=hint
        )

    def _by_trial(self) -> lattice.Dims | None:
        """Short integer inputs whose elements depend on each other (shapes, axes, sizes), as the model takes them."""
        short = [
            spec for spec in self.plan["inputs"]
            if spec["fill"] == "range" and "int" in spec["dtype"] and spec["why"] != DECLARED
            and not spec.get("sequence") and all(isinstance(size, int) for size in spec["shape"])
            and lattice.elements([spec], {}) <= SHORT
        ]  # fmt: skip
        guess = next(lattice.guesses(self.plan, self._symbols, self._batch, {}))
        dims, dice = self._whole(guess), np.random.default_rng([self.plan["seed"], TRIALS])
        taken: list[dict[str, list[int]]] = []
        for draw in range(TRIALS if short else 0):
            feeds = self._feeds({"kind": "normal", "dims": dims, "draw": draw, "rest": True})
            for spec in short:
                low = 0 if spec["dtype"].startswith("u") else -2
                feeds[spec["name"]] = dice.integers(low, SHORT, tuple(spec["shape"])).astype(spec["dtype"])
            if _refusal(self._session, feeds) is None:
                taken.append({spec["name"]: feeds[spec["name"]].reshape(-1).tolist() for spec in short})
                if len(taken) == MOST_TAKEN:
                    break
        for spec in short if taken else ():
            del spec["range"]
            spec |= {"fill": "arrays", "arrays": [entry[spec["name"]] for entry in taken], "why": "found by trial"}
        return guess if taken else None

    def _narrow(self, limit: int) -> bool:
        """Integers become smaller: sizes, counts and flags accept that more often. The user's word stays."""
        before = json.dumps(self.plan["inputs"])
        for spec in self.plan["inputs"]:
            if spec["fill"] == "range" and "int" in spec["dtype"] and spec["why"] != DECLARED:
                low, high = (0, limit) if spec["why"] == GUESSED else spec["range"]
                spec["range"] = [low, max(low, min(high, limit))]
        return before != json.dumps(self.plan["inputs"])


def _refusal(session: Any, feeds: dict[str, Any]) -> str | None:
    try:
        core.run(session, feeds)
    except core.runtime_errors() as error:
        return first_line(error)
    return None
