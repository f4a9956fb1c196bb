"""A zip read with suspicion: every byte of the file belongs to one header or one member, or the file is refused.

`zipfile` looks for the directory wherever it may be and believes it. Here the local headers must say the same, members
lie side by side from the first byte up to the directory, and after the directory the file ends. So nothing can be
hidden before, between or after members, members cannot share bytes, and no byte of a header can be changed unseen.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from artifactctl.errors import ArtifactDamaged
from artifactctl.membernames import shown
from artifactctl.zipdirectory import FULL, LOCAL_MARK, STORED, WIDE, Record, directory, read_at, strange

CHUNK = 1 << 20
PLAIN = 20  # the version of the format that a reader needs, where there is no ZIP64
_LOCAL = struct.Struct("<4s5H3L2H")


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    method: int
    crc: int
    packed: int
    size: int
    data_at: int


@dataclass(frozen=True, slots=True)
class Layout:
    members: list[Member]
    problems: list[str]


def read(file: BinaryIO) -> Layout:
    """Raises ArtifactDamaged where there is no directory to speak of."""
    records, start = directory(file)
    members: list[Member] = []
    problems = [f"{shown(record.name)} {text}" for record in records for text in strange(record, records[0])]
    at = 0
    for record in records:
        length, why = _local_length(file, record, at, start)
        if why:  # where the next one should begin is not known any more
            return Layout([_member(other, 0) for other in records], [*problems, f"{shown(record.name)} {why}"])
        members.append(_member(record, at + length))
        at += length + record.packed
    if at != start:
        problems.append("there are bytes between the last member and the directory")
    return Layout(members, problems)


def chunks(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """The content, never more than its size and never more than a chunk at a time."""
    crc = produced = 0
    source = _stored(file, member) if member.method == STORED else _inflated(file, member)
    for data in source:
        produced += len(data)
        if produced > member.size:
            break
        crc = zlib.crc32(data, crc)
        yield data
    if produced != member.size:
        raise ArtifactDamaged(f"{shown(member.name)} is not as long as its header says")
    if crc != member.crc:
        raise ArtifactDamaged(f"{shown(member.name)} was changed")


def _stored(file: BinaryIO, member: Member) -> Iterator[bytes]:
    file.seek(member.data_at)
    left = member.packed
    while left and (data := file.read(min(left, CHUNK))):
        left -= len(data)
        yield data


def _inflated(file: BinaryIO, member: Member) -> Iterator[bytes]:
    machine = zlib.decompressobj(-zlib.MAX_WBITS)
    left = member.packed
    try:
        for packed in _stored(file, member):
            left -= len(packed)
            data = machine.decompress(packed, CHUNK)
            while data:
                yield data
                data = machine.decompress(machine.unconsumed_tail, CHUNK)
            if machine.eof:
                break
    except zlib.error:
        raise ArtifactDamaged(f"{shown(member.name)} was changed") from None
    if left or not machine.eof or machine.unused_data:
        raise ArtifactDamaged(f"{shown(member.name)} is not as long as its header says")


def _member(record: Record, data_at: int) -> Member:
    return Member(record.name, record.method, record.crc, record.packed, record.size, data_at)


def _local_length(file: BinaryIO, record: Record, at: int, end: int) -> tuple[int, str | None]:
    """The length of the header in front of a member, or why it cannot be the one that the directory speaks of."""
    if record.offset != at:
        return 0, "does not begin where the member before it ends" if at else "has bytes before it"
    wide = _local(record, wide=True)
    forms = [(wide, WIDE)]
    if record.size < FULL and record.packed < FULL:
        forms.append((_local(record, wide=False), WIDE if record.wide else PLAIN))
    found = read_at(file, at, min(len(wide), end - at))
    for header, version in forms:
        if found.startswith(header) and record.version == version:
            return len(header), None if at + len(header) + record.packed <= end else "is longer than the file"
    return 0, "has two headers that differ"


def _local(record: Record, *, wide: bool) -> bytes:
    sizes = (FULL, FULL) if wide else (record.packed, record.size)
    extra = struct.pack("<2H2Q", 1, 16, record.size, record.packed) if wide else b""
    version = WIDE if wide else PLAIN
    head = (LOCAL_MARK, version, record.flags, record.method, *record.moment, record.crc, *sizes)
    return _LOCAL.pack(*head, len(record.raw_name), len(extra)) + record.raw_name + extra
