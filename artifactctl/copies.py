"""Copies that cost nothing where the file system can: shared blocks, else a second name of the file."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_FICLONE = 0x40049409  # of linux/fs.h


def take(source: Path, target: Path) -> None:
    """`target` is new, and has the bytes of `source`; it may be a second name of it, so nobody writes into either."""
    if clone(source, target):
        return
    if os.name != "nt":  # where a name that is open elsewhere cannot be deleted
        try:
            target.hardlink_to(source)
        except OSError:  # another disk, another user's file, or too many names
            pass
        else:
            return
    shutil.copyfile(source, target)


def copy(source: Path | str, target: Path | str) -> None:
    """`target` is new, and a file of its own: onnx refuses data that has a second name."""
    if not clone(Path(source), Path(target)):
        shutil.copyfile(source, target)


def clone(source: Path, target: Path) -> bool:
    """A new file that shares its blocks until one of the two is written into; False where that cannot be had."""
    if sys.platform != "linux":
        return False
    import fcntl

    try:
        with source.open("rb") as reader, target.open("xb") as writer:
            fcntl.ioctl(writer.fileno(), _FICLONE, reader.fileno())
    except FileExistsError:
        raise
    except OSError:  # not this file system, or not these two
        target.unlink(missing_ok=True)
        return False
    return True
