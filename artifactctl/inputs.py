"""The files and settings that a build is made from: named, digested, compared with those of an earlier build."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from artifactctl import folder
from artifactctl.errors import ConfigError, SourceError
from artifactctl.pointers import pointer_in
from artifactctl.project import SEARCH_S, Budgets, ModelConfig
from artifactctl.recipes import OLIVE_PREFIX, RECIPES_VERSION

# of keys that came later what they are when not given: what was built before them is unchanged
LATE_KEYS: dict[str, Any] = {
    "license": None,
    "own": {},
    "min_runtime": None,
    "shapes": (),
    "session": False,
    "objective": "latency",
    "budgets": asdict(Budgets()),
    "budget_s": SEARCH_S,
}


def declared_files(config: ModelConfig, root: Path) -> dict[str, Path]:
    """The files that the configuration names, under the names that metadata records (never an absolute path)."""
    named = [config.source.weights, config.data.samples, config.data.labels, config.data.calibration]
    named += [recipe.removeprefix(OLIVE_PREFIX) for recipe in config.recipes if recipe.startswith(OLIVE_PREFIX)]
    if config.source.kind != "torch":
        named.insert(0, config.source.target)
    elif config.source.target.rpartition(":")[0].endswith(".py"):
        named.insert(0, config.source.target.rpartition(":")[0])
    found: dict[str, Path] = {}
    for text in named:
        if text:
            name = recorded_name(text)
            taken = found.get(name, root / text) != root / text
            found[f"{Path(text).parent.name}/{name}" if taken else name] = root / text
    return found


def data_files(config: ModelConfig, root: Path) -> dict[str, str]:
    """What each file of the user's data is for: samples, labels, calibration; under the names that metadata records."""
    names = {path: name for name, path in declared_files(config, root).items()}
    return {use: names[root / text] for use, text in asdict(config.data).items() if text and root / text in names}


def recorded_name(text: str) -> str:
    return Path(text).name if Path(text).is_absolute() else Path(text).as_posix()


def check_files(config: ModelConfig, root: Path) -> None:
    """Missing files are named before anything slow starts."""
    target = config.source.target
    parts = (target.rpartition(":")[0] if config.source.kind == "torch" else target, config.source.weights)
    source = {recorded_name(part) for part in parts if part}
    for name, path in declared_files(config, root).items():
        pointer = pointer_in(path)
        if path.is_file() and pointer is None:
            continue
        what = f"is {pointer}, not the file" if pointer else "is a folder" if path.is_dir() else "does not exist"
        hint = folder.elsewhere(path) or "Check the spelling; paths in a configuration are relative to its folder."
        kind = SourceError if name in source else ConfigError
        raise kind(f"{name} {what}", hint=hint)


def demand_same_files(files: Iterable[folder.FileDigest], config: ModelConfig, root: Path) -> None:
    """What was digested at the start must still be there at the end, or the record would be wrong."""
    declared = declared_files(config, root)
    for entry in files:
        path = declared.get(entry.path, root / entry.path)
        if not path.is_file() or folder.digest(path) != entry.sha256:
            raise SourceError(f"{entry.path} was changed while it was built", hint="Run the same command again.")


def config_digest(config: ModelConfig) -> str:
    """Of everything in the configuration that the model is made from, with defaults filled in.

    Gates against versions before it judge a version; they do not make another one. What no candidate may exceed, and
    how long the search may be, decide which one is chosen.
    """
    made_from = {key: value for key, value in asdict(config).items() if key != "latency"}
    for late, unset in LATE_KEYS.items():
        if made_from[late] == unset:
            del made_from[late]
    text = json.dumps({"recipes_version": RECIPES_VERSION} | made_from, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Difference:
    """Between what an artifact was made from and what is here; None where there is no such file."""

    path: str | None  # None: the configuration itself
    recorded: str | None
    found: str | None

    def describe(self) -> str:
        if self.path is None:
            return "the configuration has changed"
        if self.found is None:
            return f"{self.path} is missing (its sha256 was {self.recorded})"
        if self.recorded is None:
            return f"{self.path} is new (sha256 {self.found})"
        return f"{self.path} has changed (sha256 was {self.recorded}, is {self.found})"


def differences(config: ModelConfig, root: Path, metadata: Mapping[str, Any]) -> Iterator[Difference]:
    """Where this configuration and these files are not those of an artifact; reads bytes, imports nothing heavy."""
    source = metadata["source"]
    if source["config_sha256"] != (here := config_digest(config)):
        yield Difference(None, source["config_sha256"], here)
    declared = declared_files(config, root)
    for entry in source["files"]:
        path = declared.get(entry["path"], root / entry["path"])
        found = folder.digest(path) if path.is_file() else None
        if found != entry["sha256"]:
            yield Difference(entry["path"], entry["sha256"], found)
    for name in sorted(declared.keys() - {entry["path"] for entry in source["files"]}):
        yield Difference(name, None, folder.digest(declared[name]) if declared[name].is_file() else None)


def is_unchanged(config: ModelConfig, root: Path, metadata: Mapping[str, Any]) -> bool:
    """Whether an artifact was made from just this configuration and these files."""
    return next(differences(config, root, metadata), None) is None
