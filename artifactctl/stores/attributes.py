"""artifacts/<model>/.gitattributes: lines for each version, so that another store later leaves older ones alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from artifactctl import folder

NAME = ".gitattributes"
AS_IT_IS = "/{version}/** -text"  # a line end changed by git would be damage


def path_of(artifact: Path) -> Path:
    return artifact.parent / NAME


def add(artifact: Path, lines: Sequence[str]) -> Path:
    """Appends what is missing, by one rename."""
    path = path_of(artifact)
    present = path.read_text(encoding="utf-8") if path.is_file() else ""
    wanted = [line.format(version=artifact.name) for line in lines]
    missing = [line for line in wanted if line not in present.splitlines()]
    if missing:
        begun = present if not present or present.endswith("\n") else present + "\n"
        folder.write_whole(path, begun + "".join(f"{line}\n" for line in missing))
    return path
