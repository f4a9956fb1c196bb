"""Packages that somebody made to harm whoever opens them, each with a word of the refusal it deserves."""

from __future__ import annotations

import io
import stat
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256

from artifactctl import zips
from artifactctl.folder import SUMS, sums_text

Members = Mapping[str, bytes]
Maker = Callable[[Members], bytes]
MAKERS: dict[str, tuple[Maker, str]] = {}

HERE = "artifact_v1"
SAMPLE = f"{HERE}/README.md"


def hostile(name: str, word: str) -> Callable[[Maker], Maker]:
    def keep(maker: Maker) -> Maker:
        MAKERS[name] = maker, word
        return maker

    return keep


def sums(members: Members) -> bytes:
    return sums_text({name: sha256(content).hexdigest() for name, content in members.items()}).encode()


def sealed(members: Members) -> dict[str, bytes]:
    return {**members, SUMS: sums(members)}


def zipped(*entries: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    """Exactly these, in this order, without any scruple."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")  # zipfile warns of duplicates
        for entry, content in entries:
            archive.writestr(zips.entry(entry) if isinstance(entry, str) else entry, content)
    return buffer.getvalue()


def good(members: Members) -> bytes:
    return zipped(*sorted(sealed(members).items()))


def tweaked(members: Members, name: str, **attributes: int) -> bytes:
    entries: list[tuple[zipfile.ZipInfo | str, bytes]] = []
    for each, content in sorted(sealed(members).items()):
        entry = zips.entry(each)
        for key, value in attributes.items() if each == name else ():
            setattr(entry, key, value)
        entries.append((entry, content))
    return zipped(*entries)


def directory_at(archive: bytes) -> int:
    """From the end: golden.npz is a zip too, and its directory comes first."""
    return int.from_bytes(archive[-6:-2], "little")


def patched(archive: bytes, name: str, at_local: int, at_central: int, value: bytes) -> bytes:
    """The same field written anew in both headers of a member; -1 leaves a header as it is."""
    data = bytearray(archive)
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        local = opened.getinfo(name).header_offset
    central = archive.index(name.encode(), directory_at(archive)) - 46
    for start, at in ((local, at_local), (central, at_central)):
        if at >= 0:
            data[start + at : start + at + len(value)] = value
    return bytes(data)


NAMES = {
    "../evil": "leads out",
    f"{HERE}/../../evil": "leads out",
    f"{HERE}/..": "leads out",
    "..\\evil": "leads out",
    "/evil": "absolute",
    "//host/share/evil": "absolute",
    "\\\\host\\share\\evil": "absolute",
    "C:/evil": "absolute",
    "C:evil": "absolute",
    f"{HERE}/evidence\\evil": "Windows does not allow",
    f"{HERE}/README.md:stream": "Windows does not allow",
    f"{HERE}/what?": "Windows does not allow",
    f"{HERE}/.hidden": "hidden",
    ".git/hooks/pre-commit": "hidden",
    ".": "empty part",
    f"{HERE}//double": "empty part",
    f"./{HERE}/dot": "empty part",
    f"{HERE}/folder/": "is a folder",
    f"{HERE}/CON": "Windows keeps",
    f"{HERE}/nul.txt": "Windows keeps",
    f"{HERE}/Com¹.log": "Windows keeps",
    f"{HERE}/aux .md": "Windows keeps",
    f"{HERE}/CONOUT$": "Windows keeps",
    f"{HERE}/README.md.": "ends with",
    f"{HERE}/README.md ": "ends with",
    f"{HERE}/bell\a": "cannot be seen",
    f"{HERE}/line\nfeed": "cannot be seen",
    f"{HERE}/card\u202edm.exe": "cannot be seen",
    f"{HERE}/zero\u200bwidth": "cannot be seen",
    f"{HERE}/{'x' * 150}": "too long",
    f"{HERE}/{'x/' * 100}x": "too long",
    f"{HERE}/cafe\u0301": "normal form",
    f"{HERE}/readme.md": "one file on some systems",
    f"{HERE}/\uff32EADME.md": "one file on some systems",
    f"{HERE}/evidence": "a file and a folder",
    f"{HERE}/README.md/inside": "a file and a folder",
    f"{HERE}/Evidence/more.json": "one folder on some systems",
    "artifact_v2/README.md": "more than one artifact",
}
for _name, _word in NAMES.items():
    MAKERS[f"name {ascii(_name)[:60]}"] = (lambda members, name=_name: good({**members, name: b"evil"})), _word

ATTRIBUTES = {
    "link": ((stat.S_IFLNK | 0o777) << 16, "is a link"),
    "character device": ((stat.S_IFCHR | 0o644) << 16, "is a device"),
    "block device": ((stat.S_IFBLK | 0o644) << 16, "is a device"),
    "pipe": ((stat.S_IFIFO | 0o644) << 16, "is a pipe"),
    "socket": ((stat.S_IFSOCK | 0o644) << 16, "is a socket"),
    "folder by mode": ((stat.S_IFDIR | 0o755) << 16, "is a folder"),
    "folder by DOS": ((0o644 << 16) | 0x10, "is a folder"),
    "set-user-id": ((stat.S_IFREG | 0o4755) << 16, "special permissions"),
    "other mode": (0o755 << 16, "other permissions"),
}
for _name, (_value, _word) in ATTRIBUTES.items():
    MAKERS[_name] = (lambda members, value=_value: tweaked(members, SAMPLE, external_attr=value)), _word


@hostile("link out of the target", "is a link")
def _(members: Members) -> bytes:
    """And then a file through it, as the classic goes."""
    link = zips.entry(f"{HERE}/way")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    more = {**members, f"{HERE}/way": b"../..", f"{HERE}/way/evil": b"evil"}
    plain = sorted(sealed(more).items())
    return zipped(*((link if name == link.filename else name, content) for name, content in plain))


@hostile("NUL in a name", "cannot be seen")
def _(members: Members) -> bytes:
    name = f"{HERE}/README.mdZ.exe"
    return good({**members, name: b"evil"}).replace(name.encode(), name.replace("Z", "\0").encode())


@hostile("name that is not text", "flags")
def _(members: Members) -> bytes:
    return good({**members, f"{HERE}/evXl": b"evil"}).replace(b"evXl", b"ev\xffl")


@hostile("the same name twice", "is there twice")
def _(members: Members) -> bytes:
    return zipped(*sorted(sealed(members).items()), (SAMPLE, b"another card"))


@hostile("not listed", "is not listed")
def _(members: Members) -> bytes:
    return zipped(*sorted({**sealed(members), f"{HERE}/extra.py": b"evil"}.items()))


@hostile("listed and missing", "but missing")
def _(members: Members) -> bytes:
    left = {name: content for name, content in sealed(members).items() if name != SAMPLE}
    return zipped(*sorted(left.items()))


@hostile("no list", "no SHA256SUMS")
def _(members: Members) -> bytes:
    return zipped(*sorted(members.items()))


@hostile("no list of the artifact", "no artifact_v1/SHA256SUMS")
def _(members: Members) -> bytes:
    return good({name: content for name, content in members.items() if name != f"{HERE}/{SUMS}"})


@hostile("damaged list", "damaged line")
def _(members: Members) -> bytes:
    return zipped(*sorted({**members, SUMS: sums(members).upper()}.items()))


@hostile("list without an end", "cut off")
def _(members: Members) -> bytes:
    return zipped(*sorted({**members, SUMS: sums(members)[:-1]}.items()))


@hostile("huge list", "longer than any")
def _(members: Members) -> bytes:
    return zipped(*sorted({**members, SUMS: b"0" * (5 << 20)}.items()))


@hostile("other content", "its digest is not the one")
def _(members: Members) -> bytes:
    return zipped(*sorted({**sealed(members), SAMPLE: b"another card"}.items()))


@hostile("no artifact", "no folder artifact_vN")
def _(members: Members) -> bytes:
    return good({name.replace(HERE, "artifact"): content for name, content in members.items()})


@hostile("artifact one level down", "no folder artifact_vN")
def _(members: Members) -> bytes:
    return good({f"models/{name}": content for name, content in members.items()})


@hostile("artifact that is a file", "no artifact_v1/SHA256SUMS")
def _(members: Members) -> bytes:
    return good({HERE: b"evil"})


@hostile("encrypted", "is encrypted")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, 6, 8, b"\x01\x00")


@hostile("data descriptor", "flags")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, 6, 8, b"\x08\x00")


for _method, _number in (("bzip2", zipfile.ZIP_BZIP2), ("lzma", zipfile.ZIP_LZMA)):
    MAKERS[_method] = (lambda members, number=_number: tweaked(members, SAMPLE, compress_type=number)), "compressed"


@hostile("method that does not exist", "compressed")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, 8, 10, b"\x63\x00")


@hostile("ratio bomb", "grows from")
def _(members: Members) -> bytes:
    return tweaked({**members, f"{HERE}/zeros": bytes(20 << 20)}, f"{HERE}/zeros", compress_type=zipfile.ZIP_DEFLATED)


@hostile("bomb of many small members", "small members grow")
def _(members: Members) -> bytes:
    more = {f"{HERE}/{number}": bytes(1 << 20) for number in range(120)}
    entries: list[tuple[zipfile.ZipInfo | str, bytes]] = []
    for name, content in sorted(sealed({**members, **more}).items()):
        entry = zips.entry(name)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entries.append((entry, content))
    return zipped(*entries)


def overlapping(members: Members, *, quoted: bool) -> bytes:
    """Many records of the directory for one kernel of data, as in Fifield's bomb; quoted: through a stored header."""
    archive = good(members)
    start = directory_at(archive)
    end = archive.rindex(b"PK\x05\x06")
    at = archive.index(SAMPLE.encode(), start) - 46
    record = archive[at : at + 46 + len(SAMPLE)]
    more = b""
    for number in range(50):
        name = f"{HERE}/{number:0{len(SAMPLE) - len(HERE) - 1}d}".encode()
        changed = record[:46] + name
        if quoted:  # begins inside the member before it
            offset = struct.unpack("<L", record[42:46])[0] + 30
            changed = changed[:42] + struct.pack("<L", offset) + changed[46:]
        more += changed
    count = struct.unpack("<H", archive[end + 8 : end + 10])[0] + 50
    size = end - start + len(more)
    return archive[:end] + more + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, size, start, 0)


@hostile("overlapping members", "does not begin where")
def _(members: Members) -> bytes:
    return overlapping(members, quoted=False)


@hostile("members inside members", "does not begin where")
def _(members: Members) -> bytes:
    return overlapping(members, quoted=True)


@hostile("smaller in the directory", "two sizes")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, -1, 24, struct.pack("<L", 1))


@hostile("other sizes in the directory", "headers that differ")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, -1, 20, struct.pack("<2L", 1, 1))


@hostile("other name in the local header", "headers that differ")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, 30, -1, SAMPLE.replace("README", "readme").encode())


@hostile("longer than the file", "longer than the file")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, 18, 20, struct.pack("<2L", 1 << 30, 1 << 30))


def deflated(members: Members) -> bytes:
    return tweaked(members, SAMPLE, compress_type=zipfile.ZIP_DEFLATED)


@hostile("more than its size", "not as long as")
def _(members: Members) -> bytes:
    """Both headers lie, so that a reader that trusts them gives away less than there is, or more."""
    return patched(deflated(members), SAMPLE, 22, 24, struct.pack("<L", 10))


@hostile("less than its size", "not as long as")
def _(members: Members) -> bytes:
    return patched(deflated(members), SAMPLE, 22, 24, struct.pack("<L", len(members[SAMPLE]) + 1))


@hostile("no deflate stream", "was changed")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, 8, 10, b"\x08\x00")


@hostile("bytes after a deflate stream", "not as long as")
def _(members: Members) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(members[SAMPLE]) + packer.flush() + b"hidden" * 400_000
    archive = zipped(*((name, packed if name == SAMPLE else data) for name, data in sorted(sealed(members).items())))
    sizes = struct.pack("<3L", zlib.crc32(members[SAMPLE]), len(packed), len(members[SAMPLE]))
    return patched(patched(archive, SAMPLE, 14, 16, sizes), SAMPLE, 8, 10, b"\x08\x00")


@hostile("wrong CRC", "was changed")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, 14, 16, b"evil")


@hostile("bytes in front", "before its first member")
def _(members: Members) -> bytes:
    return b"#!/bin/sh\nevil\n" + good(members)


@hostile("bytes in front, offsets mended", "bytes before it")
def _(members: Members) -> bytes:
    buffer = io.BytesIO()
    buffer.write(b"#!/bin/sh\nevil\n")
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, content in sorted(sealed(members).items()):
            archive.writestr(zips.entry(name), content)
    return buffer.getvalue()


@hostile("bytes behind", "after its end")
def _(members: Members) -> bytes:
    return good(members) + b"evil"


@hostile("comment", "after its end")
def _(members: Members) -> bytes:
    archive = good(members)
    return archive[:-2] + b"\x04\x00evil"


@hostile("comment that is an end itself", "before its first member")
def _(members: Members) -> bytes:
    """Two readers, two directories."""
    archive, other = good(members), good({"artifact_v1/evil": b"evil"})
    return archive[:-2] + struct.pack("<H", len(other)) + other


@hostile("bytes between members", "does not begin where")
def _(members: Members) -> bytes:
    archive = good(members)
    start, end = directory_at(archive), archive.rindex(b"PK\x05\x06")
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        first = opened.infolist()[1].header_offset
    directory = bytearray(archive[start:end])
    at = 0
    while at < len(directory):
        (offset,) = struct.unpack_from("<L", directory, at + 42)
        struct.pack_into("<L", directory, at + 42, offset + (4 if offset >= first else 0))
        at += 46 + struct.unpack_from("<H", directory, at + 28)[0]
    tail = bytearray(archive[end:])
    struct.pack_into("<L", tail, 16, start + 4)
    return archive[:first] + b"evil" + archive[first:start] + bytes(directory) + bytes(tail)


@hostile("bytes before the directory", "between the last member")
def _(members: Members) -> bytes:
    archive = good(members)
    start, end = directory_at(archive), archive.rindex(b"PK\x05\x06")
    tail = bytearray(archive[end:])
    struct.pack_into("<L", tail, 16, start + 4)
    return archive[:start] + b"evil" + archive[start:end] + bytes(tail)


@hostile("extra field", "record of")
def _(members: Members) -> bytes:
    entry = zips.entry(SAMPLE)
    entry.extra = struct.pack("<2H4s", 0x7075, 4, b"evil")  # another name, for readers that know the field
    plain = sorted(sealed(members).items())
    return zipped(*((entry if name == SAMPLE else name, content) for name, content in plain))


@hostile("comment of a member", "header that no package has")
def _(members: Members) -> bytes:
    return patched(good(members), SAMPLE, -1, 36, b"\x01\x00")


@hostile("second disk", "its end is damaged")
def _(members: Members) -> bytes:
    archive = good(members)
    return archive[:-18] + b"\x01\x00" + archive[-16:]


@hostile("fewer members than it has", "belong to no member")
def _(members: Members) -> bytes:
    archive = good(members)
    count = struct.pack("<H", struct.unpack("<H", archive[-14:-12])[0] - 1)
    return archive[:-14] + count * 2 + archive[-10:]


@hostile("too many members", "more than any package")
def _(members: Members) -> bytes:
    return zipped(*((str(number), b"") for number in range(10_001)))


@hostile("nothing in it", "it is empty")
def _(members: Members) -> bytes:
    return zipped()


@hostile("no bytes", "it is empty")
def _(members: Members) -> bytes:
    return b""


@hostile("cut off", "cut off")
def _(members: Members) -> bytes:
    return good(members)[:-100]


@hostile("only its end", "before its first member")
def _(members: Members) -> bytes:
    return good(members)[-22:]


@hostile("no zip", "is no zip")
def _(members: Members) -> bytes:
    return b"<html>not found</html>" * 10
