"""Reading the registry from tags, and adding to it. Nothing in it is ever changed or deleted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl import registry, tags
from artifactctl.errors import ConfigError, Conflict, ReleaseError, SourceError
from artifactctl.git.repository import GitFailed, Repository, open_repository
from artifactctl.registry import Model, Released
from artifactctl.versions import parse_reference


@dataclass(frozen=True, slots=True)
class Said:
    """What was added, or was there already."""

    tag: str
    status: str  # added, unchanged
    sentence: str
    pushed: str | None = None

    def data(self) -> dict[str, Any]:
        return {"tag": self.tag, "status": self.status, "pushed": self.pushed}

    def text(self) -> str:
        lines = [self.sentence if self.status == "added" else f"unchanged: {self.sentence}", f"tag       {self.tag}"]
        return "\n".join([*lines, f"pushed    {self.pushed}"] if self.pushed else lines)


def read(place: Path | None = None) -> dict[str, Model]:
    with open_repository(place or Path.cwd()) as repository:
        return registry.models_of(tags.events_of(repository.tags()))


def find(reference: str, place: Path | None = None) -> tuple[Model, Released | None]:
    """MODEL or MODEL@vN among what was released."""
    model, version = _parsed(reference)
    models = read(place)
    if model not in models:
        known = ", ".join(models) or "none"
        hint = f"Released models are: {known}. Tags of a remote come with 'git fetch --tags'."
        raise SourceError(f"no release of {model!r} is known here", hint=hint)
    if version is None:
        return models[model], None
    found = models[model].find(version)
    if found is None:
        known = ", ".join(f"v{item.version}" for item in models[model].versions)
        raise SourceError(f"{model} has no released version {version}", hint=f"It has: {known}.")
    return models[model], found


def assign(reference: str, stage: str, *, push: bool, remote: str | None) -> Said:
    if not tags.is_stage(stage):
        raise ConfigError(f"{stage!r} cannot be a stage", hint="Small letters, digits, - and _: dev, staging, prod.")
    model, released = _version(reference)
    number = released.version
    sentence = f"{model.name} v{number} is at {stage}"
    with open_repository(Path.cwd()) as repository:
        if released.yanked is not None:
            hint = "Assign another version."
            raise Conflict(f"{model.name} v{number} was withdrawn: {released.yanked}", hint=hint)
        if registry.stage_holders(model.events).get(stage) == number:
            last = max(event.number for event in model.events if event.stage == stage)
            name = tags.assign_name(model.name, stage, last)
            return Said(name, "unchanged", sentence, _push(repository, remote, name) if push else None)
        last = max((event.number for event in model.events if event.stage == stage), default=0)
        name = tags.assign_name(model.name, stage, last + 1)
        trailers = {"Artifact-Version": f"artifact_v{number}", "Artifact-Stage": stage}
        return _say(repository, released, name, sentence, trailers, remote if push else None, push=push)


def yank(reference: str, reason: str, *, push: bool, remote: str | None) -> Said:
    if not reason.strip():
        raise ConfigError("a reason is needed: whoever finds the tag must know why", hint="--reason TEXT")
    model, released = _version(reference)
    name = tags.yank_name(model.name, released.version)
    sentence = f"{model.name} v{released.version} is withdrawn: {' '.join(reason.split())}"
    with open_repository(Path.cwd()) as repository:
        if released.yanked is not None:
            return Said(name, "unchanged", f"{model.name} v{released.version} was withdrawn: {released.yanked}",
                        _push(repository, remote, name) if push else None)  # fmt: skip
        trailers = {"Artifact-Version": f"artifact_v{released.version}", "Artifact-Reason": reason}
        return _say(repository, released, name, sentence, trailers, remote if push else None, push=push)


def _say(
    repository: Repository,
    about: Released,
    name: str,
    sentence: str,
    trailers: dict[str, str],
    remote: str | None,
    *,
    push: bool,
) -> Said:
    if problem := repository.identity_problem:
        hint = "git config user.name NAME && git config user.email ADDRESS"
        raise ReleaseError(f"git does not know who you are: {problem}", hint=hint)
    try:
        repository.create_tag(name, about.event.tag.commit, tags.message(sentence, "", trailers))
    except GitFailed as error:
        raise Conflict(
            f"the tag {name} could not be added: {error}", hint="git fetch --tags, then run it again."
        ) from None
    return Said(name, "added", sentence, _push(repository, remote, name, withdraw=True) if push else None)


def _push(repository: Repository, remote: str | None, name: str, *, withdraw: bool = False) -> str:
    where = remote or repository.default_remote() or "origin"
    try:
        repository.push(where, f"refs/tags/{name}")
    except GitFailed as error:
        if withdraw:  # it was never published: the next one gets a number that is free
            repository.delete_tag(name)
        lines = str(error).splitlines()
        why = next((line.strip() for line in lines if "rejected" in line), lines[0] if lines else "no answer")
        hint = f"git fetch --tags {where}, then run it again."
        raise ReleaseError(f"{where} did not take {name}: {why}", hint=hint) from None
    return where


def _version(reference: str) -> tuple[Model, Released]:
    model, released = find(reference)
    if released is None:
        raise ConfigError(f"{reference} names no version", hint=f"Write {model.name}@v{model.latest.version}.")
    return model, released


def _parsed(reference: str) -> tuple[str, int | None]:
    try:
        return parse_reference(reference)
    except ValueError as error:
        raise SourceError(str(error)) from None
