"""The proof again, from an artifact's folder or from a kept sample; no code from either is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from artifactctl import cells, folder, jsontext, runtimes, schema
from artifactctl.crew import Crew
from artifactctl.errors import NotAvailable, SourceError
from artifactctl.metadata import bounds_on, options_on
from artifactctl.providers import PROVIDERS
from artifactctl.records import EquivalenceReport, Session
from artifactctl.steps.sides import find_source


@dataclass(frozen=True, slots=True)
class Request:
    provider: str | None = None
    reference: Path | None = None
    samples: int | None = None
    search_s: float | None = None
    worst: Path | None = None  # where the worst sample is kept if the model differs
    named: Path | None = None  # what the user named, where that is not the folder: the source is looked for beside it
    golden: Path | None = None  # another version's answers


def verify_artifact(path: Path, metadata: Mapping[str, Any], request: Request, crew: Crew) -> EquivalenceReport:
    """Against golden.npz; with a reference also on fresh inputs, and on what a search finds."""
    path = path.resolve()  # the child works in a folder of its own
    provider = request.provider or recorded_provider(metadata, crew)
    runtimes.demand_sound(provider)
    common = {
        "path": str(path / folder.MODEL),
        "settings": _settings(metadata["session"], provider, options_on(metadata, provider)),
        "bounds": bounds_on(metadata, provider),
        "plan": metadata["reference"]["samples"],
    }
    source = request.reference
    if request.search_s and source is None:
        source = find_source((request.named or path).resolve(), metadata)
        if source is None:
            hint = "Name the source as an ONNX file: --reference FILE"
            raise SourceError("--search needs the source, and it was not found unchanged here", hint=hint)
    kept = request.samples if request.reference is None else None
    worst = str(request.worst) if request.worst else None
    golden = str((request.golden or path / folder.GOLDEN).resolve())
    found = _ask(crew, "verify_golden", golden=golden, count=kept, worst=worst, **common)
    if request.reference is not None:
        count = request.samples or len(common["plan"]["sets"])
        fresh = _ask(crew, "verify_fresh", reference=str(request.reference.resolve()), count=count, **common)
        outputs, samples = found["outputs"] + fresh["outputs"], found["samples"] + fresh["samples"]
        found = found | {"samples": samples, "outputs": outputs}
    if request.search_s and source is not None:
        found = found | _searched(found, source, request, common, crew)
    return EquivalenceReport.from_dict(found)


def recorded_provider(metadata: Mapping[str, Any], crew: Crew) -> str:
    """What the artifact was chosen for; where this machine lacks it, what the same file was proved on too."""
    session = metadata["session"]
    other = session.get("fallback")
    if other and session["execution_provider"] not in crew.ask("runner", "describe_runtime")["providers"]:
        return str(other["provider"])
    return str(session["provider"])


def save_cell(path: Path, metadata: Mapping[str, Any], report: EquivalenceReport, crew: Crew) -> Path:
    """The verdict on this provider, good or bad, beside the artifact."""
    found = {
        "verdict": "equivalent" if report.passed else "different",
        "provider": report.provider,
        "samples": report.samples,
        "emulated": PROVIDERS[report.provider].emulated,
        "placement": report.placement,
        "bounds": bounds_on(metadata, report.provider),
        "outputs": [asdict(output) for output in report.outputs],
    }
    target = cells.path_of(path, report.provider)
    machine = crew.ask("runner", "describe_machine")["machine"]
    jsontext.write(target, cells.content(path, metadata, found, machine))
    return target


def _searched(
    found: dict[str, Any], source: Path, request: Request, common: dict[str, Any], crew: Crew
) -> dict[str, Any]:
    seconds = crew.limits.within(request.search_s or 0.0)
    target = crew.scratch / "searched.npz"
    asked = {"reference": str(source.resolve()), "seconds": seconds, "target": str(target)}
    result = _ask(crew, "search_worst", **asked, **common)
    if not result["outputs"]:
        raise SourceError("the source refuses every input of the search", hint="Name the file it was built from.")
    outputs = [output | {"name": f"{output['name']} (search)"} for output in result["outputs"]]
    failed = not all(output["passed"] for output in outputs)
    if failed and request.worst and target.exists():
        about = {"bounds": common["bounds"], "session": common["settings"], "states": [], "batched": False}
        crew.ask("runner", "keep_worst", folder=str(target.parent), number=target.stem, target=str(request.worst),
                 about=about)  # fmt: skip
    summary = {key: result[key] for key in ("evaluations", "start", "found")}
    return {"outputs": found["outputs"] + outputs, "samples": found["samples"] + 1, "search": summary}


def replay(
    model: Path, sample: Path, metadata: Mapping[str, Any] | None, request: Request, crew: Crew
) -> EquivalenceReport:
    """A kept sample once more: on an artifact's model with its own settings, or on a model file with the sample's."""
    about = crew.ask("runner", "read_about", path=str(sample.resolve()))
    _demand_sound(about, sample)
    session = metadata["session"] if metadata else about["session"]
    provider = request.provider or session["provider"]
    runtimes.demand_sound(provider)
    bounds = bounds_on(metadata, provider) if metadata else about["bounds"]
    options = options_on(metadata, provider) if metadata else _options(session, provider)
    found = _ask(
        crew, "verify_golden", path=str(model.resolve()), golden=str(sample.resolve()), bounds=bounds,
        settings=_settings(session, provider, options), plan=about,
    )  # fmt: skip
    return EquivalenceReport.from_dict(found)


def _demand_sound(about: Mapping[str, Any], sample: Path) -> None:
    """A kept sample that was written by hand must not give another provider's name to what the CPU ran."""
    try:
        session = Session.recorded(about["session"])
        fits = PROVIDERS[session.provider].execution_provider == session.execution_provider
        fits = fits and not schema.session_problems(about["session"])
        fits = fits and isinstance(about["bounds"]["default"], dict) and isinstance(about["bounds"]["outputs"], dict)
    except (TypeError, KeyError, AttributeError):
        fits = False
    if not fits:
        raise SourceError(f"{sample.name} is damaged", hint="Run what made it again: build, or verify.")


def _options(session: Mapping[str, Any], provider: str) -> dict[str, str]:
    return dict(session["options"] if provider == session["provider"] else PROVIDERS[provider].options)


def _settings(session: Mapping[str, Any], provider: str, options: Mapping[str, str]) -> dict[str, Any]:
    if provider == session["provider"]:
        return dict(session)
    other: dict[str, Any] = {
        "provider": provider,
        "execution_provider": PROVIDERS[provider].execution_provider,
        "options": dict(options),
        "placement": None,
    }
    if (proved := session.get("fallback")) and proved["provider"] == provider:
        other["graph_level"] = proved["graph_level"]
    return {**session, **other}


def _ask(crew: Crew, operation: str, **arguments: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = crew.ask("runner", operation, **arguments)
    except NotAvailable as error:
        provider = arguments["settings"]["provider"]
        if "is not available here" in str(error):
            runtimes.demand_available(provider, crew.ask("runner", "describe_runtime")["providers"])
        raise NotAvailable(str(error), hint=error.hint) from None
    return found


def place_for_worst(path: Path, model: str) -> Path:
    """In the work directory of the artifacts that the folder belongs to, else of the working directory."""
    home = path.resolve().parents[1]
    artifacts = home if (home / folder.WORK).is_dir() else Path.cwd() / "artifacts"
    return folder.kept_place(artifacts, model) / "verify" / "evidence" / "worst.npz"
