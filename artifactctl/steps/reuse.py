"""A recipe's candidate from the cache, else made by the recipe and kept there. Proof and measurement come after it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from artifactctl import folder, participants, recipes
from artifactctl.cache import Cache, key_of
from artifactctl.inputs import config_digest, data_files, declared_files
from artifactctl.project import BuildRequest, Say
from artifactctl.records import Candidate, PassResult, ReferenceModel
from artifactctl.steps.ingredients import Kitchen

Run = Callable[[Kitchen, str], Candidate]
FORMAT = 2  # of what is stored about a candidate
_REPLACED = ("input_model", "engine", "packaging_config", "output_dir", "output_name", "cache_dir", "clean_cache")
_PLAIN = ("recipe", "precision", "size_bytes", "failure", "identity")
_HARMLESS = ("passes", "log_severity_level", *_REPLACED)


class Reuse:
    """For one build; without a cache it only runs recipes."""

    def __init__(self, request: BuildRequest, say: Say) -> None:
        self._cache = Cache(request.cache, say) if request.cache else None
        self._request, self._say = request, say
        self._keys: list[str] = []
        self._whole = True  # so far, everything that needed Olive is in the cache

    @functools.cached_property
    def _question(self) -> dict[str, Any]:
        """What a build can know of its inputs before it reads the model."""
        config, root = self._request.config, self._request.root
        files = {name: folder.digest(path) for name, path in declared_files(config, root).items()}
        return {"config": config_digest(config), "files": files, "made_by": participants.describe()}

    def is_warm(self) -> bool:
        """Whether Olive will not be needed, as far as can be told; if it is, it is loaded then."""
        return self._cache is not None and self._cache.is_warm(self._question)

    def make(self, kitchen: Kitchen, name: str, run: Run) -> Candidate:
        """One recipe. A failure is a value, and is never kept."""
        inputs = inputs_of(kitchen, name) if self._cache else None
        if self._cache is None or inputs is None:
            self._whole = False
            return self._run(kitchen, name, run)
        place = kitchen.scratch / "cached" / str(len(self._keys))
        if (found := self._cache.fetch(inputs, place)) is not None:
            self._say(f"recipe {name}: taken from the cache")
            self._keys.append(key_of(inputs))
            return _restored(found, place, kitchen, name)
        candidate = self._run(kitchen, name, run)
        if is_lasting(candidate):
            about, files = _about(candidate)
            kept = self._cache.store(inputs, about, files)
            self._keys.append(key_of(inputs))
            self._whole = self._whole and kept
        elif candidate.passes or candidate.broken:  # else it did not apply, which Olive was not asked for
            self._whole = False
        return candidate

    def _run(self, kitchen: Kitchen, name: str, run: Run) -> Candidate:
        self._say(f"recipe {name}: optimizing")
        return run(kitchen, name)

    def remember(self) -> None:
        """So that the next build of the same need not load Olive early."""
        if self._cache is not None and self._whole and not self.is_warm():
            self._cache.remember(self._question, self._keys)


def inputs_of(kitchen: Kitchen, name: str) -> dict[str, Any] | None:
    """Everything that a candidate is made from; None where it may depend on something that is not known.

    Nor of those that are chosen by proof: answers and bounds are no part of the cache, and their curve is measured.
    """
    reference, source = kitchen.reference, kitchen.reference.source
    recipe = None if name in recipes.JUDGED else _described(reference, name)
    if recipe is None:
        return None
    digests = {entry.path: entry.sha256 for entry in source.files}
    data = data_files(source.config, source.root)
    made_up = {key: reference.plan[key] for key in ("seed", "inputs", "sets")}
    return {
        "format": FORMAT,
        "recipes_version": recipes.RECIPES_VERSION,
        "recipe": recipe,
        "shape": kitchen.fixed(name),
        "source": reference.sha256,
        "providers": list(source.config.providers),  # passes are left out where others than the CPU's are named
        # what a recipe may calibrate with
        "data": {use: digests[data[use]] for use in ("samples", "calibration") if use in data},
        "samples": key_of(made_up),
        "made_by": participants.describe(),
    }


def is_lasting(candidate: Candidate) -> bool:
    """A model, or the news that nothing changed; what failed may not fail another time."""
    failed = any(result.status == "failed" for result in candidate.passes)
    return bool(candidate.passes) and not (failed or candidate.broken or candidate.died)


def _described(reference: ReferenceModel, name: str) -> dict[str, Any] | None:
    if (file := _olive_file(reference, name)) is not None:
        try:
            return {"name": name, "olive": own_passes(json.loads(file.read_text(encoding="utf-8")))}
        except (OSError, ValueError):
            return None
    return {"name": name, **json.loads(json.dumps(asdict(recipes.recipe_of(name)), default=_plain))}


def own_passes(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The passes of an Olive file that speaks of nothing outside itself; a ValueError where it may."""
    if asked.keys() - set(_HARMLESS):
        raise ValueError("data, systems and evaluators may read any file")
    waiting: list[Any] = [asked["passes"]]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str) and ("/" in item or "\\" in item or "." in item):
            raise ValueError(f"{item!r} may name a file")
    passes: Mapping[str, Any] = asked["passes"]
    return passes


def _plain(value: object) -> Any:
    if isinstance(value, frozenset | set):
        return sorted(value)
    return f"{type(value).__name__} {getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def _olive_file(reference: ReferenceModel, name: str) -> Path | None:
    if not name.startswith(recipes.OLIVE_PREFIX):
        return None
    return reference.source.root / name.removeprefix(recipes.OLIVE_PREFIX)


def _about(candidate: Candidate) -> tuple[dict[str, Any], dict[str, Path]]:
    """The last stage is the candidate itself but for what was cleaned from it, so it is not kept twice."""
    stages = [label for label, _ in candidate.stages]
    places = {f"stages/{position}": path for position, (_, path) in enumerate(candidate.stages[:-1])}
    if candidate.path is not None:
        places["model"] = candidate.path
    files = {
        f"{place}/{name}": path.parent / name for place, path in places.items() for name in folder.listing(path.parent)
    }
    plain = {key: getattr(candidate, key) for key in _PLAIN}
    names = {place: path.name for place, path in places.items()}
    passes = [asdict(result) for result in candidate.passes]
    return {**plain, "passes": passes, "stages": stages, "names": names}, files


def _restored(about: Mapping[str, Any], place: Path, kitchen: Kitchen, name: str) -> Candidate:
    olive_file, fixed = _olive_file(kitchen.reference, name), kitchen.fixed(name)
    paths = {name: place / name / file for name, file in about["names"].items()}
    last = len(about["stages"]) - 1
    stages = tuple(
        (label, paths["model" if position == last else f"stages/{position}"])
        for position, label in enumerate(about["stages"])
    )
    passes = tuple(PassResult(**result) for result in about["passes"])
    plain = {key: about[key] for key in _PLAIN}
    found = Candidate(path=paths.get("model"), passes=passes, stages=stages, fixed=fixed, **plain)
    return replace(found, olive_file=olive_file if found.path else None)
