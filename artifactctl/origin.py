"""What an artifact was made from: the configuration and the files, found again and proved by their digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

from artifactctl import __version__, config, git
from artifactctl.errors import SourceError
from artifactctl.inputs import Difference, config_digest, differences
from artifactctl.project import ModelConfig, Project
from artifactctl.recipes import AUTO, OLIVE_PREFIX, base_of
from artifactctl.records import SOURCE_RECIPE
from artifactctl.steps.sides import find_source
from artifactctl.versions import folder_name

MOST_ORDERED = 5  # recipes whose order on the command line is tried


def own_project(path: Path) -> Project | None:
    """The configuration beside the artifacts/ that a version lies in."""
    root = path.resolve().parents[2] if len(path.resolve().parents) > 2 else None
    found = config.find(root, None) if root else None
    return config.load(found) if found else None


def origin_of(path: Path, metadata: Mapping[str, Any], project: Project | None) -> tuple[ModelConfig, Path]:
    """The model's configuration and the folder its paths start from; a SourceError names what is gone or changed."""
    found: list[list[Difference]] = []
    for candidate, root in _candidates(path, metadata, project):
        asked = _as_recorded(candidate, metadata)
        problems = list(differences(asked or candidate, root, metadata))
        if not problems:
            return asked or candidate, root
        found.append(problems)
    name = f"{metadata['model_name']} {folder_name(metadata['version'])}"
    if found:
        closest = min(found, key=lambda problems: (any(item.path is None for item in problems), len(problems)))
        what = "; ".join(item.describe() for item in closest)
        raise SourceError(f"{name} cannot be rebuilt: {what} since it was built", hint=_hint(path, metadata, closest))
    source = metadata["source"]
    digest = f" (sha256 {source['files'][0]['sha256']})" if source["files"] else ""
    message = f"{name} cannot be rebuilt: {source['target']}{digest} is not here, nor is a configuration of that model"
    raise SourceError(message, hint=_hint(path, metadata, []))


def _candidates(path: Path, metadata: Mapping[str, Any], project: Project | None) -> Iterator[tuple[ModelConfig, Path]]:
    """The configured model of that name, and the file alone, as `artifactctl build FILE` takes it."""
    name, source = metadata["model_name"], metadata["source"]
    if project and name in project.models:
        yield project.models[name], project.root
    if source["kind"] not in ("onnx", "exported_program") or not source["files"]:
        return
    lying = (place / source["target"] for place in (Path.cwd(), *path.resolve().parents[1:3]))
    file = find_source(path.resolve(), metadata) or next((file for file in lying if file.is_file()), None)
    if file is None:
        return
    alone = config.for_file(file, source["target"])
    if name in alone.models:
        yield alone.models[name], alone.root


def _as_recorded(candidate: ModelConfig, metadata: Mapping[str, Any]) -> ModelConfig | None:
    """With the recipes and the provider that the command line gave, if it did; None where that does not explain it."""
    named = [entry["recipe"] for entry in metadata["recipe"]["candidates"] if entry["recipe"] != SOURCE_RECIPE]
    tried = list(dict.fromkeys(map(base_of, named)))
    orders = permutations(tried) if len(tried) <= MOST_ORDERED else [tuple(tried)]
    lists = [candidate.recipes, (AUTO, *(name for name in tried if name.startswith(OLIVE_PREFIX))), *orders]
    for recipes in dict.fromkeys(lists):
        for providers in dict.fromkeys((candidate.providers, (metadata["session"]["provider"],))):
            asked = replace(candidate, recipes=recipes, providers=providers)
            if config_digest(asked) == metadata["source"]["config_sha256"]:
                return asked
    return None


def _hint(path: Path, metadata: Mapping[str, Any], problems: list[Difference]) -> str:
    name, version = metadata["model_name"], metadata["version"]
    made_by = metadata["environment"]["artifactctl"]
    if made_by != __version__ and any(item.path is None for item in problems):
        return f"It was built by artifactctl {made_by}, and this is {__version__}: pip install artifactctl=={made_by}"
    if version in git.tagged_versions(path.resolve().parent, name):
        return f"git checkout {name}/{folder_name(version)}"
    names = " ".join(item.path or config.CONFIG_NAME for item in problems) or metadata["source"]["target"]
    return f"Bring back what it was built from; git log -- {names}"
