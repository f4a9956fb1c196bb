"""YAML with the place of every value, duplicate keys refused, and `1e-3` read as the number people mean."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactctl.errors import ConfigError

if TYPE_CHECKING:
    import yaml

Place = tuple[str | int, ...]
MAX_NODES, MAX_DEPTH = 20_000, 100  # aliases can make a small file endless
EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9]*)?[eE][-+]?[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Document:
    name: str
    data: Any
    places: dict[Place, tuple[int, int]]

    def where(self, place: Place) -> str:
        """`file:line:column` of a value, or of the nearest thing around it."""
        while place and place not in self.places:
            place = place[:-1]
        line, column = self.places.get(place, (1, 1))
        return f"{self.name}:{line}:{column}"


def read(path: Path, name: str | None = None) -> Document:
    name = name or path.name
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{name} does not exist", hint="Run 'artifactctl init' to write one, or name another with --config."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} cannot be read: {error}", hint="It must be a text file in UTF-8.") from None
    return parse(text, name)


def parse(text: str, name: str) -> Document:
    import yaml

    loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loader = loader_class(text)
        try:
            root = loader.get_single_node()
            reader = _Reader(loader, name)
            data = reader.value(root, ()) if root is not None else None
        finally:
            loader.dispose()
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply", hint="Write it with fewer levels.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        problem = getattr(error, "problem", None) or str(error)
        if mark and "\t" in "".join(text.splitlines()[mark.line : mark.line + 1])[: mark.column + 1]:
            problem = "a tab stands where only spaces may"
        raise ConfigError(
            f"{where}: not valid YAML: {problem}", hint="Check the indentation and the colons around that line."
        ) from None
    return Document(name, data, reader.places)


class _Reader:
    def __init__(self, loader: Any, name: str) -> None:
        self._loader, self._name, self._count = loader, name, 0
        self.places: dict[Place, tuple[int, int]] = {}

    def value(self, node: yaml.Node, place: Place) -> Any:
        import yaml

        self._count += 1
        if self._count > MAX_NODES or len(place) > MAX_DEPTH:
            raise ConfigError(f"{self._name}: too many values (aliases that multiply?)", hint="Write the values out.")
        self.places.setdefault(place, (node.start_mark.line + 1, node.start_mark.column + 1))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*place, index)) for index, item in enumerate(node.value)]
        if node.tag.endswith(":str") and not getattr(node, "style", None) and EXPONENT.match(node.value):
            return self._finite(float(node.value.replace("_", "")), node)
        try:
            value = self._loader.construct_object(node)
        except (ValueError, KeyError, OverflowError) as error:
            raise self._error(node, f"{node.value!r} cannot be read: {error}") from None
        return self._finite(value, node) if isinstance(value, float) else value

    def _finite(self, value: float, node: yaml.Node) -> float:
        if not math.isfinite(value):
            raise self._error(node, f"{node.value!r} is not a finite number")
        return value

    def _error(self, node: yaml.Node, message: str) -> ConfigError:
        where = f"{self._name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
        return ConfigError(f"{where}: {message}", hint="Write a plain number, a text in quotes, or remove it.")

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
            if key in found:
                raise ConfigError(
                    f"{self._name}:{line}:{column}: key {key!r} appears twice", hint="Remove one of the two."
                )
            self.places[(*place, key)] = (line, column)
            found[key] = self.value(value_node, (*place, key))
        return found
