"""The cache, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def info_text(data: Mapping[str, Any]) -> str:
    if not data["usable"]:
        return f"cache {data['path'] or '–'}: not used: {data['why']}"
    oldest = f", the oldest last used {data['oldest'][:10]}" if data["oldest"] else ""
    return f"cache {data['path']}: {_amount(data['entries'], data['size_bytes'])}{oldest}"


def clear_text(data: Mapping[str, Any]) -> str:
    kept = f"; {data['kept']} kept" if data["kept"] else ""
    return f"cache {data['path'] or '–'}: {_amount(data['removed'], data['size_bytes'])} removed{kept}"


def _amount(entries: int, size_bytes: int) -> str:
    return f"{entries} {'entry' if entries == 1 else 'entries'}, {size_bytes / 1e6:.2f} MB"
