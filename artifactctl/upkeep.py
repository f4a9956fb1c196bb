"""What lies in the user's cache, and taking it out again. Only what the cache itself put there is ever removed."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from artifactctl import cache
from artifactctl.alive import is_dead
from artifactctl.errors import NotAvailable
from artifactctl.folder import content_size

DAY_S = 86400.0
_KEY = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"\.[0-9a-f]{64}-\w+\.part")


def info() -> dict[str, Any]:
    """The place is absolute: it is no part of any project, and CI must be told to keep it."""
    home = cache.place()
    if home is None:
        return {"path": None, "usable": False, "why": "there is no home directory", "entries": 0} | _sizes([])
    why = cache.trouble(home)
    entries = list(_entries(home))
    return {"path": str(home), "usable": why is None, "why": why, "entries": len(entries)} | _sizes(entries)


def _sizes(entries: list[Path]) -> dict[str, Any]:
    sizes = [_size(entry) for entry in entries]
    oldest = min((_used(entry) for entry in entries), default=None)
    date = None if oldest is None else datetime.fromtimestamp(oldest, UTC).isoformat(timespec="seconds")
    return {"size_bytes": sum(sizes), "oldest": date}


def clear(older_than_days: float | None = None) -> dict[str, Any]:
    """Everything, or what no build has used for so many days; and what killed builds left."""
    home = cache.place()
    if home is None:
        return {"path": None, "removed": 0, "kept": 0, "size_bytes": 0}
    if why := cache.trouble(home):
        raise NotAvailable(
            f"the cache is left as it is: {home}: {why}", hint=f"Set {cache.VARIABLE} to another folder."
        )
    limit = time.time() - older_than_days * DAY_S if older_than_days is not None else float("inf")
    removed, freed, kept = 0, 0, 0
    for entry in _entries(home):
        size = _size(entry)
        if _used(entry) < limit and cache.remove(entry):
            removed, freed = removed + 1, freed + size
        else:
            kept += 1
    for left in _unfinished(home):
        shutil.rmtree(left, ignore_errors=True)
    for plan in sorted((home / cache.PLANS).glob("*.json")):
        if _used(plan) < limit:
            plan.unlink(missing_ok=True)
    return {"path": str(home), "removed": removed, "kept": kept, "size_bytes": freed}


def _entries(home: Path) -> Iterator[Path]:
    for path in sorted((home / cache.ENTRIES).glob("*")):
        if _KEY.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            yield path


def _unfinished(home: Path) -> Iterator[Path]:
    for path in sorted((home / cache.ENTRIES).glob(".*.part")):
        if _PART.fullmatch(path.name) and path.is_dir() and not path.is_symlink() and is_dead(path):
            yield path


def _used(path: Path) -> float:
    """When a build last took it; one that goes meanwhile is young."""
    for found in (path / cache.MANIFEST, path):
        with contextlib.suppress(OSError):
            return found.stat().st_mtime
    return time.time()


def _size(entry: Path) -> int:
    try:
        return content_size(entry)
    except OSError:  # another process takes it away
        return 0
