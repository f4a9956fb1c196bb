"""ReferenceModel -> Candidates: every recipe through Olive, in one child process."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from artifactctl import recipes
from artifactctl.crew import Crew
from artifactctl.errors import ArtifactctlError, ConfigError, NotAvailable, OptimizeError, SourceError
from artifactctl.inputs import recorded_name
from artifactctl.process import OperationFailed, WorkerDied
from artifactctl.providers import CPU, PROVIDERS
from artifactctl.records import Candidate, PassResult, ReferenceModel

DIED = "Olive's process"


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


def optimize(reference: ReferenceModel, name: str, scratch: Path, crew: Crew) -> Candidate:
    """One recipe. A failure is a value: the candidate without a model, and the reason."""
    info = crew.ask("runner", "inspect", path=str(reference.path))
    start = _plain_input(reference, scratch, crew) if info["external_data"] else reference.path
    if name.startswith(recipes.OLIVE_PREFIX):
        return _run_file(reference, start, name, scratch, crew)
    recipe = recipes.RECIPES[name]
    refusal = recipe.refusal(info["precision"], {entry["operator"] for entry in info["operators"]})
    if refusal:
        return Candidate(name, None, reference.precision, failure=refusal)
    current, results, precision = start, [], reference.precision
    stages: list[tuple[str, Path]] = []
    elsewhere = [name for name in reference.source.config.providers if PROVIDERS[name].execution_provider != CPU]
    for position, step in enumerate(recipe.passes):
        if step.for_cpu and elsewhere:
            why = f"it fuses for the CPU, and the model must also run on {', '.join(elsewhere)}"
            results.append(PassResult(step.label, "left-out", why))
            continue
        target = scratch / "recipes" / name / str(position)
        found = _attempt(
            crew, "olive_pass", name=step.type, config=dict(step.config), source=str(current), folder=str(target)
        )
        if isinstance(found, str):
            results.append(PassResult(step.label, "failed", found))
            if step.required:
                return Candidate(
                    name,
                    None,
                    precision,
                    passes=tuple(results),
                    failure=f"{step.label} failed: {found}",
                    broken=True,
                    died=found.startswith(DIED),
                )
            continue
        results.append(PassResult(step.label, "changed" if found["changed"] else "unchanged"))
        if found["changed"]:
            current, precision = Path(found["path"]), found["precision"]
            stages.append((step.label, current))
    return replace(_finish(name, current, precision, results, scratch, crew), stages=tuple(stages))


def _plain_input(reference: ReferenceModel, scratch: Path, crew: Crew) -> Path:
    """External data as every library reads it the same way: one file with offsets and lengths, or none."""
    path = scratch / "recipes" / "input" / "model.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True)
        crew.ask("runner", "save_normalized", source=str(reference.path), target=str(path), verbatim=True)
    return path


def _run_file(reference: ReferenceModel, start: Path, name: str, scratch: Path, crew: Crew) -> Candidate:
    config = reference.source.root / name.removeprefix(recipes.OLIVE_PREFIX)
    shown = recipes.OLIVE_PREFIX + recorded_name(name.removeprefix(recipes.OLIVE_PREFIX))
    target = scratch / "recipes" / f"olive-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    found = _attempt(crew, "olive_run", config=str(config), source=str(start), folder=str(target))
    if isinstance(found, str):
        return Candidate(shown, None, reference.precision, failure=found, broken=True, died=found.startswith(DIED))
    result = PassResult("Olive run configuration", "changed" if found["changed"] else "unchanged")
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
    return Candidate(name, target, precision, saved["size_bytes"], tuple(results))


def _attempt(crew: Crew, operation: str, **arguments: Any) -> dict[str, Any] | str:
    """The answer, or in words why there is none; a crash costs the child, not the build."""
    try:
        found: dict[str, Any] = crew.olive_ready().call(operation, timeout_s=crew.limits.time_s, **arguments)
    except WorkerDied as error:
        crew.dismiss("olive")
        return f"{DIED} {error.why}"
    except OperationFailed as error:
        return crew.plain(str(error).strip().splitlines()[0][:300])
    except NotAvailable:
        raise
    except ArtifactctlError as error:
        return crew.plain(str(error))
    return found


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
            found = _attempt(
                self.crew, "olive_run", config=str(self.olive_file), source=str(self.start), folder=str(target),
                passes=count,
            )  # fmt: skip
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
