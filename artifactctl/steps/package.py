"""ArtifactFolder -> Package: Olive's zip with the whole artifact in it, opened again and proved."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl import environment, folder, inspection, zips
from artifactctl.alive import part_folder
from artifactctl.crew import Crew
from artifactctl.errors import Conflict, NotAvailable, NotEquivalent, OptimizeError
from artifactctl.process import OperationFailed, WorkerDied
from artifactctl.project import Say
from artifactctl.providers import PROVIDERS
from artifactctl.steps.reverify import Request, verify_artifact
from artifactctl.versions import package_name

DIST = "dist"


@dataclass(frozen=True, slots=True)
class Package:
    path: Path
    sha256: str
    size_bytes: int
    status: str  # written, unchanged


def package(
    artifact: Path, output: Path, crew: Crew, say: Say, *, expected: str | None = None, given: Path | None = None
) -> Package:
    """The same artifact gives the same bytes; a package that is there already is never replaced by another one.

    SOURCE_DATE_EPOCH, where it is set, is the time of its members. One with the `expected` digest, which its tag has,
    need not be made again; nor one that is `given`, which is opened and proved as if it had just been made.
    """
    date = environment.source_date()
    time = zips.moment(date) if date else zips.EARLIEST
    if not expected and not given:
        crew.olive  # noqa: B018 - loads while the artifact is read
    metadata = inspection.whole_artifact(artifact)
    name = package_name(metadata["model_name"], metadata["version"])
    prepare(output)
    target = output / f"{name}.zip"
    if expected and target.is_file() and folder.digest(target) == expected:
        return Package(target, expected, target.stat().st_size, "unchanged")
    with part_folder(target) as place:
        part = place / target.name
        if given:
            say(f"taking {folder.shown(given)}")
            shutil.copyfile(given, part)
        else:
            say("packaging through Olive")
            _write(artifact.resolve(), metadata, part.resolve(), time, crew)
        say("opening it again")
        with ThreadPoolExecutor(1) as aside:
            taken = aside.submit(folder.digest, part)
            _prove(part, artifact, crew)
            return settle(part, target, taken.result())


def prepare(output: Path) -> None:
    """The folder that a package goes to."""
    if why := why_not_into(output):
        raise NotAvailable(why, hint="Move it away, or package elsewhere: --output DIR")
    output.mkdir(parents=True, exist_ok=True)


def why_not_into(output: Path) -> str | None:
    """Why nothing can be written to a folder, which need not be there yet; None where it can."""
    there = next(place for place in (output, *output.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        return f"{folder.shown(there)} is not a folder, so nothing can be written into it"
    return None if os.access(there, os.W_OK | os.X_OK) else f"{folder.shown(there)} cannot be written to"


def settle(part: Path, target: Path, sha256: str) -> Package:
    """What was made, a file or a folder, goes to its place; what is there already stays, and must be the same."""
    size_bytes = folder.content_size(part)
    if not target.exists():
        try:
            _place(part, target)
            return Package(target, sha256, size_bytes, "written")
        except OSError:
            if not target.exists():  # else somebody was faster
                raise
    found = folder.content_digest(target)
    if found != sha256:
        message = f"{folder.shown(target)} is another package: sha256 {found}, this artifact gives {sha256}"
        raise Conflict(message, hint="Move it away, or package elsewhere: --output DIR")
    return Package(target, sha256, size_bytes, "unchanged")


def _place(part: Path, target: Path) -> None:
    """By one step, and never over a file that another run has put there meanwhile."""
    if part.is_dir():
        part.replace(target)
        return
    try:
        target.hardlink_to(part)
    except OSError:
        if target.exists():
            raise
        part.replace(target)  # a file system without links


def _write(artifact: Path, metadata: Mapping[str, Any], target: Path, time: zips.Moment, crew: Crew) -> None:
    try:
        crew.olive_ready().call(
            "olive_package", timeout_s=crew.limits.time_s, artifact=str(artifact), target=str(target),
            place=str(crew.scratch / "packaging"), time=time, about=about(metadata),
        )  # fmt: skip
    except WorkerDied as error:
        crew.dismiss("olive")
        raise OptimizeError(f"Olive's packaging ended: {error.why}") from None
    except OperationFailed as error:
        raise OptimizeError(crew.plain(f"Olive's packaging failed: {error}")) from None


def about(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What Olive writes into its files: a function of the metadata alone."""
    session, latency = metadata["session"], metadata["latency"] or {}
    changed = [entry["name"] for entry in metadata["recipe"]["passes"] if entry["status"] == "changed"]
    history: list[dict[str, Any]] = [{"id": f"{metadata['model_name']}-0", "pass": None, "config": None}]
    for number, label in enumerate(changed or ["none: the source in reference form"], 1):
        config = {"type": label, "recipe": metadata["recipe"]["name"]}
        history.append({"id": f"{metadata['model_name']}-{number}", "pass": label, "config": config})
    metrics = {
        "latency-p50": (metadata["latency_ms"], False),
        "latency-ratio": (latency.get("ratio"), False),
        "equivalence-max_error": (metadata["equivalence"]["max_error"], False),
        "accuracy-drop": (metadata["accuracy_drop"], False),
    }
    return {
        "accelerator": PROVIDERS[session["provider"]].device,
        "execution_provider": session["execution_provider"],
        "settings": {
            "execution_provider": [session["execution_provider"]],
            "provider_options": [dict(session["options"])],
            "session_options": {
                "intra_op_num_threads": session["intra_op_threads"],
                "inter_op_num_threads": session["inter_op_threads"],
            },
        },
        "metrics": {
            name: {"value": value, "higher_is_better": better}
            for name, (value, better) in metrics.items()
            if value is not None
        },
        "history": history,
    }


def _prove(path: Path, artifact: Path, crew: Crew) -> None:
    """Taken out as a stranger would, whole, this very artifact, and proved on this machine."""
    inside, metadata = inspection.opened(path, crew.scratch)
    here, there = (folder.digest(place / folder.SUMS) for place in (artifact, inside))
    if here != there:
        message = f"the package holds an artifact with digest {there}, and this one has {here}"
        raise Conflict(message, hint="Package this artifact: artifactctl package ARTIFACT")
    demand_equivalent(inside, metadata, Request(), crew)


def demand_equivalent(place: Path, metadata: Mapping[str, Any], request: Request, crew: Crew) -> None:
    report = verify_artifact(place, metadata, request, crew)
    if not report.passed:
        raise NotEquivalent(f"the packaged model is not equivalent: {report.reason}")
