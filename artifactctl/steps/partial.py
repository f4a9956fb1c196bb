"""int8 for some layers: what each adds to the error, then the largest set that holds the bound, tried for real.

Which set it is depends on the model, the samples and the bounds, never on a clock: the work of a layer is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from artifactctl.errors import NotAvailable, SourceError
from artifactctl.records import EquivalenceReport
from artifactctl.selection import AIM, ROOM, Cost, Link, cost_of, layer_of, useful
from artifactctl.steps.measure import CHOICE_LIMIT, Duel, Terms, fight, report_of, sample_of
from artifactctl.steps.trials import LATE, Made, Question, Search, make, nodes_of, switched, why_cut
from artifactctl.steps.verify import bounds_of

STEPS = 8  # sets that are quantized for real, after all layers together
MOST_LAYERS, LEAST_SHARE = 96, 0.002  # of the multiplications: what a smaller one saves is less than it costs
FEWEST_LAYERS = 8
CONVERSION = 64  # multiplications that int8 could have spared in the time that an element takes to int8 or back
NEEDLESS = "does not apply: no layer multiplies enough to make up for converting its values to int8 and back"
LONGEST_NAME = 60  # of a layer in a sentence
ROUNDS, PAIR_S = 2, 60.0  # of pairs for each set, and how long one of them may take
WATCHED = 2  # samples of each kind: to calibrate with, and where int8 was worst


@dataclass(frozen=True, slots=True)
class Found:
    """The nodes for the pass, or why there are none; and how it went, for the evidence."""

    nodes: list[str] = field(default_factory=list)
    note: str = ""
    refusal: str = ""
    curve: Mapping[str, Any] | None = None
    died: bool = False  # Olive's process did, and there is no answer


def find(question: Question) -> Found:
    """A search that is not over in its time gives nothing: what it had found by then would depend on the machine."""
    try:
        layers = _layers(question)
    except SourceError as error:
        return Found(refusal=f"does not apply: its layers cannot be counted: {error}")
    if not layers:
        return Found(refusal="does not apply: no layer with float32 weights is left to quantize")
    whole = make(question, layers)
    if whole.died:
        return _cut(why_cut(question, whole))
    if whole.path is None:  # the pass itself will say why
        return Found(nodes_of(layers))
    assert whole.report is not None
    asked = switched(question, whole.path, layers, _telling(question, whole.report))
    try:
        errors = question.crew.ask("runner", "layer_errors", **asked)
    except SourceError as error:
        return Found(refusal=f"does not apply: the error of single layers cannot be measured: {error}")
    by_name = {layer["name"]: layer for layer in layers}
    search = Search(question, layers, [_link(entry, by_name[entry["name"]]) for entry in errors], whole)
    while search.promising and len(search.tried) <= STEPS and search.step():
        pass
    return _cut(search.cut) if search.cut else _answer(question, search, by_name)


def _cut(why: str) -> Found:
    return Found(refusal=why, died=why != LATE)


def _answer(question: Question, search: Search, layers: Mapping[str, Mapping[str, Any]]) -> Found:
    best, most = search.best, useful(search.order)
    refusal = "" if best else _refusal(search.order, most, search.tried) if most else NEEDLESS
    curve = {
        "bounds": bounds_of(question.reference.equivalence),
        "room": ROOM,
        "layers": [_layer_entry(link) for link in search.order],
        "points": _points(question, search),
        "refusal": refusal or None,
    }
    if best is None:
        return Found(refusal=refusal, curve=curve)
    note = f"{len(best.names)} of {len(layers)} layers in int8, {search.share(best):.0%} of the multiplications"
    if best.dropped:
        note += f"; {len(best.dropped)} taken out for the error with the others"
    return Found(nodes_of([layers[name] for name in best.names]), note, curve=curve)


def _refusal(chain: Sequence[Link], most: int, tried: Sequence[Made]) -> str:
    if chain[0].total.strain > AIM:
        harmful = [link.layer for link in chain[:most] if link.layer.alone.strain > AIM]
        least = min(harmful, key=lambda layer: layer.alone.strain)
        inside = "inside the bound" if least.alone.strain > 1 else f"well inside the bound ({AIM:.0%} of it)"
        which = "no node" if all(link.layer.alone.strain > AIM for link in chain) else "no node that would save time"
        adds = "an error that cannot be compared" if least.alone.error is None else f"{least.alone.error:.2g}"
        named = f"the least harmful, {least.operator} {least.name[:LONGEST_NAME]!r}, adds {adds}"
        return f"does not apply: {which} can be int8 {inside}; {named}"
    small = min(tried, key=lambda item: len(item.names))
    gives = "cannot be compared" if small.cost.error is None else f"gives {small.cost.error:.2g}"
    number = f"{len(small.names)} of {len(chain)} layers, {gives}"
    return (
        f"does not apply: no set of nodes stays inside {ROOM:.0%} of the bound; the smallest that was tried, {number}"
    )


def _layers(question: Question) -> list[dict[str, Any]]:
    """In the order of the graph; only so many of the largest that looking at each can be afforded: that is counted from
    the time that the user gives, which is an input, and never from the time that it takes."""
    found: list[dict[str, Any]] = question.crew.ask(
        "runner", "weighted_layers", path=str(question.source), sample=question.calibration[0],
        settings=asdict(question.reference.session), spared=list(question.step.config.get("nodes_to_exclude") or ()),
    )  # fmt: skip
    total = sum(layer["multiplications"] for layer in found)
    # alone, and on the way to the largest set; samples that are not for calibration are small
    afforded = question.work // max(1, 2 * WATCHED * total)
    most = max(FEWEST_LAYERS, min(MOST_LAYERS, afforded))
    large = sorted(found, key=lambda layer: -layer["multiplications"])[:most]
    kept = {layer["name"] for layer in large if layer["multiplications"] >= LEAST_SHARE * total > 0}
    shares = {"share": ("multiplications", 1), "reads": ("reads", CONVERSION), "writes": ("writes", CONVERSION)}
    return [
        layer | {name: times * layer[key] / total for name, (key, times) in shares.items()}
        for layer in found
        if layer["name"] in kept
    ]


def _telling(question: Question, report: EquivalenceReport) -> list[str]:
    """Samples to measure layers on: of those to calibrate with, and those where int8 did worst."""
    files, bounds = question.calibration, bounds_of(question.reference.equivalence)
    calibrated = files[:: max(1, len(files) // WATCHED)][:WATCHED]
    ranked = sorted(report.sets, key=lambda entry: -cost_of(entry["outputs"], bounds).strain)
    worst = [str(question.reference.samples / f"{entry['set']}.npz") for entry in ranked[:WATCHED]]
    return list(dict.fromkeys([*calibrated, *worst]))


def _link(entry: Mapping[str, Any], layer: Mapping[str, Any]) -> Link:
    def cost(prefix: str) -> Cost:
        strain = entry[f"{prefix}strain"]
        return Cost(entry[f"{prefix}error"], math.inf if strain is None else strain)

    return Link(layer_of(layer, cost("")), entry["saves"], cost("total_"))


def _layer_entry(link: Link) -> dict[str, Any]:
    return {
        "name": link.layer.name,
        "operator": link.layer.operator,
        "share": link.layer.share,
        "saves": link.saves,
        "error": link.layer.alone.error,
        "predicted_error": link.total.error,
    }


def _points(question: Question, search: Search) -> list[dict[str, Any]]:
    """By size; the speed-up is of a few rounds of pairs, and judges nothing."""
    made = sorted((item for item in search.tried if item.path), key=lambda item: (len(item.names), len(item.dropped)))
    return [
        {
            "layers": len(item.names),
            "dropped": list(item.dropped),
            "share": search.share(item),
            "predicted_error": item.predicted,
            "max_error": item.cost.error,
            "holds": item.holds,
            "chosen": item is search.best,
            "speed_up": _speed_up(question, item),
        }
        for item in made
    ]


def _speed_up(question: Question, item: Made) -> float | None:
    if item.path is None or item.report is None or not item.report.outputs:  # it does not run
        return None
    if question.clock.left <= 0:  # which sets hold is known, and nothing else was asked
        return None
    reference = question.reference
    terms = Terms(CHOICE_LIMIT, reference.source.config.latency.confidence, PAIR_S)
    sample, seed = sample_of(reference), reference.seed
    duel = Duel(item.path, reference.path, sample, reference.session, seed, terms, most_rounds=ROUNDS)
    try:
        rounds, seconds = fight(duel, question.crew)
    except (SourceError, NotAvailable):
        return None
    ratio = report_of(terms, reference.session.provider, rounds, seconds, (0, 0)).ratio
    return 1 / ratio if ratio else None
