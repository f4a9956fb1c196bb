"""A rebuilt version against the recorded one: files, metadata, environment. Pure: two records in, differences out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from artifactctl import bom, card, environment, folder, metadata

EQUAL, DIFFERS, MEASURED, ADDED, MISSING = "equal", "differs", "measured", "added", "missing"
# what the record claims; a rebuild that arrives elsewhere proves the claim wrong, whatever the machine
CLAIMS = ("model_name", "source", "equivalence.bounds", "equivalence.statement", "equivalence.passed")
LATER_SETTINGS = ("memory_pattern", "arena", "flush_denormals")
_RENDERED = {folder.VALIDATE: metadata.render_validate, "README.md": card.render, folder.BOM: bom.render}


def as_recorded(rebuilt: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The rebuilt metadata with what no rebuild can give again: the number, the times, and the machine."""
    taken = ("version", "previous", "environment", "runtime", *metadata.MEASURED)
    before = {metadata.candidate_key(entry): entry for entry in recorded["recipe"]["candidates"]}
    tried = []
    for entry in rebuilt["recipe"]["candidates"]:
        found = metadata.same_candidate(before, entry["recipe"], entry.get("provider"))
        known = {key: value for key, value in entry.items() if key != "provider" or key in found}
        tried.append(known | {"latency": found.get("latency")})
    return {
        **rebuilt,
        **{key: recorded[key] for key in taken},
        "recipe": {**rebuilt["recipe"], "candidates": tried},
        "session": _session(rebuilt["session"], recorded["session"]),
    }


def _session(rebuilt: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Threads are the machine's; settings that older versions did not record say nothing."""
    kept = {key: value for key, value in rebuilt.items() if key in recorded or key not in LATER_SETTINGS}
    return kept | {"intra_op_threads": recorded["intra_op_threads"]}


def file_statuses(path: Path, other: Path, meta: Mapping[str, Any], changed: bool) -> list[dict[str, str]]:
    """Of every file of the version in `path` and of the rebuilt one in `other`, whose metadata `meta` is."""
    here, there = set(folder.listing(path)), set(folder.listing(other))
    found = dict.fromkeys(here - there, ADDED) | dict.fromkeys(there - here, MISSING)
    for name in here & there:
        if name == folder.METADATA:
            same = not changed
        elif name in _RENDERED:
            same = (path / name).read_bytes() == _RENDERED[name](meta).encode()
        else:
            same = folder.digest(path / name) == folder.digest(other / name)
        found[name] = EQUAL if same else MEASURED if name.startswith(folder.MEASURED) else DIFFERS
    found.pop(folder.SUMS, None)  # follows from the others
    return [{"path": name, "status": found[name]} for name in sorted(found)]


def metadata_differences(recorded: Mapping[str, Any], rebuilt: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Without measurements, place by place."""
    pair = (metadata.without_measurements(recorded), metadata.without_measurements(rebuilt))
    return [{"key": place, "recorded": one, "rebuilt": other} for place, one, other in _walk("", *pair)]


def _walk(place: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _walk(f"{place}.{key}".lstrip("."), one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for position, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _walk(f"{place}[{position}]", left, right)
    elif one != other:
        yield place, one, other


def environment_differences(recorded: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Packages and machine, then and here: the likely reason for other bytes."""
    then, here = (_flat(entry) for entry in (recorded, environment.describe()))
    names = dict.fromkeys((*then, *here))
    pairs = ({"package": name, "recorded": then.get(name), "here": here.get(name)} for name in names)
    return [pair for pair in pairs if pair["recorded"] != pair["here"]]


def _flat(described: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in described.items() if key not in ("packages", "date")} | {
        **described["packages"]
    }
