"""An artifact -> the same version again, beside it, and where the two differ: bytes, graph, outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl import __version__, folder, likeness, origin, pipeline
from artifactctl.crew import Crew
from artifactctl.errors import SourceError
from artifactctl.folder import ArtifactFolder
from artifactctl.project import BuildRequest, Project, Say
from artifactctl.records import EquivalenceReport
from artifactctl.steps.reverify import Request, verify_artifact

IDENTICAL, EQUIVALENT, DIFFERENT = "identical", "equivalent", "different"
UNEXPLAINED = "the packages and the machine are the recorded ones, so nothing explains it"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a rebuild found; `reasons` say why it is not identical, the worst first."""

    verdict: str
    recipe: str
    files: list[dict[str, str]]
    metadata: list[dict[str, Any]]
    environment: list[dict[str, Any]]
    graph: dict[str, Any] | None  # None where the bytes are equal
    outputs: dict[str, EquivalenceReport]  # by what was compared with what
    reasons: list[str]


def rebuild(path: Path, recorded: Mapping[str, Any], project: Project | None, crew: Crew, say: Say) -> Comparison:
    """Builds in a folder that ends with the crew; the artifact is only read. It is whole, which the caller has seen."""
    config, root = origin.origin_of(path, recorded, project)
    request = BuildRequest(config, root, crew.scratch / "rebuilt", force=True)
    say(f"its inputs are here; what was chosen then is built again: {recorded['recipe']['name']}")
    made = pipeline.rebuild(request, recorded, crew, say)
    environment = likeness.environment_differences(recorded["environment"])
    if isinstance(made, str):
        return Comparison(DIFFERENT, recorded["recipe"]["name"], [], [], environment, None, {}, [made])
    say("comparing")
    meta = likeness.as_recorded(made.metadata, recorded)
    changed = likeness.metadata_differences(recorded, meta)
    files = likeness.file_statuses(path, made.path, meta, bool(changed))
    status = {entry["path"]: entry["status"] for entry in files}
    same_model = all(value == likeness.EQUAL for name, value in status.items() if name.startswith(folder.MODEL))
    outputs = _outputs(path, made, same_model, crew)
    wrong = _contradictions(status, changed, outputs, recorded)
    other = [f"{name} {value}" for name, value in status.items() if value not in (likeness.EQUAL, likeness.MEASURED)]
    by_clock = config.equivalence.search_s > 0  # what a search finds depends on how far it comes
    riddle = [UNEXPLAINED] if other and not environment and not by_clock else []
    verdict = DIFFERENT if wrong or riddle else EQUIVALENT if other else IDENTICAL
    graph = None if same_model else _graph(path, made.path, crew)
    reasons = [*wrong, *other, *riddle]
    return Comparison(verdict, recorded["recipe"]["name"], files, changed, environment, graph, outputs, reasons)


def _contradictions(
    status: Mapping[str, str],
    changed: list[dict[str, Any]],
    outputs: Mapping[str, EquivalenceReport],
    recorded: Mapping[str, Any],
) -> list[str]:
    """What no other machine and no other package can explain."""
    found = [f"{what}: {report.reason}" for what, report in outputs.items() if not report.passed]
    found += [f"{name} is not made by a build" for name, value in status.items() if value == likeness.ADDED]
    claims = [entry["key"] for entry in changed if _belongs(entry["key"], likeness.CLAIMS)]
    found += [f"metadata.yaml claims another {key}" for key in claims]
    if status.get(folder.VALIDATE) == likeness.DIFFERS and recorded["environment"]["artifactctl"] == __version__:
        found.append(f"{folder.VALIDATE} is not the one that artifactctl {__version__} writes")
    return found


def _belongs(key: str, places: tuple[str, ...]) -> bool:
    return any(key == place or key.startswith((f"{place}.", f"{place}[")) for place in places)


def _outputs(path: Path, made: ArtifactFolder, same_model: bool, crew: Crew) -> dict[str, EquivalenceReport]:
    """Judged by the bounds of the configuration, not by those that the artifact claims."""
    asked = {"the rebuilt model against the recorded answers": (made.path, Request(golden=path / folder.GOLDEN))}
    if not same_model:
        request = Request(reference=made.path / folder.MODEL, golden=made.path / folder.GOLDEN)
        asked["the recorded model against the rebuilt one"] = (path, request)
    found = {}
    for what, (place, request) in asked.items():
        try:
            found[what] = verify_artifact(place, made.metadata, request, crew)
        except SourceError as error:  # what cannot be compared is different
            found[what] = EquivalenceReport(made.metadata["session"]["provider"], 0, (), failure=str(error))
    return found


def _graph(path: Path, other: Path, crew: Crew) -> dict[str, Any]:
    recorded, rebuilt = (str((place / folder.MODEL).resolve()) for place in (path, other))
    try:
        found: dict[str, Any] = crew.ask("runner", "graph_differences", recorded=recorded, rebuilt=rebuilt)
    except SourceError as error:
        return {"same": False, "operators": [], "weights": None, "failure": str(error)}
    return found
