"""Inputs of an action, which come through the environment only: no text of a user ever stands in a script."""

from __future__ import annotations

import json
import os
from typing import Any

from artifactctl.errors import ConfigError


def text(name: str) -> str:
    return os.environ.get(f"INPUT_{name.upper().replace('-', '_')}", "").strip()


def words(name: str) -> list[str]:
    return text(name).replace(",", " ").split()


def required(name: str) -> str:
    if found := text(name):
        return found
    raise ConfigError(f"the input {name!r} is empty", hint=f"Give it in the step: with: {{{name}: …}}")


def flag(name: str) -> bool:
    found = text(name).lower()
    if found not in ("", "true", "false"):
        raise ConfigError(f"the input {name!r} is {found!r}", hint="It is true or false.")
    return found == "true"


def document(name: str) -> Any:
    """A JSON value that another job handed over."""
    try:
        return json.loads(required(name))
    except ValueError:
        hint = "Hand over the output of the job before it, unchanged."
        raise ConfigError(f"the input {name!r} is not JSON", hint=hint) from None


def options(*names: str) -> list[str]:
    """`--name value` for each input that is given; an input and its option share a name."""
    found: list[str] = []
    for name in names:
        if value := text(name):
            found.append(f"--{name}={value}")
    return found


def repeated(name: str, option: str) -> list[str]:
    return [f"--{option}={word}" for word in words(name)]
