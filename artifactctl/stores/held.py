"""What a commit holds of an artifact, in whatever store it was released: compared with a folder, or fetched."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from artifactctl import folder, git, pointers
from artifactctl.errors import SourceError
from artifactctl.stores import dvc_store, lfs_store
from artifactctl.versions import folder_name

Holding = Literal["equal", "absent", "different"]


@dataclass(frozen=True, slots=True)
class Held:
    place: str  # of the folder, from the top of the repository
    files: Mapping[str, git.Blob]  # by their names in the folder; empty where DVC has them
    dvc_file: git.Blob | None


def holds(commit: str, artifact: Path) -> Holding:
    """Whether a commit holds just these bytes; what cannot be compared is different."""
    top = git.toplevel(artifact)
    found = _held(git.files_at(top, commit), artifact.resolve().relative_to(top).as_posix())
    if found is None:
        return "absent"
    if found.dvc_file is not None and not found.files:
        recorded = dvc_store.recorded_digest(git.read_blob(top, found.dvc_file))
        return "equal" if recorded == dvc_store.digest(artifact) else "different"
    names = folder.listing(artifact)
    if found.dvc_file is not None or names != sorted(found.files):
        return "different"
    paths = [artifact / name for name in names]
    if not all(path.is_file() and not path.is_symlink() for path in paths):
        return "different"
    for name, path, oid in zip(names, paths, git.blob_ids(top, paths), strict=True):
        pointer = _pointer(top, found.files[name])
        # a pointer file in the folder too is not the model, equal as it is
        same = folder.digest(path) == pointer.sha256 if pointer else found.files[name].oid == oid
        if not same:
            return "different"
    return "equal"


def fetch_tagged(home: Path, model: str, version: int, target: Path) -> Path | None:
    """As its tag holds it; None where there is no such tag. `home` is artifacts/<model>/, there or not."""
    commit = git.tagged_commit(home, model, version)
    return None if commit is None else fetch(home, commit, model, version, target)


def read_tagged(home: Path, model: str, version: int, name: str) -> bytes | None:
    """One file as its tag holds it, without asking a remote; None where that is not possible."""
    commit = git.tagged_commit(home, model, version)
    if commit is None:
        return None
    top = git.toplevel(home)
    found = _find(git.files_at(top, commit), home, top, f"{model}/{folder_name(version)}")
    blob = found.files.get(name) if found else None
    return git.read_blob(top, blob) if blob and not _pointer(top, blob) else None


def fetch(home: Path, commit: str, model: str, version: int, target: Path) -> Path | None:
    """An artifact's folder as a commit holds it, written below `target` whole or not at all."""
    top = git.toplevel(home)
    found = _find(git.files_at(top, commit), home, top, f"{model}/{folder_name(version)}")
    if found is None:
        return None
    done = target / commit[:12] / model / folder_name(version)
    if done.is_dir():
        return done
    done.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=done.parent) as scratch:
        part = Path(scratch) / done.name
        told = f"{model}/{folder_name(version)}"
        if found.dvc_file is not None and not found.files:
            dvc_store.get(top, found.place, commit, git.read_blob(top, found.dvc_file), part, told)
        for name, blob in found.files.items():
            _write(top, name, blob, part, told)
        part.rename(done)
    return done


def _write(top: Path, name: str, blob: git.Blob, part: Path, told: str) -> None:
    path = part / name
    if ".." in PurePosixPath(name).parts or "\\" in name:
        raise SourceError(f"{told} has a file named {name!r}, which is refused")
    path.parent.mkdir(parents=True, exist_ok=True)
    if pointer := _pointer(top, blob):
        lfs_store.smudge(top, pointer, git.read_blob(top, blob), path, told)
    else:
        git.write_blob(top, blob, path)


def _pointer(top: Path, blob: git.Blob) -> pointers.Pointer | None:
    return pointers.parse(git.read_blob(top, blob)) if blob.size_bytes < pointers.LONGEST else None


def _held(files: Mapping[str, git.Blob], place: str) -> Held | None:
    inside = {path.removeprefix(f"{place}/"): blob for path, blob in files.items() if path.startswith(f"{place}/")}
    dvc_file = files.get(place + folder.DVC_SUFFIX)
    return Held(place, inside, dvc_file) if inside or dvc_file else None


def _find(files: Mapping[str, git.Blob], home: Path, top: Path, name: str) -> Held | None:
    """Where it lies now, else wherever the commit has it: an artifact may have been moved since."""
    resolved = home.resolve()
    if resolved.is_relative_to(top):
        place = (resolved / PurePosixPath(name).name).relative_to(top).as_posix()
        if found := _held(files, place):
            return found
    places = set()
    for path in files:
        for mark in (f"/{name}/", f"/{name}{folder.DVC_SUFFIX}"):
            at = f"/{path}".find(mark)
            if at >= 0 and (mark.endswith("/") or f"/{path}".endswith(mark)):
                places.add(f"/{path}"[: at + 1 + len(name)].lstrip("/"))
    if len(places) > 1:
        raise SourceError(f"the commit has {name} in {len(places)} places: {', '.join(sorted(places))}")
    return _held(files, places.pop()) if places else None
