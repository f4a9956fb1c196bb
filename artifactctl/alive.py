"""Folders that belong to a command for as long as it lives: it holds the lock in them, and a killed one does not."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

ALIVE = "alive.lock"


@contextlib.contextmanager
def part_folder(target: Path) -> Iterator[Path]:
    """Beside `target`, for what will be it: no other run writes there. What killed runs left of it is removed first."""
    from filelock import FileLock

    for left in (*target.parent.glob(f".{target.name}.part"), *target.parent.glob(f".{target.name}-*.part")):
        remove_dead(left)
    place = Path(tempfile.mkdtemp(prefix=f".{target.name}-", suffix=".part", dir=target.parent))
    try:
        with FileLock(place / ALIVE):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def is_free(lock: Path) -> bool:
    """Whether nobody holds it."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, timeout=0):
            return True
    except (Timeout, OSError):  # OSError: of another user
        return False


def is_dead(place: Path) -> bool:
    """A file, or a folder whose command is over; one killed before it had the lock left no lock."""
    lock = place / ALIVE
    return not place.is_dir() or not lock.exists() or is_free(lock)


def remove_dead(place: Path) -> None:
    """Under the lock, so that nobody can begin to use it meanwhile."""
    from filelock import FileLock, Timeout

    if not place.is_dir():
        place.unlink(missing_ok=True)
        return
    with contextlib.suppress(Timeout, OSError):
        with FileLock(place / ALIVE, timeout=0):
            shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)  # a system that does not delete what is open
