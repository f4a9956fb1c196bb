"""What the build hands to the jobs after it, in one folder: artifacts, packages, build.json and SHA256SUMS."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from artifactctl import folder
from artifactctl.errors import ArtifactDamaged, Conflict

BUILD = "build.json"


def fill(place: Path, entries: Sequence[Mapping[str, Any]], error: Mapping[str, str] | None) -> None:
    """`entries` name an artifact and its package relative to the working directory."""
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
        sound = all(
            isinstance(entry["version"], int) and entry["model"] and entry["digest"] for entry in data["artifacts"]
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise ArtifactDamaged(f"{BUILD} of the build cannot be read", hint="Run the whole workflow again.")
    found: dict[str, Any] = data
    return found


def unfold(place: Path, entry: Mapping[str, Any], target: Path) -> Path:
    """The artifact that was built, where a release looks for it; one that is there already must be the same."""
    source, artifact = place / relative(entry), target / relative(entry)
    if artifact.exists():
        here = folder.digest(artifact / folder.SUMS)
        if here != entry["digest"]:
            message = f"{relative(entry)} is here with digest {here}, and the build made {entry['digest']}"
            raise Conflict(message, hint="A version is never changed: build on the newest commit of the branch.")
        return artifact
    part = artifact.with_name(f".{artifact.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(source, part)
    part.rename(artifact)
    return artifact
