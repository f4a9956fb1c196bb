"""What stands in annotated tags: the registry, as text that git carries. Format and parse, nothing else.

<model>/artifact_vN             a release
<model>/assign/<stage>/<n>      a version is given a stage; the largest n counts
<model>/yank/artifact_vN        a version is withdrawn, for a reason
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from artifactctl.versions import folder_name, parse_folder_name

RELEASE, ASSIGN, YANK = "release", "assign", "yank"
_TRAILER = re.compile(r"([A-Z][A-Za-z0-9]*(?:-[A-Z][A-Za-z0-9]*)+): (.*)")
_STAGE = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}\Z")


@dataclass(frozen=True, slots=True)
class Tag:
    """An annotated tag as it was read."""

    name: str
    commit: str
    message: str
    time_s: int

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a version of a model."""

    kind: str  # release, assign, yank
    model: str
    version: int
    tag: Tag
    trailers: Mapping[str, str]
    stage: str | None = None
    number: int = 0  # of an assignment, counted for each stage


def is_stage(name: str) -> bool:
    return bool(_STAGE.match(name))


def assign_name(model: str, stage: str, number: int) -> str:
    return f"{model}/{ASSIGN}/{stage}/{number}"


def yank_name(model: str, version: int) -> str:
    return f"{model}/{YANK}/{folder_name(version)}"


def message(subject: str, body: str, trailers: Mapping[str, str | None]) -> str:
    """Trailers are the last paragraph; a value is one line."""
    lines = [f"{key}: {_line(value)}" for key, value in trailers.items() if value is not None]
    return "\n\n".join(part for part in (_line(subject), body.strip(), "\n".join(lines)) if part) + "\n"


def parse_trailers(text: str) -> dict[str, str]:
    """Of the last paragraph, if every line of it is one: text above it cannot claim to be a trailer."""
    last = unsigned(text).strip().split("\n\n")[-1].splitlines()
    found = [_TRAILER.fullmatch(line) for line in last]
    return {match.group(1): match.group(2) for match in found if match} if all(found) else {}


def unsigned(text: str) -> str:
    """Without the signature that git puts below a message, whatever the message itself speaks of."""
    head, begin, signature = text.rpartition("\n-----BEGIN ")
    kind = signature.partition("-----")[0]
    return f"{head}\n" if begin and signature.rstrip().endswith(f"\n-----END {kind}-----") else text


def body(text: str) -> str:
    """What stands between the subject and the trailers of a message that `message` made."""
    parts = unsigned(text).strip().split("\n\n")
    return "\n\n".join(parts[1:-1])


def event_of(tag: Tag) -> Event | None:
    """None for a tag that is not ours."""
    trailers = parse_trailers(tag.message)
    model, _, rest = tag.name.partition("/")
    parts = rest.split("/")
    if len(parts) == 1 and (version := parse_folder_name(rest)):
        return Event(RELEASE, model, version, tag, trailers) if "Artifact-Digest" in trailers else None
    if len(parts) == 2 and parts[0] == YANK and (version := parse_folder_name(parts[1])):
        return Event(YANK, model, version, tag, trailers)
    if len(parts) == 3 and parts[0] == ASSIGN and is_stage(parts[1]) and parts[2].isdecimal():
        version = parse_folder_name(trailers.get("Artifact-Version", ""))
        return Event(ASSIGN, model, version, tag, trailers, parts[1], int(parts[2])) if version else None
    return None


def events_of(tags: Iterable[Tag]) -> list[Event]:
    """Oldest first; of two in one second, releases before what is said about them."""
    found = [event for tag in tags if (event := event_of(tag))]
    order = (RELEASE, ASSIGN, YANK)
    return sorted(found, key=lambda event: (event.tag.time_s, order.index(event.kind), event.version, event.number))


def _line(value: str) -> str:
    return " ".join(value.split())
