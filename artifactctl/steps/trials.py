"""Sets of layers that are made int8 for real and proved, one after the other, until the largest that holds is found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from artifactctl.clock import Clock
from artifactctl.crew import Crew
from artifactctl.errors import SourceError
from artifactctl.passes import OlivePass
from artifactctl.records import Candidate, EquivalenceReport, ReferenceModel
from artifactctl.selection import (
    AIM,
    ENOUGH,
    MOST_DROPPED,
    ROOM,
    Attempt,
    Cost,
    Link,
    cost_of,
    next_size,
    saving,
    useful,
    without,
)
from artifactctl.steps.olive import attempt, is_no_answer
from artifactctl.steps.verify import bounds_of, put_to_proof

WORK_A_SECOND = 4e11 / 120  # multiplications that a search for errors may take, by optimize.budget_s: a quarter of it
LATE = "not tried: its time ended before the search for layers did (optimize.budget_s, or --time-limit)"
SHORTEST_S = 1.0  # of one set, when the time is nearly over
Entry = Mapping[str, Any]  # a layer, as backends/layers.py tells it, with its shares


@dataclass(frozen=True, slots=True)
class Question:
    reference: ReferenceModel
    source: Path  # what the pass will get; its nodes have names
    step: OlivePass
    calibration: tuple[str, ...]
    scratch: Path
    crew: Crew
    clock: Clock  # for the whole search

    @property
    def work(self) -> int:
        """Multiplications that measuring the errors of layers may take."""
        return int(WORK_A_SECOND * self.reference.source.config.budget_s)


@dataclass(frozen=True, slots=True)
class Made:
    """A set of layers in int8, for real."""

    names: tuple[str, ...]
    path: Path | None  # None where Olive failed, or its model cannot be run where it should
    report: EquivalenceReport | None
    cost: Cost
    predicted: float | None = None  # its error
    dropped: tuple[str, ...] = ()  # layers that came before its last one in the order, and were to blame
    died: str = ""  # how Olive's process ended over it: that says nothing about the set

    @property
    def holds(self) -> bool:
        return self.report is not None and self.report.passed and self.cost.strain <= ROOM


def make(question: Question, layers: Sequence[Entry], number: int = 0) -> Made:
    step, reference, crew = question.step, question.reference, question.crew
    names = tuple(layer["name"] for layer in layers)
    made = attempt(
        crew, "olive_pass", max(SHORTEST_S, question.clock.left), name=step.type,
        config={**step.config, "nodes_to_quantize": nodes_of(layers)},
        source=str(question.source), folder=str(question.scratch / f"set-{number}"),
        calibration=list(question.calibration),
    )  # fmt: skip
    if isinstance(made, str):
        return Made(names, None, None, Cost(None, math.inf), died=made if is_no_answer(made) else "")
    path = Path(made["path"])
    report = put_to_proof(reference, Candidate("int8-partial", path, made["precision"]), crew).equivalence
    if report is None or not report.outputs:  # it could not be run
        return Made(names, path if report else None, report, Cost(None, math.inf))
    return Made(names, path, report, cost_of(map(asdict, report.outputs), bounds_of(reference.equivalence)))


def why_cut(question: Question, made: Made) -> str:
    return LATE if question.clock.left <= 0 else f"the search for layers ended early: {made.died}"


def nodes_of(layers: Sequence[Entry]) -> list[str]:
    return [name for layer in layers for name in (layer["name"], *layer["carries"])]


def switched(question: Question, quantized: Path, layers: Sequence[Entry], samples: Sequence[str]) -> dict[str, Any]:
    """What backends/sensitivity.py needs to know."""
    return {
        "plain": str(question.source),
        "quantized": str(quantized),
        "layers": list(layers),
        "samples": list(samples),
        "settings": asdict(question.reference.session),
        "bounds": bounds_of(question.reference.equivalence),
    }


class Search:
    """Sets are the first so many layers of the order. Where one fails, what is to blame leaves the order, if it is a
    layer or two; else the set gets smaller from its end."""

    def __init__(self, question: Question, layers: Sequence[Entry], order: list[Link], whole: Made) -> None:
        self.order, self.tried = order, [replace(whole, predicted=order[-1].total.error)]
        self._question, self._entries, self._left = question, layers, order
        self._layers = {link.layer.name: link.layer for link in order}
        self.cut = ""  # why it ended before it was over

    @property
    def promising(self) -> bool:
        return self.order[0].total.strain <= AIM

    @property
    def best(self) -> Made | None:
        holding = [item for item in self.tried if item.holds and self._saves(item.names) > 0]
        return max(holding, key=lambda item: (self._saves(item.names), -len(item.names)), default=None)

    def share(self, item: Made) -> float:
        return sum(self._layers[name].share for name in item.names)

    def step(self) -> bool:
        """One set more; False when nothing is left that is worth a try, or it is cut."""
        if dropped := self._to_blame(self.tried[-1]):
            self._left = without(self._left, dropped)
            size: int | None = len(self.tried[-1].names) - len(dropped)
        else:
            most = useful(self._left)
            size = next_size(self._left[:most], self._known(most))
        if size is None:
            return False
        if self._question.clock.left <= 0:
            self.cut = LATE
            return False
        names = [link.layer.name for link in self._left[:size]]
        made = make(self._question, [entry for entry in self._entries if entry["name"] in names], len(self.tried))
        if made.died:
            self.cut = why_cut(self._question, made)
            return False
        place = [link.layer.name for link in self.order].index(names[-1])
        dropped = [link.layer.name for link in self.order[:place] if link.layer.name not in names]
        self.tried.append(replace(made, predicted=self._left[size - 1].total.error, dropped=tuple(dropped)))
        return True

    def _saves(self, names: Sequence[str]) -> float:
        return saving({name: self._layers[name] for name in names})

    def _known(self, most: int) -> list[Attempt]:
        """What was tried of the order as it is now. All of it failed with what has left it since, and would again where
        that is what was predicted."""
        names = [link.layer.name for link in self._left[:most]]
        predicted = self._left[most - 1].total.strain if most else 0.0
        failed = [Attempt(most, predicted, holds=False)] if self._left is not self.order and predicted > 1 else []
        return failed + [
            Attempt(len(item.names), item.cost.strain, item.holds)
            for item in self.tried
            if set(item.names) == set(names[: len(item.names)])
        ]

    def _affords(self, layers: int, sample: Path) -> bool:
        """Each of them is left out in turn, and the sample may be many times as large as those to calibrate with."""
        larger = sample.stat().st_size / Path(self._question.calibration[0]).stat().st_size
        once: float = sum(entry["multiplications"] for entry in self._entries) * max(1.0, larger)
        return MOST_DROPPED * layers * once <= self._question.work

    def _to_blame(self, last: Made) -> list[str]:
        """Layers without which it is predicted to hold where it was worst, if what is left of it is worth a try."""
        whole = self.tried[0]
        if last.holds or last is whole or last.report is None or last.report.worst is None or whole.path is None:
            return []
        worst = self._question.reference.samples / f"{last.report.worst}.npz"
        if not self._affords(len(last.names), worst):
            return []
        try:
            dropped: list[str] = self._question.crew.ask(
                "runner", "worst_layers", failed=list(last.names),
                strain=last.cost.strain if math.isfinite(last.cost.strain) else None,
                **switched(self._question, whole.path, self._entries, [str(worst)]),
            )  # fmt: skip
        except SourceError:  # nobody knows who is to blame
            return []
        best, left = self.best, self._saves([name for name in last.names if name not in dropped])
        return dropped if left > 0 and (best is None or left >= self._saves(best.names) + ENOUGH) else []
