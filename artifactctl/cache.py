"""The user's cache: what a recipe made of a source, found again by everything that it was made from.

Nothing in it is believed: every file is hashed again when it is taken out. Nothing depends on it: whatever is wrong
with the directory costs time, never a build. No measurement and no proof is ever in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artifactctl.alive import part_folder
from artifactctl.copies import take
from artifactctl.folder import digest, listing, write_whole
from artifactctl.project import Say

VARIABLE = "ARTIFACTCTL_CACHE"
ENTRIES, PLANS = "recipes", "plans"
TAG, MANIFEST = "CACHEDIR.TAG", "manifest.json"
TAG_TEXT = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file marks a cache directory, which backups may leave out: https://bford.info/cachedir/\n"
    "# artifactctl made it; 'artifactctl cache clear' empties it.\n"
)
ROOM_BYTES = 256 << 20  # what must stay free on the disk: a build needs room more than the cache does


class _Damaged(Exception):
    pass


def place() -> Path | None:
    """Where the cache is: ARTIFACTCTL_CACHE, or the system's place for caches. None: this user has no such place."""
    if given := os.environ.get(VARIABLE):
        return Path(given).absolute()
    from platformdirs import user_cache_path

    found = user_cache_path("artifactctl", appauthor=False)
    return found if found.is_absolute() else None


def trouble(home: Path) -> str | None:
    """Why it may not be used: others could put there what they like. None where it is not there yet, too."""
    try:
        found = home.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        return "it belongs to another user"
    return "everyone may write into it" if os.name != "nt" and found.st_mode & stat.S_IWOTH else None


def key_of(inputs: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(inputs).encode()).hexdigest()


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


@dataclass(slots=True)
class Cache:
    home: Path
    say: Say
    _silent: bool = field(default=False)  # what is wrong with the directory is said once

    def fetch(self, inputs: Mapping[str, Any], target: Path) -> dict[str, Any] | None:
        """What was stored about just these inputs, its files in `target`, which is new; None: nothing sound."""
        key = key_of(inputs)
        entry = self.home / ENTRIES / key
        if not os.path.lexists(entry) or self._refused():
            return None
        try:
            about = _taken(entry, inputs, target)
            with contextlib.suppress(OSError):  # a cache that can only be read
                os.utime(entry / MANIFEST)
        except (_Damaged, OSError) as error:
            shutil.rmtree(target, ignore_errors=True)
            if not os.path.lexists(entry):
                return None  # it was cleared while it was read
            if isinstance(error, _Damaged):
                gone = "removed, and made anew" if remove(entry) else "not used; 'artifactctl cache clear' empties it"
                self.say(f"warning: an entry of the cache is damaged ({error}); it is {gone}")
            else:
                self._complain(error.strerror or str(error))
            return None
        return about

    def store(self, inputs: Mapping[str, Any], about: Mapping[str, Any], files: Mapping[str, Path]) -> bool:
        """By one rename, whole or not at all. Files may share their bytes with the cache: do not write into them."""
        entry = self.home / ENTRIES / key_of(inputs)
        if self._refused():
            return False
        try:
            self._make_home()
            if shutil.disk_usage(self.home).free < ROOM_BYTES + sum(path.stat().st_size for path in files.values()):
                return self._complain("the disk is almost full")
            with part_folder(entry) as part:
                made = part / "entry"
                made.mkdir()
                _write(made, inputs, about, files)
                made.rename(entry)
        except FileNotFoundError:  # it was cleared meanwhile
            return False
        except OSError as error:
            # another build was faster: what it made of the same inputs is the same
            return entry.is_dir() or self._complain(error.strerror or str(error))
        return True

    def is_warm(self, question: Mapping[str, Any]) -> bool:
        """Whether a build that asked the same found, or left, everything here. It is only a guess."""
        try:
            keys = json.loads((self.home / PLANS / f"{key_of(question)}.json").read_text(encoding="utf-8"))
            return isinstance(keys, list) and all((self.home / ENTRIES / str(key)).is_dir() for key in keys)
        except (OSError, ValueError):
            return False

    def remember(self, question: Mapping[str, Any], keys: Sequence[str]) -> None:
        if not self._refused():
            with contextlib.suppress(OSError):
                self._make_home()
                write_whole(self.home / PLANS / f"{key_of(question)}.json", json.dumps(sorted(keys)) + "\n")

    def _refused(self) -> bool:
        why = trouble(self.home)
        return why is not None and not self._complain(why)

    def _complain(self, why: str) -> bool:
        if not self._silent:
            instead = "another place: ARTIFACTCTL_CACHE=DIR; none, and no warning: build --no-cache"
            self.say(f"warning: the cache is not used: {self.home}: {why} ({instead})")
            self._silent = True
        return False

    def _make_home(self) -> None:
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.home / ENTRIES).mkdir(exist_ok=True)
        if not (self.home / TAG).exists():
            with contextlib.suppress(FileNotFoundError):  # another build was faster
                write_whole(self.home / TAG, TAG_TEXT)


def remove(entry: Path) -> bool:
    """Out of sight by one rename, then away: half an entry is never seen."""
    try:
        with part_folder(entry) as part:
            entry.rename(part / "entry")
    except OSError:
        return False
    return True


def _write(made: Path, inputs: Mapping[str, Any], about: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    listed = {}
    for name, path in files.items():
        target = made / name
        target.parent.mkdir(parents=True, exist_ok=True)
        take(path, target)
        if os.name != "nt":  # where a read-only file cannot be deleted
            target.chmod(0o444)
        listed[name] = digest(target)
    content = {"inputs": inputs, "about": about, "files": listed}
    (made / MANIFEST).write_text(_text(content | {"sha256": key_of(content)}) + "\n", encoding="utf-8")


def _taken(entry: Path, inputs: Mapping[str, Any], target: Path) -> dict[str, Any]:
    """Hashed where it was taken to, so that what was hashed is what is used."""
    files, about = _manifest(entry, inputs)
    if {MANIFEST, *files} != set(listing(entry)):
        raise _Damaged("a file is missing or was added")
    target.mkdir(parents=True)
    for name, expected in files.items():
        if (entry / name).is_symlink() or not (entry / name).is_file():
            raise _Damaged(f"{name} is not a plain file")
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        take(entry / name, target / name)
        if digest(target / name) != expected:
            raise _Damaged(f"{name} was changed")
    return about


def _manifest(entry: Path, inputs: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    try:
        found = json.loads((entry / MANIFEST).read_text(encoding="utf-8"))
        own = found.pop("sha256")
    except (ValueError, AttributeError, KeyError, TypeError, FileNotFoundError, NotADirectoryError):
        raise _Damaged(f"{MANIFEST} is missing or cannot be read") from None
    if own != key_of(found) or found["inputs"] != json.loads(_text(inputs)):
        raise _Damaged(f"{MANIFEST} was changed")
    return found["files"], found["about"]
