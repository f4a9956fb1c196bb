"""Checks a mapping against schemas/ and says in words what does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from artifactctl.resources import schema_path


@dataclass(frozen=True, slots=True)
class Problem:
    place: tuple[str | int, ...]
    message: str


@cache
def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(schema_path(name).read_text(encoding="utf-8"))
    return loaded


def problems(data: Any, name: str) -> list[Problem]:
    import jsonschema

    validator = jsonschema.Draft202012Validator(load(name))
    found = [problem for error in validator.iter_errors(data) for problem in _phrase(error)]
    return sorted(found, key=lambda problem: [str(part) for part in problem.place])


def _phrase(error: Any) -> Iterator[Problem]:
    place = tuple(error.absolute_path)
    if error.parent is None and "propertyNames" in error.absolute_schema_path:
        name = error.instance
        yield Problem((*place, name), f"{name!r} cannot be a name here: letters, digits, '_', '-' and '.' only")
        return
    if error.validator == "additionalProperties" and isinstance(error.schema.get("properties"), Mapping):
        known = list(error.schema["properties"])
        for key in error.instance:
            if key not in known:
                yield Problem((*place, key), f"unknown key {key!r}{_meant(key, known)}")
    elif error.validator in ("oneOf", "anyOf") and error.context:
        best = max(error.context, key=lambda inner: (len(inner.absolute_path), inner.validator != "type"))
        if best.validator == "const" or len(best.absolute_path) == len(error.absolute_path):
            wanted = error.schema.get("description")
            yield Problem(place, f"{error.instance!r} does not fit: {wanted}" if wanted else error.message)
        else:
            yield from _phrase(best)
    elif error.validator == "required":
        yield Problem(place, f"key {error.message.split(' is a required')[0]} is missing")
    elif error.validator == "enum":
        allowed = [str(value) for value in error.validator_value]
        yield Problem(
            place, f"{error.instance!r} is not one of {', '.join(allowed)}{_meant(str(error.instance), allowed)}"
        )
    elif error.validator == "pattern" and error.schema.get("description"):
        yield Problem(place, f"{error.instance!r} does not fit: {error.schema['description']}")
    else:
        yield Problem(place, error.message if len(error.message) < 300 else f"{error.message[:300]} …")


def _meant(word: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f", perhaps you meant {close[0]!r}" if close else f" (known: {', '.join(known)})"
