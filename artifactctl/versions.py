"""The grammar of version folders and model names: format and parse, nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FOLDER = re.compile(r"artifact_v([1-9][0-9]*)\Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\Z")
_WINDOWS_RESERVED = {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in "123456789¹²³"}
_WINDOWS_RESERVED |= {"conin$", "conout$", "clock$"}


def folder_name(version: int) -> str:
    return f"artifact_v{version}"


def parse_folder_name(name: str) -> int | None:
    match = _FOLDER.match(name)
    return int(match.group(1)) if match else None


def tag_name(model: str, version: int) -> str:
    return f"{model}/{folder_name(version)}"


def package_name(model: str, version: int) -> str:
    """Of the zip, without its suffix, and of what lies beside it in dist/."""
    return f"{model}-{folder_name(version)}"


def parse_reference(text: str) -> tuple[str, int | None]:
    """MODEL, MODEL@vN or MODEL@N; the version is None where none is named. Raises ValueError."""
    model, at, version = text.partition("@")
    if not at:
        return model, None
    number = version.removeprefix("artifact_").removeprefix("v")
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(f"{text!r} names no version; write {model}@v1")
    return model, int(number)


def next_version(names: Iterable[str]) -> int:
    """One more than the largest: a deleted version's number is not given to another model."""
    return max((version for name in names if (version := parse_folder_name(name))), default=0) + 1


def is_reserved_on_windows(name: str) -> bool:
    """A device there, whatever its ending: `NUL.txt` cannot be made."""
    return name.split(".", 1)[0].rstrip(" ").lower() in _WINDOWS_RESERVED


def is_model_name(name: str) -> bool:
    """A model's name is a folder, a git tag's first part and a Windows file name."""
    return (
        bool(_NAME.match(name))
        and not is_reserved_on_windows(name)
        and ".." not in name
        and not name.endswith((".", ".lock"))
        and len(name) <= 100
    )


def model_name_from(stem: str) -> str:
    """The nearest valid name for a file's stem (`my model(1)` -> `my_model_1_`)."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", stem).lstrip(".-").replace("..", "_")[:100]
    name = re.sub(r"(\.lock|\.)+\Z", "", name)
    if not name:
        return "model"
    return name if is_model_name(name) else f"model_{name[:90]}"
