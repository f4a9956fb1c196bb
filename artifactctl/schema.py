"""Checks a mapping against schemas/ and says in words what does not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from artifactctl.errors import perhaps
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


def session_problems(data: Any) -> list[Problem]:
    """Of a session alone, as metadata.yaml would record it."""
    import jsonschema

    validator = jsonschema.Draft202012Validator(load("metadata")["properties"]["session"])
    return [problem for error in validator.iter_errors(data) for problem in _phrase(error)]


def _phrase(error: Any) -> Iterator[Problem]:
    place = tuple(error.absolute_path)
    if error.parent is None and "propertyNames" in error.absolute_schema_path:
        name, rule = error.instance, error.schema.get("description", "letters, digits, '_', '-' and '.' only")
        yield Problem((*place, name), f"{name!r} cannot be a name here: {rule}")
    elif error.validator == "additionalProperties" and isinstance(error.schema.get("properties"), Mapping):
        known = list(error.schema["properties"])
        for key in error.instance:
            if key not in known:
                yield Problem((*place, key), f"unknown key {key!r}{_meant(key, known)}")
    elif error.validator in ("oneOf", "anyOf") and error.context:
        best = max(error.context, key=lambda inner: (len(inner.absolute_path), inner.validator != "type"))
        if best.validator != "const" and len(best.absolute_path) > len(error.absolute_path):
            yield from _phrase(best)
        else:
            yield Problem(place, _misfit(error))
    else:
        yield Problem(place, _one_value(error, place))


def _misfit(error: Any) -> str:
    wanted = error.schema.get("description")
    return f"{_short(repr(error.instance))} does not fit: {wanted}" if wanted else _short(error.message)


def _one_value(error: Any, place: tuple[str | int, ...]) -> str:
    """A value that does not fit by itself."""
    if error.validator == "required":
        return f"key {error.message.split(' is a required')[0]} is missing"
    if error.validator == "enum":
        allowed = [str(value) for value in error.validator_value]
        meant = _meant(str(error.instance), allowed)
        return f"{_short(repr(error.instance))} is not one of {', '.join(allowed)}{meant}"
    if error.validator == "const":
        return f"{place[-1] if place else 'the value'} must be {error.validator_value!r}, not {error.instance!r}"
    if error.validator == "type" and isinstance(error.validator_value, str):
        wanted = {"array": "a list: […]", "object": "a mapping: {key: value}"}.get(error.validator_value)
        return f"{_short(repr(error.instance))} is not {wanted or error.validator_value}"
    return _misfit(error) if error.validator in ("pattern", "type") else _short(error.message)


def _short(text: str) -> str:
    return text if len(text) < 250 else f"{text[:250]} …"


def _meant(word: str, known: list[str]) -> str:
    return perhaps(word, known) or f" (known: {', '.join(known)})"
