"""Which names a file of a package may have: the same one file on every system, inside its folder, seen by everyone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from artifactctl.versions import is_reserved_on_windows

LONGEST_NAME, LONGEST_PART = 200, 120  # characters; Windows ends at 260 with the folder in front
_ILLEGAL = re.compile(r'[<>:"|?*\\]')
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # control, bidirectional, zero width, not assigned, line ends


def problem(name: str) -> str | None:
    """Why a member cannot have this name; the text follows the name in a sentence."""
    if any(unicodedata.category(letter) in _UNSEEN for letter in name):
        return "has characters in its name that cannot be seen"
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        return "has an absolute name"
    if name.endswith("/"):
        return "is a folder; only files can be members"
    parts = name.split("/")
    if ".." in re.split(r"[/\\]", name):
        return "leads out of its folder"
    if "" in parts or "." in parts:
        return "has an empty part in its name"
    if len(name) > LONGEST_NAME or max(map(len, parts)) > LONGEST_PART:
        return "has a name that is too long"
    if unicodedata.normalize("NFC", name) != name:
        return "has a name that is not in Unicode's normal form"
    return next((found for part in parts if (found := _part_problem(part))), None)


def _part_problem(part: str) -> str | None:
    if part.startswith("."):
        return "is hidden: a dot begins its name"
    if part.strip(" ") != part or part.endswith("."):
        return "has a name that begins or ends with a space, or ends with a dot"
    if _ILLEGAL.search(part):
        return "has a name that Windows does not allow"
    if is_reserved_on_windows(part):
        return "has a name that Windows keeps for a device"
    return None


def clashes(names: Iterable[str]) -> list[str]:
    """Names that are one and the same somewhere: twice, by case, by Unicode, or as a file and as a folder."""
    found: list[str] = []
    files: dict[str, str] = {}
    for name in names:
        key = folded(name)
        if files.get(key) == name:
            found.append(f"{shown(name)} is there twice")
        elif key in files:
            found.append(f"{shown(files[key])} and {shown(name)} are one file on some systems")
        else:
            files[key] = name
    return found + _folder_clashes(files)


def _folder_clashes(files: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    folders: dict[str, str] = {}
    for name in files.values():
        parts = name.split("/")
        for end in range(1, len(parts)):
            folder = "/".join(parts[:end])
            if folded(folder) in files:
                found.append(f"{shown(folder)} is a file and a folder at once")
            elif (other := folders.setdefault(folded(folder), folder)) != folder:
                found.append(f"{shown(other)} and {shown(folder)} are one folder on some systems")
    return list(dict.fromkeys(found))


def folded(name: str) -> str:
    """What file systems that ignore case or Unicode forms, or only Python's eyes, would make of it."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def shown(name: str) -> str:
    """A hostile name cannot write on somebody's terminal, nor fill it."""
    text = name if name.isprintable() and name else ascii(name)
    return text if len(text) <= 120 else f"{text[:119]}…"
