"""ReferenceModel -> Candidates: every recipe through Olive, in one child process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from artifactctl import recipes
from artifactctl.crew import Crew
from artifactctl.errors import ConfigError, OptimizeError, SourceError
from artifactctl.inputs import recorded_name
from artifactctl.passes import OlivePass
from artifactctl.records import Candidate, PassResult, ReferenceModel, Tried
from artifactctl.steps.ingredients import Counter, Kitchen, fill
from artifactctl.steps.olive import DIED, attempt, is_late
from artifactctl.steps.reuse import Reuse


def check_olive_file(path: Path, shown: str) -> None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{shown} is not a readable JSON file: {error}", hint="It is an Olive run configuration."
        ) from None
    if not isinstance(data, dict) or not isinstance(data.get("passes"), dict) or not data["passes"]:
        hint = 'Add them: {"passes": {"q": {"type": "OnnxDynamicQuantization"}}}.'
        raise ConfigError(f"{shown} is not an Olive run configuration: it has no passes", hint=hint)


def optimize(kitchen: Kitchen, name: str, before: Sequence[Tried], reuse: Reuse) -> Candidate:
    """One recipe. A failure is a value: the candidate without a model, and the reason. `before` was tried already."""
    if name.startswith(recipes.OLIVE_PREFIX):
        return _distinct(reuse.make(kitchen, name, _run_file), before)
    recipe = recipes.recipe_of(name)
    refusal = recipe.refusal(kitchen.pantry.facts) or _needless(recipe, before)
    if refusal:
        return Candidate(name, None, kitchen.reference.precision, failure=refusal)
    return _distinct(reuse.make(kitchen, name, _run_passes), before)


def _needless(recipe: recipes.Recipe, before: Sequence[Tried]) -> str | None:
    holds = [item for item in before if item.candidate.recipe == recipe.instead_of]
    if holds and holds[0].equivalence and holds[0].equivalence.passed:
        return f"does not apply: {recipe.instead_of} holds as a whole"
    return None


def _distinct(candidate: Candidate, before: Sequence[Tried]) -> Candidate:
    """The same model twice is neither proved nor measured twice."""
    for item in before:
        if candidate.identity and item.candidate.identity == candidate.identity:
            same = f"gave the same model as {item.candidate.recipe}"
            return replace(candidate, path=None, size_bytes=None, failure=same)
    return candidate


def _run_passes(kitchen: Kitchen, name: str) -> Candidate:
    reference, scratch, crew, recipe = kitchen.reference, kitchen.scratch, kitchen.crew, recipes.recipe_of(name)
    config, fixed = reference.source.config, kitchen.fixed(name)
    current, results, precision = _plain_input(kitchen), list[PassResult](), reference.precision
    stages: list[tuple[str, Path]] = []
    curve: Mapping[str, Any] | None = None
    elsewhere = recipes.other_providers(config)
    for position, step in enumerate(recipe.passes):
        if step.below_opset and reference.opset >= step.below_opset:
            continue
        if step.for_cpu is False and not elsewhere:
            continue
        if why := left_out(step, kitchen.pantry.facts, elsewhere):
            results.append(PassResult(step.label, "left-out", why))
            continue
        target = scratch / "recipes" / name / str(position)
        place, longest = target / "named", kitchen.time_s(name)
        try:
            portion = fill(Counter(reference, kitchen.pantry, current, step, fixed or {}, place, crew, longest))
        except SourceError as error:
            why = f"{step.label} cannot be prepared: {error}"
            return Candidate(name, None, precision, passes=tuple(results), failure=why, broken=True)
        curve = portion.curve or curve
        if portion.refusal:
            why, died = portion.refusal, portion.died
            return Candidate(
                name, None, precision, passes=tuple(results), failure=why, broken=died, curve=curve, died=died
            )
        calibration = list(kitchen.pantry.calibration) if "calibration" in step.fills else None
        found = attempt(
            crew, "olive_pass", kitchen.time_s(name), name=step.type, config=dict(portion.config),
            source=str(portion.path), folder=str(target / "made"), calibration=calibration,
        )  # fmt: skip
        if isinstance(found, str):
            results.append(PassResult(step.label, "failed", found))
            if step.required or is_late(found):  # without the pass it would be another model on a slower machine
                return Candidate(
                    name,
                    None,
                    precision,
                    passes=tuple(results),
                    failure=found if is_late(found) else f"{step.label} failed: {found}",
                    broken=True,
                    died=found.startswith(DIED),
                )
            continue
        if step.must_add and not step.must_add & set(found["added"]):
            found["changed"] = False
        said = "; ".join(text for text in (portion.note, found["what"]) if text and found["changed"])
        results.append(PassResult(step.label, "changed" if found["changed"] else "unchanged", said))
        if found["changed"]:
            current, precision = Path(found["path"]), found["precision"]
            stages.append((step.label, current))
        elif step.required and (
            step.must_add or len(recipe.passes) > 1
        ):  # what the others do without it is another recipe
            why = "found nothing that it could fuse" if step.must_add else "left the graph as it was"
            reason = f"changed nothing: {step.label} {why}"
            return Candidate(name, None, precision, passes=tuple(results), failure=reason)
    finished = _finish(name, current, precision, results, scratch, crew)
    return replace(finished, stages=tuple(stages), fixed=fixed, curve=curve)


def left_out(step: OlivePass, facts: recipes.Facts, elsewhere: Sequence[str]) -> str | None:
    if step.for_cpu and elsewhere:
        return f"it is made for ONNX Runtime's CPU kernels, and the model must run on {', '.join(elsewhere)}"
    return "it would hold a model of this size six times over" if step.hungry and facts["large"] else None


def _plain_input(kitchen: Kitchen) -> Path:
    """External data as every library reads it the same way: one file with offsets and lengths, or none."""
    source = kitchen.reference.path
    if not kitchen.pantry.facts["external_data"]:
        return source
    path = kitchen.scratch / "recipes" / "input" / "model.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True)
        kitchen.crew.ask("runner", "save_normalized", source=str(source), target=str(path), verbatim=True)
    return path


def _run_file(kitchen: Kitchen, name: str) -> Candidate:
    reference, scratch, crew = kitchen.reference, kitchen.scratch, kitchen.crew
    config = reference.source.root / name.removeprefix(recipes.OLIVE_PREFIX)
    shown = recipes.OLIVE_PREFIX + recorded_name(name.removeprefix(recipes.OLIVE_PREFIX))
    target = scratch / "recipes" / f"olive-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    asked = {"config": str(config), "source": str(_plain_input(kitchen)), "folder": str(target)}
    found = attempt(crew, "olive_run", kitchen.time_s(name), **asked)
    if isinstance(found, str):
        return Candidate(shown, None, reference.precision, failure=found, broken=True, died=found.startswith(DIED))
    result = PassResult("Olive run configuration", "changed" if found["changed"] else "unchanged", found["what"])
    return replace(_finish(shown, Path(found["path"]), found["precision"], [result], scratch, crew), olive_file=config)


def _finish(name: str, path: Path, precision: str, results: list[PassResult], scratch: Path, crew: Crew) -> Candidate:
    if not any(result.status == "changed" for result in results):
        failed = [f"{result.name}: {result.detail}" for result in results if result.status == "failed"]
        broken = bool(failed) and all(result.status in ("failed", "left-out") for result in results)
        left = "".join(f"; {item.name} was left out: {item.detail}" for item in results if item.status == "left-out")
        reason = "; ".join(failed) if broken else f"changed nothing: the graph is the source's own{left}"
        died = any(result.detail.startswith(DIED) for result in results)
        return Candidate(name, None, precision, passes=tuple(results), failure=reason, broken=broken, died=died)
    target = scratch / "candidates" / str(len(list((scratch / "candidates").glob("*")))) / "model.onnx"
    target.parent.mkdir(parents=True)
    try:
        saved = crew.ask("runner", "save_normalized", source=str(path), target=str(target))
    except SourceError as error:
        return Candidate(name, None, precision, passes=tuple(results), failure=str(error), broken=True)
    identity = crew.ask("runner", "identity", path=str(target))
    return Candidate(name, target, precision, saved["size_bytes"], tuple(results), identity=identity)


@dataclass(slots=True)
class Stages:
    """The models after each pass of a recipe; of an Olive file they are made when they are asked for."""

    labels: list[str]
    start: Path
    made: dict[int, Path]
    crew: Crew
    olive_file: Path | None = None
    scratch: Path = field(default_factory=Path)

    @property
    def count(self) -> int:
        return len(self.labels)

    def model_after(self, count: int) -> Path:
        if count == 0:
            return self.start
        if count not in self.made:
            target = self.scratch / "stages" / f"{self.olive_file.stem if self.olive_file else ''}-{count}"
            asked = {"config": str(self.olive_file), "source": str(self.start), "folder": str(target)}
            found = attempt(self.crew, "olive_run", self.crew.limits.time_s, passes=count, **asked)
            if isinstance(found, str):
                raise OptimizeError(found)
            self.made[count] = Path(found["path"])
        return self.made[count]


def stages_of(reference: ReferenceModel, candidate: Candidate, scratch: Path, crew: Crew) -> Stages:
    """What a candidate went through, pass by pass."""
    plain = scratch / "recipes" / "input" / "model.onnx"
    start = plain if plain.exists() else reference.path
    if candidate.olive_file is None:
        made = {position + 1: path for position, (_, path) in enumerate(candidate.stages)}
        return Stages([label for label, _ in candidate.stages], start, made, crew)
    passes = json.loads(candidate.olive_file.read_text(encoding="utf-8"))["passes"]
    assert candidate.path is not None
    return Stages(list(passes), start, {len(passes): candidate.path}, crew, candidate.olive_file, scratch)
