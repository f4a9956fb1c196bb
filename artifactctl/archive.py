"""Packages: a zip with one artifact_vN/, Olive's layout and a list of digests; written, and read with suspicion."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from artifactctl import membernames, ziplayout, zips
from artifactctl.errors import NO_SPACE_HINT, ArtifactDamaged, NotAvailable
from artifactctl.folder import SUMS, digest, parse_sums, sums_text
from artifactctl.membernames import shown
from artifactctl.versions import parse_folder_name
from artifactctl.zipdirectory import DEFLATED
from artifactctl.ziplayout import Member

MOST_RATIO, ANY_RATIO = 100, 1 << 20  # unpacked ÷ packed, and the size up to which it does not matter
MOST_SUMS = 4 << 20
MOST_NAMED = 5
THREADS = 2  # the model is in a package twice, and hashing and writing leave the interpreter free


@dataclass(frozen=True, slots=True)
class _Contents:
    problems: list[str]
    members: list[Member] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)


def is_package(path: Path) -> bool:
    """By its name, or by how it begins; whether it is a sound one is another question."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return path.suffix.lower() == ".zip" or file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


def write(
    target: Path,
    members: Mapping[str, Path | bytes],
    time: zips.Moment = zips.EARLIEST,
    known: Mapping[str, str] | None = None,
) -> None:
    """A package of just these members and, at its root, their SHA256SUMS.

    `known` are digests that were just taken, by member; whoever opens the package compares them with what is in it.
    """
    names = [*members, SUMS]
    if found := [*_name_problems(names), *_artifact_problems(names)]:
        raise ArtifactDamaged(f"{target.name} cannot be written: {_some(found)}")
    digests = {name: (known or {}).get(name) or _digest(content) for name, content in members.items()}
    zips.write(target, {**members, SUMS: sums_text(digests).encode()}, time)


def _digest(content: Path | bytes) -> str:
    return hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else digest(content)


def problems(path: Path) -> list[str]:
    """Why a file is no package that may be unpacked; what its members hold is looked at by `extract` on the way."""
    with path.open("rb") as file:
        return _look(file).problems


def extract(path: Path, target: Path) -> Path:
    """Unpack artifact_vN and the list of digests into `target`, new or empty, and return the former.

    Every member is read and compared with the list; what Olive laid beside the artifact is not written, for nobody asks
    for it. A refused package leaves nothing there.
    """
    with path.open("rb") as file, contextlib.ExitStack() as undo:
        contents = _look(file)
        if contents.problems:
            raise ArtifactDamaged(f"{path} is refused: {_some(contents.problems)}")
        existed = target.is_dir()
        if existed and any(target.iterdir()):
            raise FileExistsError(f"{target} is not empty")
        target.mkdir(exist_ok=True)
        undo.callback(_clear, target, existed=existed)
        places = {member.name: _place(member, target) for member in contents.members}
        size = sum(member.size for member in contents.members if places[member.name])
        if shutil.disk_usage(target).free < size:
            raise NotAvailable(f"{path.name} needs {size / 1e6:.1f} MB to be unpacked", hint=NO_SPACE_HINT)
        pool = undo.enter_context(ThreadPoolExecutor(THREADS))
        tasks = [
            pool.submit(_take, path, member, places[member.name], contents.digests[member.name])
            for member in contents.members
        ]
        try:
            for task in tasks:
                task.result()
        except ArtifactDamaged as error:
            raise ArtifactDamaged(f"{path} is refused: {error}") from None
        finally:
            pool.shutdown(cancel_futures=True)  # a refusal does not wait for the rest
        undo.pop_all()
    return next(entry for entry in target.iterdir() if parse_folder_name(entry.name))


def _place(member: Member, target: Path) -> Path | None:
    wanted = member.name == SUMS or parse_folder_name(member.name.split("/")[0])
    return target / member.name if wanted else None


def _take(path: Path, member: Member, place: Path | None, expected: str) -> None:
    """Hashed on the way, so that nothing is read twice; the file is opened again, for each thread reads elsewhere."""
    found = hashlib.sha256()
    if place:
        place.parent.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as file, place.open("xb") if place else contextlib.nullcontext() as output:
        for data in ziplayout.chunks(file, member):
            found.update(data)
            if output:
                output.write(data)
    if found.hexdigest() != expected:
        raise ArtifactDamaged(f"{shown(member.name)} was changed: its digest is not the one in {SUMS}")


def _clear(target: Path, *, existed: bool) -> None:
    for entry in target.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    if not existed:
        target.rmdir()


def _look(file: BinaryIO) -> _Contents:
    """Everything that can be known without unpacking, the names first: they say most about what somebody tried."""
    try:
        layout = ziplayout.read(file)
        names = [member.name for member in layout.members]
        found = [*_name_problems(names), *_bombs(layout.members), *layout.problems, *_artifact_problems(names)]
        if found:
            return _Contents(found)
        sums = next(member for member in layout.members if member.name == SUMS)
        if sums.size > MOST_SUMS:
            return _Contents([f"{SUMS} is longer than any list of digests"])
        content = b"".join(ziplayout.chunks(file, sums))
    except ArtifactDamaged as error:
        return _Contents([str(error)])
    listed, found = parse_sums(content)
    present = set(names) - {SUMS}
    found += [f"{shown(name)} is not listed in {SUMS}" for name in sorted(present - listed.keys())]
    found += [f"{shown(name)} is listed in {SUMS}, but missing" for name in sorted(listed.keys() - present)]
    return _Contents(found, layout.members, {**listed, SUMS: hashlib.sha256(content).hexdigest()})


def _name_problems(names: list[str]) -> list[str]:
    found = [f"{shown(name)} {text}" for name in names if (text := membernames.problem(name))]
    return found + membernames.clashes(names)


def _bombs(members: list[Member]) -> Iterator[str]:
    for member in members:
        if member.method == DEFLATED and member.size > max(ANY_RATIO, MOST_RATIO * member.packed):
            yield f"{shown(member.name)} grows from {member.packed} to {member.size} bytes"
    small = [member.size for member in members if member.method == DEFLATED and member.size <= ANY_RATIO]
    if sum(small) > 100 * ANY_RATIO:
        yield f"{len(small)} small members grow to {sum(small)} bytes together"


def _artifact_problems(names: list[str]) -> Iterator[str]:
    if SUMS not in names:
        yield f"it has no {SUMS}"
    folders = sorted({name.split("/")[0] for name in names if parse_folder_name(name.split("/")[0])})
    if not folders:
        yield "it has no folder artifact_vN"
    elif len(folders) > 1:
        yield f"it has more than one artifact: {', '.join(folders)}"
    elif f"{folders[0]}/{SUMS}" not in names:
        yield f"it has no {folders[0]}/{SUMS}"


def _some(found: list[str]) -> str:
    more = f" (and {len(found) - MOST_NAMED} more)" if len(found) > MOST_NAMED else ""
    return "; ".join(found[:MOST_NAMED]) + more
