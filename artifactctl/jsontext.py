"""JSON as it stands in our files: the order of its keys is the order it was made in, and it ends with a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artifactctl import folder, schema
from artifactctl.errors import ArtifactctlError


def render(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(path: Path, data: Mapping[str, Any]) -> None:
    folder.write_whole(path, render(data))


def read(path: Path, kind: str, failure: type[ArtifactctlError], hint: str | None = None) -> dict[str, Any] | None:
    """None where there is no file; what cannot be read, or does not fit the schema `kind`, is a failure."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise failure(f"{path.name} cannot be read: {error}", hint=hint) from None
    if found := schema.problems(data, kind):
        raise failure(f"{path.name}: {found[0].message}", hint=hint)
    mapping: dict[str, Any] = data
    return mapping
