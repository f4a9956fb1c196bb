"""Artifacts and files -> what is run: the model, its inputs, its session, and the versions before an artifact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from artifactctl import archive, folder, git, inspection, metadata, stores
from artifactctl.crew import Crew
from artifactctl.errors import ArtifactDamaged, NotAvailable, SourceError
from artifactctl.folder import shown
from artifactctl.records import Session
from artifactctl.steps.export import explain_inputs, session_for
from artifactctl.versions import folder_name, parse_reference

OWN_SETTINGS = ("graph_level", "memory_pattern", "arena", "flush_denormals")  # threads are the machine's


@dataclass(frozen=True, slots=True)
class Side:
    label: str
    model: Path
    metadata: Mapping[str, Any] | None = None
    known_as: str | None = None  # a model whose file has another name

    @property
    def size_bytes(self) -> int:
        data = self.model.with_name(self.model.name + ".data")
        return sum(file.stat().st_size for file in (self.model, data) if file.is_file())

    @property
    def name(self) -> str:
        return str(self.metadata["model_name"]) if self.metadata else self.known_as or self.model.stem

    @property
    def version(self) -> int | None:
        return int(self.metadata["version"]) if self.metadata else None

    @property
    def sha256(self) -> str:
        """Of all files of an artifact, or of the file."""
        sums = self.model.with_name(folder.SUMS)
        return folder.digest(sums if self.metadata and sums.is_file() else self.model)


def side_of(path: Path, label: str | None = None) -> Side:
    if path.is_dir():
        return Side(label or shown(path), path.resolve() / folder.MODEL, inspection.whole_artifact(path))
    inspection.existing_file(path)
    if archive.is_package(path):
        raise SourceError(f"{shown(path)} is a package", hint="Unpack it, and name the artifact_vN folder in it.")
    return Side(label or shown(path), path.resolve())


def side_named(text: str, scratch: Path) -> Side:
    """A path, or MODEL@vN: from its folder under artifacts/, or from its git tag."""
    if "@" not in text or Path(text).exists():
        return side_of(Path(text))
    try:
        model, version = parse_reference(text)
    except ValueError as error:
        raise SourceError(str(error)) from None
    assert version is not None
    home = Path.cwd() / "artifacts" / model
    path = home / folder_name(version)
    if path.is_dir():
        return side_of(path)
    found = stores.fetch_tagged(home if home.is_dir() else Path.cwd(), model, version, scratch / "tagged")
    if found is None:
        hint = f"'artifactctl show {model}' lists what was released; tags of a remote come with 'git fetch --tags'."
        raise SourceError(f"{text} is neither in {shown(home)} nor a tag of this repository", hint=hint)
    return side_of(found, f"{model}@v{version}")


def session_of(side: Side, provider: str | None, crew: Crew) -> Session:
    """As the artifact was proved, or ONNX Runtime's defaults for a file; always with this machine's cores."""
    recorded = side.metadata["session"]["provider"] if side.metadata else "cpu"
    return own_session(side, session_for(provider or recorded, crew))


def own_session(side: Side, session: Session) -> Session:
    """The same provider and threads, with the settings and the options that the artifact was proved with."""
    session = calm(session)
    if side.metadata is None:
        return session
    recorded, options = side.metadata["session"], metadata.options_on(side.metadata, session.provider)
    own = recorded if recorded["execution_provider"] == session.execution_provider else {}
    kept = {key: own[key] for key in OWN_SETTINGS if key in own}
    return replace(session, options=options, **kept)


def calm(session: Session) -> Session:
    """For the gate, where both sides run alike: on a busy machine threads that spin wait for one another, and what they
    wait for is the noise."""
    return replace(session, allow_spinning=False)


def inputs_of(side: Side, scratch: Path, crew: Crew) -> tuple[Path, bool]:
    """One sample, alone in a file, and whether its rows are a batch: of golden.npz, or what would be made up."""
    target = scratch / "inputs" / "00000.npz"
    if side.metadata is not None:
        golden = str(side.model.with_name(folder.GOLDEN))
        crew.ask("runner", "first_sample", golden=golden, target=str(target))
        return target, bool(side.metadata["reference"]["samples"]["batched"])
    plan = explain_inputs(side.model, scratch, crew)
    plan["sets"] = plan["sets"][:1]
    crew.ask("runner", "write_samples", plan=plan, folder=str(target.parent), samples=None, labels=None)
    return target, bool(plan["batched"])


def why_incomparable(one: Side, other: Side, crew: Crew, provider: str | None = None) -> tuple[str, str] | None:
    """What makes pairs of the two meaningless, and what to do about it; `provider`: of another one's artifact too."""
    if provider and other.metadata and other.metadata["session"]["provider"] != provider:
        hint = f"Run both on one provider: --provider {provider}"
        return f"{other.label} is for {other.metadata['session']['provider']}, not for {provider}", hint
    found = [crew.ask("runner", "inspect", path=str(side.model))["inputs"] for side in (one, other)]
    asked = [sorted((value["name"], value["dtype"]) for value in values) for values in found]
    if asked[0] == asked[1]:
        return None
    taken = [", ".join(f"{name} ({dtype})" for name, dtype in values) or "nothing" for values in asked]
    hint = "Compare models with the same inputs: --against ARTIFACT|FILE"
    return f"{one.label} takes {taken[0]}; {other.label} takes {taken[1]}", hint


def demand_comparable(one: Side, other: Side, crew: Crew, provider: str | None = None) -> None:
    if found := why_incomparable(one, other, crew, provider):
        raise NotAvailable(f"not comparable: {found[0]}", hint=found[1])


def _numbers(home: Path, model: str, before: int) -> set[int]:
    return {number for number in (*folder.versions(home), *git.tagged_versions(home, model)) if number < before}


def recorded(home: Path, model: str, before: int, scratch: Path) -> Iterator[Mapping[str, Any]]:
    """The metadata of the versions before one, oldest first; what is damaged, or only on a remote, is left out."""
    for number in sorted(_numbers(home, model, before)):
        path = home / folder_name(number)
        try:
            if path.is_dir() and not folder.elsewhere(path):
                yield inspection.whole_artifact(path)
            elif content := stores.read_tagged(home, model, number, folder.METADATA):
                place = scratch / "recorded" / folder_name(number)
                place.mkdir(parents=True, exist_ok=True)
                (place / folder.METADATA).write_bytes(content)
                yield metadata.read(place)
        except ArtifactDamaged:
            continue


def earlier(home: Path, model: str, before: int, scratch: Path, *, oldest_first: bool) -> Iterator[tuple[Path, str]]:
    """The versions before one, each from its folder or from its git tag, and what to call it."""
    for number in sorted(_numbers(home, model, before), reverse=not oldest_first):
        path = home / folder_name(number)
        here = path.is_dir()
        if here and not folder.elsewhere(path):
            yield path, shown(path)
        elif found := stores.fetch_tagged(home, model, number, scratch / "tagged"):
            yield found, f"{model}/{folder_name(number)} (tag)"
        elif here:
            yield path, shown(path)


def default_baseline(side: Side, scratch: Path) -> Side:
    """The version before, from its folder or its git tag; else the source, where it lies unchanged."""
    hint = "Name one: --against ARTIFACT|FILE"
    if side.metadata is None:
        raise SourceError(f"{side.label} has no version before it to compare with", hint=hint)
    home = side.model.parent.parent
    for path, label in earlier(home, side.name, side.metadata["version"], scratch, oldest_first=False):
        return side_of(path, label)
    if source := find_source(side.model.parent, side.metadata):
        return Side(shown(source), source)
    raise SourceError(f"{side.label} has no version before it, and its source is not here", hint=hint)


def find_source(path: Path, metadata: Mapping[str, Any]) -> Path | None:
    """The ONNX file that an artifact was built from, where it still lies unchanged."""
    source = metadata["source"]
    if source["kind"] != "onnx" or not source["files"]:
        return None
    entry = source["files"][0]
    name = str(entry["path"])
    for place in (Path.cwd(), *path.parents[1:3]):
        for file in (place / name, *sorted(place.glob(f"*/{name}")), *sorted(place.glob(f"*/*/{name}"))):
            if file.is_file() and folder.digest(file) == entry["sha256"]:
                return file
    return None
