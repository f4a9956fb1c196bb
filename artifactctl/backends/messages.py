"""What ONNX Runtime says, for people."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from artifactctl.backends import core
from artifactctl.errors import EXIT_CODES

Found = TypeVar("Found")
_SIGNATURE = re.compile(r"/\S+\.(?:cc|h|cpp|hpp):\d+ .*?\)(?: const)? (?=[A-Z\[])")


def first_line(error: Exception, path: str = "") -> str:
    """One line, without C++ signatures and without the folder of `path`."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    line = _SIGNATURE.sub("", line.replace(path, Path(path).name) if path else line)
    return line[:500]


def known_failures(function: Callable[..., Found], *arguments: Any) -> Found:
    """A failure of the shipped scripts as an error of ours."""
    try:
        return function(*arguments)
    except core.Failure as failure:
        raise EXIT_CODES[failure.code](str(failure), hint=failure.hint or None) from None
