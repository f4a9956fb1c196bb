"""Archives whose bytes depend on their members alone."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

Moment = tuple[int, int, int, int, int, int]
EARLIEST, LATEST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)  # that the format can write


def moment(date: datetime) -> Moment:
    """The nearest that the format can write; its seconds are even."""
    asked = (date.year, date.month, date.day, date.hour, date.minute, date.second & ~1)
    return min(max(asked, EARLIEST), LATEST)


def entry(name: str, time: Moment = EARLIEST) -> zipfile.ZipInfo:
    """Without this machine's clock, modes and system."""
    made = zipfile.ZipInfo(name, time)
    made.create_system, made.external_attr = 3, 0o644 << 16
    return made


def write(target: Path, members: Mapping[str, Path | bytes], time: Moment = EARLIEST) -> None:
    """Sorted by name and stored; the file appears whole or not at all."""
    part = target.with_name(f"{target.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            content = members[name]
            if isinstance(content, bytes):
                archive.writestr(entry(name, time), content)
                continue
            made = entry(name, time)
            made.file_size = content.stat().st_size  # tells whether the member needs ZIP64
            with content.open("rb") as source, archive.open(made, "w") as stream:
                shutil.copyfileobj(source, stream, 1 << 20)
    part.replace(target)
