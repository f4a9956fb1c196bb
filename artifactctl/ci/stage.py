"""What the build hands to the jobs after it, in one folder: artifacts, packages, build.json and SHA256SUMS."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from artifactctl import folder
from artifactctl.errors import ArtifactDamaged, ConfigError, Conflict
from artifactctl.versions import is_model_name

BUILD = "build.json"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def fill(place: Path, entries: Sequence[Mapping[str, Any]], error: Mapping[str, str] | None) -> None:
    """`entries` name an artifact and its package relative to the working directory."""
    if place.exists() and not (place / BUILD).is_file() and any(place.iterdir()):
        hint = "Name a folder of its own in the input 'output', or leave it out."
        raise ConfigError(f"{place} holds something else, which would be deleted", hint=hint)
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(parents=True)
    sums = []
    for entry in entries:
        shutil.copytree(entry["path"], place / relative(entry))
        package = Path(entry["package"])
        (place / "dist").mkdir(exist_ok=True)
        shutil.copy2(package, place / "dist" / package.name)
        sums.append(f"{entry['package_sha256']}  {package.name}\n")
    (place / folder.SUMS).write_text("".join(sums), encoding="utf-8", newline="\n")
    text = json.dumps({"artifacts": list(entries), "error": error}, indent=1, ensure_ascii=False)
    (place / BUILD).write_text(text + "\n", encoding="utf-8", newline="\n")


def default() -> Path:
    return Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir()) / "artifactctl-build"


def relative(entry: Mapping[str, Any]) -> str:
    return f"artifacts/{entry['model']}/artifact_v{entry['version']}"


def read(place: Path) -> dict[str, Any] | None:
    """None where the build handed nothing over."""
    try:
        data = json.loads((place / BUILD).read_text(encoding="utf-8"))
        sound = all(_sound(entry) for entry in data["artifacts"]) and (data["error"] is None or _told(data["error"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise ArtifactDamaged(f"{BUILD} of the build cannot be read", hint="Run the whole workflow again.")
    found: dict[str, Any] = data
    return found


def _sound(entry: Mapping[str, Any]) -> bool:
    """Model and version become a path."""
    number, digest = entry["version"], entry["digest"]
    return type(number) is int and number > 0 and is_model_name(entry["model"]) and bool(_DIGEST.match(digest))


def _told(error: Mapping[str, Any]) -> bool:
    """A code of 0 would make a failed build a good one."""
    texts = all(isinstance(error[key], str) for key in ("name", "message", "hint", "line"))
    return texts and isinstance(error["exit_code"], int) and error["exit_code"] != 0


def unfold(place: Path, entry: Mapping[str, Any], target: Path) -> Path:
    """The artifact that was built, where a release looks for it; one that is there already must be the same."""
    source, artifact = place / relative(entry), target / relative(entry)
    if artifact.exists():
        here = _digest(artifact)
        if here != entry["digest"]:
            message = f"{relative(entry)} is here with digest {here}, and the build made {entry['digest']}"
            raise Conflict(message, hint="A version is never changed: build on the newest commit of the branch.")
        return artifact
    if _digest(source) != entry["digest"]:  # the evidence was judged by this one
        message = f"{relative(entry)} was handed over with digest {_digest(source)}, and built was {entry['digest']}"
        raise ArtifactDamaged(message, hint="Run the whole workflow again.")
    part = artifact.with_name(f".{artifact.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(source, part)
    part.rename(artifact)
    return artifact


def _digest(artifact: Path) -> str:
    sums = artifact / folder.SUMS
    return folder.digest(sums) if sums.is_file() else "none"
