"""artifact_vN/ on disk: written whole or not at all, read with suspicion, never changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artifactctl.errors import Conflict
from artifactctl.pointers import pointer_in
from artifactctl.versions import folder_name, next_version, parse_folder_name

SUMS = "SHA256SUMS"
MODEL, GOLDEN, METADATA, VALIDATE = "model_opt.onnx", "golden.npz", "metadata.yaml", "validate.py"
BOM = "bom.cdx.json"  # not required: the first artifacts have none
REQUIRED = (MODEL, GOLDEN, METADATA, VALIDATE, "README.md", "evidence/equivalence.json")
CURVE, PLOT = "evidence/quantization.json", "evidence/quantization.svg"  # only where int8-partial was tried
MEASURED = ("evidence/latency.", CURVE, PLOT)  # how files begin that hold times, which are other ones every time
WORK = ".work"
_SUM = re.compile(r"([0-9a-f]{64})  (.+)\Z", re.DOTALL)
DVC_SUFFIX = ".dvc"  # of the file beside an artifact whose bytes DVC has
KEPT_MODEL = "model.onnx"  # of a rejected candidate, beside its evidence/worst.npz


@dataclass(frozen=True, slots=True)
class FileDigest:
    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ArtifactFolder:
    model: str
    version: int
    path: Path
    status: str  # built, unchanged
    metadata: Mapping[str, Any]
    kept: Mapping[str, Path] = field(default_factory=dict)  # by recipe, the worst sample of what was proved different


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_digest(path: Path) -> str:
    """Of a file, or of a folder: then of the list of its files as sha256sum writes it, sorted by name.

    So does ONNX Runtime for the folders of its packages. What is not a plain file is like nothing we write.
    """
    if not path.is_dir():
        return digest(path)
    files = {name: path / name for name in listing(path)}
    plain = {name: file.is_file() and not file.is_symlink() for name, file in files.items()}
    listed = sums_text({name: digest(file) if plain[name] else "not a plain file" for name, file in files.items()})
    return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()


def content_size(path: Path) -> int:
    return sum((path / name).stat().st_size for name in listing(path)) if path.is_dir() else path.stat().st_size


def file_digest(path: Path, name: str) -> FileDigest:
    return FileDigest(name, digest(path), path.stat().st_size)


def versions(home: Path) -> list[int]:
    """The versions of a model, oldest first; `home` is artifacts/<model>/."""
    try:
        names = [entry.name for entry in os.scandir(home)]
    except FileNotFoundError:
        return []
    return sorted(version for name in names if (version := parse_folder_name(name)))


def latest(home: Path) -> Path | None:
    found = versions(home)
    return home / folder_name(found[-1]) if found else None


def listing(folder: Path) -> list[str]:
    """Every file below, dot-files too, and links to folders, as POSIX names."""
    found = []
    for base, folders, files in os.walk(folder):
        names = [*files, *(name for name in folders if Path(base, name).is_symlink())]
        found += [Path(base, name).relative_to(folder).as_posix() for name in names]
    return sorted(found)


def sums_text(digests: Mapping[str, str]) -> str:
    """As sha256sum writes them, sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def parse_sums(content: bytes) -> tuple[dict[str, str], list[str]]:
    """Digests by name, and what is wrong with the list: any other byte in it than sha256sum would have written."""
    try:
        *lines, rest = content.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return {}, [f"{SUMS} is missing or unreadable"]
    listed: dict[str, str] = {}
    found = [f"{SUMS} is cut off"] if rest else []
    for line in lines:
        match = _SUM.match(line)
        if not match or match[2] in listed:
            found.append(f"{SUMS} has a damaged line: {line[:80]!r}")
        else:
            listed[match[2]] = match[1]
    return listed, found


def write_sums(folder: Path) -> None:
    digests = {name: digest(folder / name) for name in listing(folder) if name != SUMS}
    (folder / SUMS).write_text(sums_text(digests), encoding="utf-8", newline="\n")


def damage(folder: Path, known: Mapping[str, str] | None = None) -> list[str]:
    """What is wrong with an artifact's files; an empty list means whole. `known`: digests that were just taken."""
    try:
        listed, found = parse_sums((folder / SUMS).read_bytes())
    except OSError:
        return [f"{SUMS} is missing or unreadable"]
    present = set(listing(folder))
    found += [f"{name} was added" for name in sorted(present - listed.keys() - {SUMS})]
    found += [f"{name} is missing" for name in REQUIRED if name not in listed]
    for name, value in sorted(listed.items()):
        path = folder / name
        if name not in present:
            found.append(f"{name} is missing")
        elif path.is_symlink() or not path.is_file():
            found.append(f"{name} is not a plain file")
        elif (known or {}).get(name, "") != value and digest(path) != value:
            pointer = pointer_in(path)
            found.append(f"{name} is {pointer}, not its contents" if pointer else f"{name} was changed")
    return found


def part_of(path: Path) -> Path:
    """Where a file is while it is written; what a kill leaves there is written over by the next run."""
    return path.with_name(f".{path.name}.part")


def write_whole(path: Path, text: str) -> None:
    """By one rename: the old text or the new one, whatever is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part_of(path).write_text(text, encoding="utf-8", newline="\n")
    part_of(path).replace(path)


def keep_out_of_git(place: Path) -> None:
    """Everything in it; a .gitignore that says something is the user's own."""
    place.mkdir(parents=True, exist_ok=True)
    ignore = place / ".gitignore"
    if not ignore.exists() or not ignore.stat().st_size:
        with contextlib.suppress(FileNotFoundError):  # another run was faster
            write_whole(ignore, "*\n")


@contextlib.contextmanager
def workplace(artifacts: Path, model: str) -> Iterator[Path]:
    """A scratch folder of our own, under a lock per model; what killed builds left behind is removed."""
    import shutil
    import tempfile

    from filelock import FileLock

    work = artifacts / WORK
    keep_out_of_git(work)
    with FileLock(work / f"{model}.lock"):
        # no model's name has an @, so these are this model's alone
        for left in (*work.glob(f"{model}@build-*"), kept_place(artifacts, model)):
            shutil.rmtree(left, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(prefix=f"{model}@build-", dir=work))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def kept_place(artifacts: Path, model: str) -> Path:
    """Where the last build of a model left what was proved different."""
    return artifacts / WORK / f"{model}@kept"


def shown(path: Path) -> str:
    """Relative to the working directory, as the contract says."""
    try:
        return Path(os.path.relpath(path)).as_posix()
    except ValueError:  # another drive
        return path.as_posix()


def elsewhere(path: Path) -> str | None:
    """The command that brings a file or a folder here, where DVC or git-lfs has its bytes."""
    beside = path.with_name(path.name + DVC_SUFFIX)
    if not path.exists() and beside.is_file():
        return f"Fetch it: dvc pull {shown(beside)}"
    files = [path] if path.is_file() else sorted(path.glob("*"))
    return "Fetch the contents: git lfs pull" if any(pointer_in(file) for file in files) else None


def next_free(home: Path) -> int:
    """A version that DVC has, or that has a tag, is taken, also where its folder is not here."""
    from artifactctl.git import tagged_versions

    names = [entry.name.removesuffix(DVC_SUFFIX) for entry in os.scandir(home)] if home.is_dir() else []
    return next_version([*names, *map(folder_name, tagged_versions(home, home.name))])


def publish(staged: Path, home: Path, version: int) -> Path:
    """The one rename that makes an artifact appear. Everything is on disk before it."""
    target = home / folder_name(version)
    home.mkdir(parents=True, exist_ok=True)
    keep(staged)
    if target.exists():
        raise Conflict(f"{target.name} exists already and is never changed")
    staged.rename(target)
    _sync(home)
    return target


def keep(staged: Path) -> None:
    """Everything below on disk, with the modes that it has on any machine."""
    for name in listing(staged):
        (staged / name).chmod(0o644)
        _sync(staged / name)
    for base, _, _ in os.walk(staged):
        Path(base).chmod(0o755)
        _sync(Path(base))


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
