"""What a step leaves: an exit code, a page, outputs, and remarks at lines of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from artifactctl.ci import blame
from artifactctl.report import github


@dataclass(frozen=True, slots=True)
class Remark:
    name: str  # of the error
    message: str
    line: blame.Line | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    code: int
    page: str
    outputs: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()


def told(error: Mapping[str, str], line: str | None = None, about: str = "") -> str:
    """What happened, what to type next, and what shows the same on a person's own machine."""
    more = f"\nThe same on your machine: {line}" if line else ""
    return f"{about}{error['message']}\nNext: {error['hint']}{more}"


def tell(finished: Finished) -> int:
    """To GitHub, which reads files and lines that begin with `::`."""
    for remark in finished.remarks:
        line = remark.line
        github.annotate(remark.name, remark.message, line.file if line else None, line.number if line else None)
    github.output(finished.outputs)
    github.append_page(finished.page)
    return finished.code
