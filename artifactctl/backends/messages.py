"""What ONNX Runtime says, for people."""

from __future__ import annotations

import re
from pathlib import Path

_SIGNATURE = re.compile(r"/\S+\.(?:cc|h|cpp|hpp):\d+ .*?\)(?: const)? (?=[A-Z\[])")


def first_line(error: Exception, path: str = "") -> str:
    """One line, without C++ signatures and without the folder of `path`."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    line = _SIGNATURE.sub("", line.replace(path, Path(path).name) if path else line)
    return line[:500]
