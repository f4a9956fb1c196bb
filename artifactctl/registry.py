"""The registry of released models: what the tags of a repository say, put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from artifactctl.tags import ASSIGN, RELEASE, YANK, Event


@dataclass(frozen=True, slots=True)
class Released:
    """A version, and all that was said about it since."""

    event: Event
    stages: tuple[str, ...] = ()
    yanked: str | None = None  # the reason

    @property
    def version(self) -> int:
        return self.event.version


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    versions: tuple[Released, ...]  # oldest first
    events: tuple[Event, ...] = field(default=())

    @property
    def latest(self) -> Released:
        """The newest that was not withdrawn; where all were, the newest."""
        return next((item for item in reversed(self.versions) if item.yanked is None), self.versions[-1])

    def find(self, version: int) -> Released | None:
        return next((item for item in self.versions if item.version == version), None)


def models_of(events: Iterable[Event]) -> dict[str, Model]:
    """By name; a model appears with its first release."""
    by_model: dict[str, list[Event]] = {}
    for event in events:
        by_model.setdefault(event.model, []).append(event)
    found = {name: _model(name, own) for name, own in sorted(by_model.items())}
    return {name: model for name, model in found.items() if model.versions}


def _model(name: str, events: list[Event]) -> Model:
    holders = stage_holders(events)
    reasons = {event.version: event.trailers.get("Artifact-Reason", "") for event in events if event.kind == YANK}
    versions = [
        Released(
            event,
            tuple(sorted(stage for stage, version in holders.items() if version == event.version)),
            reasons.get(event.version),
        )
        for event in events
        if event.kind == RELEASE
    ]
    return Model(name, tuple(sorted(versions, key=lambda item: item.version)), tuple(events))


def stage_holders(events: Iterable[Event]) -> dict[str, int]:
    """Which version each stage is at: by the largest number, not by clocks."""
    last: dict[str, Event] = {}
    for event in events:
        if (
            event.kind == ASSIGN
            and event.stage
            and event.number > (last[event.stage].number if event.stage in last else 0)
        ):
            last[event.stage] = event
    return {stage: event.version for stage, event in last.items()}
