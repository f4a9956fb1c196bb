"""Choice -> ArtifactFolder: every file written and listed in a staging folder, then one rename."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from artifactctl import bom, card, environment, folder, jsontext, metadata
from artifactctl.crew import Crew
from artifactctl.errors import NotEquivalent
from artifactctl.folder import ArtifactFolder
from artifactctl.inputs import config_digest, data_files, recorded_name
from artifactctl.project import ModelConfig
from artifactctl.records import (
    SOURCE_RECIPE,
    Candidate,
    Choice,
    EquivalenceReport,
    LatencyReport,
    ReferenceModel,
    Tried,
)
from artifactctl.report.curve import plot
from artifactctl.steps.places import fall_back
from artifactctl.steps.portable import look_at_proved
from artifactctl.steps.standing import OLDEST, PREVIOUS, anonymous
from artifactctl.steps.verify import bounds_of, prove, statement_of

FALLBACK_KEYS = ("provider", "execution_provider", "graph_level", "options")
SAMPLE_KEYS = ("seed", "batched", "inputs", "states", "sets", "branches", "unwatched_branches", "single_size")


def assemble(
    reference: ReferenceModel,
    choice: Choice,
    standing: Mapping[str, LatencyReport],
    home: Path,
    scratch: Path,
    crew: Crew,
) -> ArtifactFolder:
    """`reference` is the source on the build's own provider; where the chosen one was proved is its own."""
    staged = scratch / "artifact"
    (staged / "evidence").mkdir(parents=True)
    chosen, base = choice.chosen, reference
    reference = chosen.own or reference
    provider = reference.session.provider
    _save(chosen.candidate, staged / folder.MODEL, crew)
    shipped = prove(reference, replace(chosen.candidate, path=staged / folder.MODEL), crew)
    if not shipped.passed:
        raise NotEquivalent(f"the file to be shipped is not the model that was proved: {shipped.reason}")
    described = look_at_proved(staged / folder.MODEL, crew)
    described["fallback"] = _fallback(base, choice, staged / folder.MODEL, scratch, crew)
    labelled = reference.source.config.equivalence.default.max_accuracy_drop is not None
    golden = str(staged / folder.GOLDEN)
    found = [number for number, entry in reference.plan["entries"].items() if entry["origin"] == "search"]
    kept = crew.ask(
        "runner", "write_golden", folder=str(reference.samples), target=golden, all_labelled=labelled, first=found
    )
    entries = [reference.plan["entries"][number] for number in kept]
    described["golden"] = {
        "samples": sum(entry["rows"] for entry in entries),
        "own": sum(entry["rows"] for entry in entries if entry["origin"] == "data"),
    }
    about = {"schema_version": 1, "model_sha256": folder.digest(staged / folder.MODEL)}
    _write_json(staged / "evidence" / "equivalence.json", about | _equivalence_evidence(reference, choice))
    machine = crew.ask("timer", "describe_machine")["machine"]
    measured = about | {"machine": machine} | _latency_evidence(reference, choice, standing)
    _write_json(staged / "evidence" / f"latency.{provider}.json", measured)
    curve = next((tried.candidate.curve for tried in choice.tried if tried.candidate.curve), None)
    if curve:
        _write_json(staged / folder.CURVE, {**about, **curve})
        (staged / folder.PLOT).write_text(plot(curve), encoding="utf-8", newline="\n")
    version = folder.next_free(home)
    content = _metadata(reference, choice, version, described, home)
    if content["latency"]:
        content["latency"] |= {name: _recorded(standing.get(name)) for name in (PREVIOUS, OLDEST)}
        content["latency"]["defaults"] = choice.defaults.numbers() if choice.defaults else None
    (staged / folder.VALIDATE).write_text(metadata.render_validate(content), encoding="utf-8", newline="\n")
    (staged / "README.md").write_text(card.render(content), encoding="utf-8", newline="\n")
    content["files"] = [asdict(folder.file_digest(staged / name, name)) for name in folder.listing(staged)]
    (staged / folder.BOM).write_text(bom.render(content), encoding="utf-8", newline="\n")
    content["files"].append(asdict(folder.file_digest(staged / folder.BOM, folder.BOM)))
    content["files"].sort(key=lambda entry: entry["path"])
    (staged / folder.METADATA).write_text(metadata.dump(content), encoding="utf-8", newline="\n")
    folder.write_sums(staged)
    path = folder.publish(staged, home, version)
    left = {tried.candidate.recipe: tried.kept for tried in choice.tried if tried.kept}
    return ArtifactFolder(reference.source.config.name, version, path, "built", content, left)


def _metadata(
    reference: ReferenceModel, choice: Choice, version: int, model: Mapping[str, Any], home: Path
) -> dict[str, Any]:
    config, chosen = reference.source.config, choice.chosen
    equivalence, latency = chosen.equivalence, chosen.latency
    assert equivalence is not None
    made = environment.describe()
    runtime = next(
        (f"{name} {found}" for name, found in made["packages"].items() if name.startswith("onnxruntime")), ""
    )
    accuracy = equivalence.accuracy
    return {
        "model_name": config.name,
        "version": version,
        "opset": model["opset"],
        "precision": model["precision"],
        "optimization": "; ".join(chosen.candidate.changes) or "none: the source in reference form",
        "runtime": runtime,
        "latency_ms": latency.candidate.p50_ms if latency else None,
        "accuracy_drop": accuracy.drop if accuracy else None,
        "schema_version": metadata.SCHEMA_VERSION,
        "source": {
            "kind": config.source.kind,
            "target": recorded_name(config.source.target),
            "license": config.license,
            "config_sha256": config_digest(config),
            "data": data_files(config, reference.source.root),
            "files": [asdict(entry) for entry in reference.source.files],
        },
        "reference": {
            "framework": reference.framework,
            "sha256": reference.sha256,
            "opset": reference.opset,
            "precision": reference.precision,
            "exported": reference.exported.summary() if reference.exported else None,
            "noise": dict(reference.noise),
            "samples": {key: reference.plan[key] for key in SAMPLE_KEYS},
            "golden": model["golden"],
        },
        "model": {
            key: model[key]
            for key in (
                *("ir_version", "opsets", "inputs", "outputs", "parameters", "portability", "min_runtime"),
                *("saturation", "size_bytes"),
            )
        }
        | _fixed(chosen.candidate),
        "recipe": {
            "name": chosen.candidate.recipe,
            "reason": chosen.reason,
            "passes": [asdict(result) for result in chosen.candidate.passes],
            "candidates": [tried.as_json() for tried in choice.tried],
            **({"curve": folder.PLOT} if any(tried.candidate.curve for tried in choice.tried) else {}),
        },
        "session": asdict(replace(reference.session, placement=equivalence.placement)) | model["fallback"],
        "equivalence": {
            "statement": statement_of(reference.equivalence),
            "bounds": bounds_of(config.equivalence),
            **_own(config),
            "passed": equivalence.passed,
            **equivalence.summary(),
            "accuracy": asdict(accuracy) if accuracy else None,
            "outputs": [asdict(output) for output in equivalence.outputs],
        },
        "latency": latency.numbers() if latency else None,
        "environment": made,
        "files": [],
        "previous": _previous(home),
    }


def _fallback(base: ReferenceModel, choice: Choice, shipped: Path, scratch: Path, crew: Crew) -> dict[str, Any]:
    """The same file on plain CPU, proved too; null where it does not hold there. Nothing where it is plain CPU."""
    session = fall_back(base, choice)
    if session is None:
        return {}
    own = replace(choice.chosen.own or base, session=session)
    report = prove(own, replace(choice.chosen.candidate, path=shipped), crew)
    if not report.proves_something:
        return {"fallback": None}
    kept = {key: value for key, value in asdict(session).items() if key in FALLBACK_KEYS}
    at_home = choice.at_home if choice.at_home and choice.at_home.provider == session.provider else None
    other = at_home if at_home and at_home.candidate.recipe != choice.chosen.candidate.recipe else None
    best = _best_there(base, other, scratch / "fallback", crew) if other else None
    return {"fallback": kept | _proved(report) | {"best": best}}


def _best_there(base: ReferenceModel, best: Tried, place: Path, crew: Crew) -> dict[str, Any]:
    """The candidate that was best on plain CPU, as it would be shipped."""
    place.mkdir()
    _save(best.candidate, place / folder.MODEL, crew)
    report = prove(best.own or base, replace(best.candidate, path=place / folder.MODEL), crew)
    if not report.passed:
        raise NotEquivalent(f"the file of {best.candidate.recipe} is not the model that was proved: {report.reason}")
    files = [asdict(folder.file_digest(place / name, name)) for name in folder.listing(place)]
    return {"recipe": best.candidate.recipe, "files": files} | _proved(report)


def _proved(report: EquivalenceReport) -> dict[str, Any]:
    return {"max_error": report.largest("max_error"), "samples": report.samples}


def _save(candidate: Candidate, target: Path, crew: Crew) -> None:
    """As it is shipped."""
    verbatim = candidate.recipe == SOURCE_RECIPE
    crew.ask("runner", "save_normalized", source=str(candidate.path), target=str(target), verbatim=verbatim)


def _fixed(candidate: Candidate) -> dict[str, Any]:
    """The only shapes that the model takes, where its source takes others too."""
    return {"fixed": {name: list(sizes) for name, sizes in candidate.fixed.items()}} if candidate.fixed else {}


def _own(config: ModelConfig) -> dict[str, Any]:
    """What providers have of their own; nothing where none has."""
    found = {}
    for name, terms in config.own.items():
        bounds = {"bounds": bounds_of(config.equivalence_on(name))} if terms.bound else {}
        found[name] = bounds | ({"options": dict(terms.options)} if terms.options else {})
    return {"providers": found} if found else {}


def _recorded(report: LatencyReport | None) -> dict[str, Any] | None:
    """Without where the other version lay: its name is the same everywhere."""
    return None if report is None else anonymous(report).numbers()


def _previous(home: Path) -> dict[str, Any] | None:
    before = folder.latest(home)
    if before is None:
        return None
    sums = before / folder.SUMS
    return {"version": folder.versions(home)[-1], "sha256": folder.digest(sums) if sums.is_file() else None}


def _equivalence_evidence(reference: ReferenceModel, choice: Choice) -> dict[str, Any]:
    """Per candidate, provider, sample set and output: everything that was compared."""
    named = dict.fromkeys([reference.session.provider, *(tried.provider for tried in choice.tried)])
    return {
        "reference": {"framework": reference.framework, "sha256": reference.sha256},
        "bounds": bounds_of(reference.equivalence),
        "noise": dict(reference.noise),
        "domain": {"outside": reference.plan["outside"], "branches": reference.plan["branches"]},
        "sets": reference.plan["entries"],
        "exported": asdict(reference.exported) if reference.exported else None,
        "providers": {
            provider: [
                _evidence_of(tried, choice.chosen)
                for tried in choice.tried
                if (tried.provider or reference.session.provider) == provider
            ]
            for provider in named
            if provider
        },
    }


def _evidence_of(tried: Tried, chosen: Tried) -> dict[str, Any]:
    return {
        "recipe": tried.candidate.recipe,
        "status": tried.status,
        "reason": tried.reason,
        "culprit": dict(tried.culprit) if tried.culprit else None,
        "search": dict(tried.search) if tried.search else None,
        "report": _compared(tried, chosen),
    }


def _compared(tried: Tried, chosen: Tried) -> dict[str, Any] | None:
    """Samples of other sizes than the chosen model's are not among the sets that are listed."""
    if tried.equivalence is None:
        return None
    same = tried.candidate.fixed == chosen.candidate.fixed
    return asdict(tried.equivalence if same else replace(tried.equivalence, sets=(), worst=None))


def _latency_evidence(
    reference: ReferenceModel, choice: Choice, standing: Mapping[str, LatencyReport]
) -> dict[str, Any]:
    return {
        "session": asdict(reference.session),
        "environment": environment.describe(),
        "candidates": [
            {"recipe": tried.candidate.recipe, "provider": tried.provider}
            | {"latency": asdict(tried.latency) if tried.latency else None}
            for tried in choice.tried
        ],
        "tuning": [dict(entry) for entry in choice.tuning],
        "versions": {name: asdict(anonymous(report)) for name, report in standing.items()},
        "defaults": asdict(choice.defaults) if choice.defaults else None,
    }


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(jsontext.render(data), encoding="utf-8", newline="\n")
