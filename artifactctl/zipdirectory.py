"""The directory at the end of a zip, read to the last bit: what it says of each member, and what no package says."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from artifactctl.errors import ArtifactDamaged
from artifactctl.membernames import shown

MOST_MEMBERS, MOST_DIRECTORY = 10_000, 4 << 20
STORED, DEFLATED = 0, 8
WIDE = 45  # the version of the format that a reader of ZIP64 needs
FULL = 0xFFFFFFFF  # the value is in the ZIP64 field
ENCRYPTED, UTF8 = 0x1, 0x800
DOS_FOLDER = 0x10
SYSTEMS = (0, 3)  # DOS and Unix, as zipfile writes them
KINDS = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}

_CENTRAL, _END = struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4H2LH")
_END64, _LOCATOR64 = struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
LOCAL_MARK, _CENTRAL_MARK, _END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_END64_MARK, _LOCATOR64_MARK = b"PK\x06\x06", b"PK\x06\x07"


@dataclass(frozen=True, slots=True)
class Record:
    """What the directory says about a member."""

    raw_name: bytes
    version: int
    made_by: int
    flags: int
    method: int
    moment: tuple[int, int]
    crc: int
    packed: int
    size: int
    others: tuple[int, int, int]  # length of the comment, disk, internal attributes: all nothing
    attributes: int
    offset: int
    wide: bool

    @property
    def name(self) -> str:
        return self.raw_name.decode("utf-8", "backslashreplace")


def directory(file: BinaryIO) -> tuple[list[Record], int]:
    """The records, and where they begin."""
    count, size, start = _end(file)
    if count > MOST_MEMBERS or size > MOST_DIRECTORY:
        raise ArtifactDamaged(f"it has {count} members, more than any package")
    content, at, found = read_at(file, start, size), 0, []
    for _ in range(count):
        record, at = _record(content, at)
        found.append(record)
    if at != size or not found:
        raise ArtifactDamaged("its directory has bytes that belong to no member" if size else "it is empty")
    return found, start


def strange(record: Record, first: Record) -> Iterator[str]:
    """What only the directory knows of a member, and no package has."""
    mode = record.attributes >> 16
    kind = stat.S_IFMT(mode)
    if kind not in (0, stat.S_IFREG) or record.attributes & DOS_FOLDER:
        yield f"is a {KINDS.get(kind, 'folder' if kind in (0, stat.S_IFREG) else 'device')}, not a plain file"
    elif mode & 0o7000 or record.attributes & 0xFFFF:
        yield "has special permissions"
    elif (record.attributes, record.made_by >> 8) != (first.attributes, first.made_by >> 8):
        yield f"has other permissions than {shown(first.name)}"
    if record.flags & ENCRYPTED:
        yield "is encrypted"
    elif record.flags != (0 if record.raw_name.isascii() else UTF8):
        yield "has flags in its header that no package has"
    if record.method not in (STORED, DEFLATED):
        yield f"is compressed in a way (method {record.method}) that no package has"
    elif record.method == STORED and record.packed != record.size:
        yield "is stored, but has two sizes"
    if record.made_by >> 8 not in SYSTEMS or record.made_by & 0xFF != record.version or any(record.others):
        yield "has a header that no package has"


def _record(content: bytes, at: int) -> tuple[Record, int]:
    head = content[at : at + _CENTRAL.size]
    if len(head) < _CENTRAL.size or not head.startswith(_CENTRAL_MARK):
        raise ArtifactDamaged("its directory is damaged")
    _, made_by, version, flags, method, time, date, crc, packed, size, *lengths, disk, internal, attributes, offset = (
        _CENTRAL.unpack(head)
    )
    names, middle = at + _CENTRAL.size, at + _CENTRAL.size + lengths[0]
    raw_name, extra = content[names:middle], content[middle : middle + lengths[1]]
    values = {"size": size, "packed": packed, "offset": offset}  # in the order of the ZIP64 field
    wide = [name for name, value in values.items() if value == FULL]
    if wide and len(extra) == 4 + 8 * len(wide):
        kind, length, *wider = struct.unpack(f"<2H{len(wide)}Q", extra)
        values |= dict(zip(wide, wider, strict=True))
    else:
        kind, length = (1, 0) if not extra else (0, 0)
    if len(raw_name) != lengths[0] or (kind, length) != (1, 8 * len(wide)):
        raise ArtifactDamaged(f"the directory's record of {shown(raw_name.decode('utf-8', 'replace'))} is damaged")
    others = (lengths[2], disk, internal)
    moment = (time, date)
    record = Record(raw_name, version, made_by, flags, method, moment, crc, others=others, attributes=attributes,
                     wide=bool(wide), **values)  # fmt: skip
    return record, middle + lengths[1]


def _end(file: BinaryIO) -> tuple[int, int, int]:
    """How many members there are, and the size and place of the directory, from the end of the file."""
    length = file.seek(0, os.SEEK_END)
    tail = read_at(file, max(0, length - _END.size), min(length, _END.size))
    if len(tail) < _END.size or not tail.startswith(_END_MARK):
        begun = read_at(file, 0, len(LOCAL_MARK)) == LOCAL_MARK
        why = "it is cut off, or has bytes after its end" if begun else "it is no zip"
        raise ArtifactDamaged(why if length else "it is empty")
    _, _, _, _, count, size, start, _ = _END.unpack(tail)
    ends = length - _END.size
    before = read_at(file, max(0, ends - _LOCATOR64.size - _END64.size), min(ends, _LOCATOR64.size + _END64.size))
    wide = before[_END64.size :].startswith(_LOCATOR64_MARK) and before.startswith(_END64_MARK)
    if wide:
        ends -= len(before)
        *_, count, size, start = _END64.unpack(before[: _END64.size])
    expected = _END.pack(_END_MARK, 0, 0, min(count, 0xFFFF), min(count, 0xFFFF), min(size, FULL), min(start, FULL), 0)
    if wide:
        expected = (
            _END64.pack(_END64_MARK, _END64.size - 12, WIDE, WIDE, 0, 0, count, count, size, start)
            + _LOCATOR64.pack(_LOCATOR64_MARK, 0, ends, 1)
            + expected
        )
    if (before if wide else b"") + tail != expected:
        raise ArtifactDamaged("its end is damaged, or has a comment")
    if start + size != ends:
        raise ArtifactDamaged("there are bytes before its first member, or its directory is damaged")
    return count, size, start


def read_at(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(max(0, size))
