"""JSON as it stands in our files: the order of its keys is the order it was made in, and it ends with a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def render(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
