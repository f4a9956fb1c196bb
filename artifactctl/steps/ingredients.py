"""What a recipe's passes need beyond their fixed settings: facts of the graph, calibration samples, nodes to spare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from artifactctl import recipes
from artifactctl.clock import Clock
from artifactctl.crew import Crew
from artifactctl.errors import ConfigError
from artifactctl.inputs import recorded_name
from artifactctl.passes import OlivePass
from artifactctl.records import ReferenceModel
from artifactctl.steps.partial import find
from artifactctl.steps.trials import Question

HALF_LIMIT = 1e4  # ONNX Runtime's converter clips constants there; values unseen may be some times larger
BYTE_LIMIT = 1e6  # a mask, not an activation: 256 steps of it leave nothing of anything else
WATCHED = 4  # samples that are run with every value exposed
MOST_SETS = 64  # of samples to calibrate with
STEADY = ("normal", "uniform", "pixels")
SHORTEST_S = 30.0  # that a pass of a search is given, however late it is
MAY_SATURATE = ("cpu", "cpu-windows", "openvino")  # x64, with or without VNNI: nobody knows where it will run


@dataclass(frozen=True, slots=True)
class Pantry:
    """What all recipes of a build share."""

    facts: Mapping[str, Any]
    shapes: tuple[Mapping[str, tuple[int, ...]], ...] = ()  # of every input, for each of optimize.shapes
    calibration: tuple[str, ...] = ()
    calibrated_on: str = ""


@dataclass(frozen=True, slots=True)
class Kitchen:
    """Where the recipes of one build are made."""

    reference: ReferenceModel
    pantry: Pantry
    scratch: Path
    crew: Crew
    clock: Clock = field(default_factory=lambda: Clock(math.inf))  # of the search
    named: frozenset[str] = frozenset()  # recipes that the user named: they may take as long as any operation

    def time_s(self, name: str) -> float:
        """How long one pass of a recipe may take."""
        longest = self.crew.limits.time_s
        return longest if name in self.named else min(longest, max(SHORTEST_S, self.clock.left))

    def is_late(self, name: str) -> bool:
        return name not in self.named and self.clock.left <= 0

    def fixed(self, name: str) -> Mapping[str, tuple[int, ...]] | None:
        """The only shape that the model of this recipe will take, by input."""
        if name.startswith(recipes.OLIVE_PREFIX) or recipes.recipe_of(name).name != recipes.FIXED:
            return None
        return self.pantry.shapes[recipes.shape_of(name)]


@dataclass(frozen=True, slots=True)
class Portion:
    """Settings for one pass; `path` is the model in place of the one before it, `note` what to say of it."""

    config: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    note: str = ""
    refusal: str = ""  # why it cannot be had
    curve: Mapping[str, Any] | None = None  # of steps/partial.py
    died: bool = False  # Olive's process did, on the way: another time it may not


@dataclass(frozen=True, slots=True)
class Counter:
    """Where a portion is made."""

    reference: ReferenceModel
    pantry: Pantry
    current: Path  # the model that the pass will get
    step: OlivePass
    shape: Mapping[str, tuple[int, ...]]
    scratch: Path
    crew: Crew
    time_s: float  # that it may take


def stock(reference: ReferenceModel, names: Sequence[str], scratch: Path, crew: Crew) -> Pantry:
    """Ask for it before Olive is: shapes and calibration data that do not fit are the user's to mend."""
    config = reference.source.config
    facts = crew.ask("runner", "recipe_facts", path=str(reference.path)) | {"shapes": bool(config.shapes)}
    pantry = Pantry(facts, tuple(whole_shape(shape, facts["inputs"]) for shape in config.shapes))
    if config.data.calibration:
        asked = {"calibration": str(reference.source.root / config.data.calibration)}
        plan, place = {"inputs": reference.plan["inputs"]}, str(scratch / "calibration")
        files = crew.ask("runner", "write_calibration", plan=plan, folder=place, **asked)
        settings = asdict(reference.session)
        crew.ask("runner", "demand_taken", path=str(reference.path), settings=settings, files=files)
        return replace(pantry, calibration=tuple(files), calibrated_on=recorded_name(config.data.calibration))
    if not recipes.CALIBRATED.intersection(names):
        return pantry
    samples, what = _from_samples(reference)
    return replace(pantry, calibration=samples, calibrated_on=what)


def whole_shape(
    shape: Mapping[str, tuple[int, ...]], inputs: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[int, ...]]:
    """A shape for every input: sizes that share a name are one; a ConfigError where they are not, or one is missing."""
    known = {value["name"]: value["shape"] for value in inputs}
    sizes: dict[str, int] = {}
    for name, asked in shape.items():
        if name not in known:
            message = f"optimize.shapes names {name!r}, but the model's inputs are {', '.join(known)}"
            raise ConfigError(message, hint="Correct the name; 'artifactctl inspect FILE' lists the inputs.")
        own = known[name]
        fits = own is None or len(own) == len(asked)
        for have, want in zip(own or (), asked, strict=False):
            fits = (
                fits and (have if isinstance(have, int) else sizes.setdefault(str(have or (name, want)), want)) == want
            )
        if not fits:
            message = f"optimize.shapes: {name!r} cannot be {list(asked)}, because the model takes {own}"
            hint = "Give a whole shape; only sizes that have a name can be chosen, and each name has one size."
            raise ConfigError(message, hint=hint)
    found = dict(shape)
    for name, own in known.items():
        if name not in found:
            made = [size if isinstance(size, int) else sizes.get(str(size)) for size in own or (None,)]
            if any(size is None for size in made):
                message = f"optimize.shapes leaves sizes of {name!r} free: {own}"
                raise ConfigError(message, hint=f"Add its shape: {{{name}: [1, …]}}.")
            found[name] = tuple(size for size in made if size is not None)
    return found


def _from_samples(reference: ReferenceModel) -> tuple[tuple[str, ...], str]:
    """The user's own samples, else made-up ones without outliers; all of one size."""
    entries = reference.plan["entries"]
    own = [number for number, entry in entries.items() if entry["origin"] == "data"]
    made = [number for number, entry in entries.items() if entry.get("kind") in STEADY]
    chosen = own or made or list(entries)
    alike = [number for number in chosen if _size(entries[number]) == _size(entries[chosen[0]])]
    what = "data.samples" if own else "made-up samples"
    return tuple(str(reference.samples / f"{number}.npz") for number in alike[:MOST_SETS]), what


def _size(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    return entry["rows"], entry.get("dims")


def _transformer(counter: Counter) -> Portion:
    facts = counter.pantry.facts
    blocks = f"{facts['attention']} attention block{'s' if facts['attention'] > 1 else ''}"
    return Portion({"model_type": facts["transformer"]}, note=f"as {facts['transformer']}, {blocks}")


def _shape(counter: Counter) -> Portion:
    names = list(counter.shape)
    shapes = [list(counter.shape[name]) for name in names]
    note = ", ".join(f"{name} {sizes}" for name, sizes in zip(names, shapes, strict=True))
    return Portion({"input_name": names, "input_shape": shapes}, note=note)


def _calibration(counter: Counter) -> Portion:
    pantry = counter.pantry
    return Portion(note=f"calibrated on {len(pantry.calibration)} sets of {pantry.calibrated_on}")


def _moderate(counter: Counter) -> Portion:
    """Masks of attention would spoil the scale of what is added to them."""
    nodes, named = _extremes(counter, counter.pantry.calibration)
    spared = [node["name"] for node in nodes if node["score"] or _over(node, BYTE_LIMIT)]
    note = f"{len(spared)} nodes with masks or huge values left out" if spared else ""
    config: dict[str, Any] = {"nodes_to_exclude": spared}
    if counter.step.config["calibrate_method"] == "Entropy":
        # it makes histograms of what it will not quantize too, and of such values there are none
        huge = {node["operator"] for node in nodes if _over(node, BYTE_LIMIT)}
        wanted = counter.step.config["op_types_to_quantize"]
        config["op_types_to_quantize"] = [kind for kind in wanted if kind not in huge]
    return Portion(config, named, note)


def _narrow(counter: Counter) -> Portion:
    entries = counter.reference.plan["entries"]
    files = [str(counter.reference.samples / f"{number}.npz") for number in entries]
    nodes, named = _extremes(counter, files)
    kept = [node for node in nodes if _over(node, HALF_LIMIT)]
    if not kept:
        return Portion(refusal="does not apply: nothing in it is too large for float16, so it would be fp16 itself")
    kinds = ", ".join(sorted({node["operator"] for node in kept}))
    note = f"{len(kept)} of {len(nodes)} nodes kept in float32 ({kinds})"
    return Portion({"node_block_list": [node["name"] for node in kept]}, named, note)


def _reduced(counter: Counter) -> Portion:
    """By the weights and by where it must run, never by the machine that builds."""
    providers = counter.reference.source.config.providers
    if not set(providers) & set(MAY_SATURATE):
        return Portion({"reduce_range": False})
    operators = counter.step.config.get("op_types_to_quantize")
    layers = counter.crew.ask("runner", "would_saturate", path=str(counter.current), operators=operators)
    note = f"weights in 7 bits: {len(layers)} layers could saturate CPUs without VNNI" if layers else ""
    return Portion({"reduce_range": bool(layers)}, note=note)


def _partial(counter: Counter) -> Portion:
    """Which layers: the only ingredient that looks at the bounds."""
    question = Question(
        counter.reference, counter.current, counter.step, counter.pantry.calibration, counter.scratch, counter.crew,
        Clock(counter.time_s),
    )  # fmt: skip
    found = find(question)
    return Portion({"nodes_to_quantize": found.nodes}, None, found.note, found.refusal, found.curve, found.died)


def _inside(counter: Counter) -> Portion:
    """Olive's pass gives the output of the model another name, where a node that it replaces makes it."""
    nodes, named = _extremes(counter, ())
    last = [node["name"] for node in nodes if node["last"]]
    return Portion({"nodes_to_exclude": last}, named)


def _extremes(counter: Counter, files: Sequence[str]) -> tuple[list[dict[str, Any]], Path]:
    """Samples from the whole list, spread evenly."""
    step = max(1, len(files) // WATCHED)
    named = counter.scratch / "model.onnx"
    nodes: list[dict[str, Any]] = counter.crew.ask(
        "runner", "node_extremes", path=str(counter.current), samples=list(files[::step][:WATCHED]),
        settings=asdict(counter.reference.session), named=str(named),
    )  # fmt: skip
    return nodes, named


def _over(node: Mapping[str, Any], limit: float) -> bool:
    return node["largest"] is None or node["largest"] > limit


INGREDIENTS: dict[str, Callable[[Counter], Portion]] = {
    "transformer": _transformer,
    "shape": _shape,
    "calibration": _calibration,
    "moderate": _moderate,
    "narrow": _narrow,
    "inside": _inside,
    "reduced": _reduced,
    "partial": _partial,
}


def fill(counter: Counter) -> Portion:
    """Everything that a pass needs together; each ingredient knows what those before it have settled."""
    notes: list[str] = []
    curve: Mapping[str, Any] | None = None
    for name in counter.step.fills:
        portion = INGREDIENTS[name](counter)
        curve = portion.curve or curve
        if portion.refusal:
            return replace(portion, curve=curve)
        step = replace(counter.step, config={**counter.step.config, **portion.config})
        counter = replace(counter, step=step, current=portion.path or counter.current)
        notes += [portion.note] if portion.note else []
    return Portion(counter.step.config, counter.current, "; ".join(notes), curve=curve)
