"""Artifacts and files -> what is run: the model, its inputs, its session, and the default baseline of an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactctl import folder, git, inspection
from artifactctl.crew import Crew
from artifactctl.errors import NotAvailable, SourceError
from artifactctl.folder import shown
from artifactctl.providers import PROVIDERS
from artifactctl.records import Session
from artifactctl.steps.export import explain_inputs, session_for
from artifactctl.versions import folder_name


@dataclass(frozen=True, slots=True)
class Side:
    label: str
    model: Path
    metadata: Mapping[str, Any] | None = None

    @property
    def size_bytes(self) -> int:
        data = self.model.with_name(self.model.name + ".data")
        return sum(file.stat().st_size for file in (self.model, data) if file.is_file())

    @property
    def name(self) -> str:
        return str(self.metadata["model_name"]) if self.metadata else self.model.stem


def side_of(path: Path) -> Side:
    if path.is_dir():
        return Side(shown(path), path.resolve() / folder.MODEL, inspection.whole_artifact(path))
    inspection.existing_file(path)
    return Side(shown(path), path.resolve())


def session_of(side: Side, provider: str | None, crew: Crew) -> Session:
    """As the artifact was proved, or ONNX Runtime's defaults for a file; always with this machine's cores."""
    if side.metadata is None:
        return session_for(provider or "cpu", crew)
    recorded = dict(side.metadata["session"])
    wanted = provider or recorded["provider"]
    here = session_for(wanted, crew)
    if wanted != recorded["provider"]:
        return here
    return Session(
        wanted, PROVIDERS[wanted].execution_provider, here.intra_op_threads, graph_level=recorded["graph_level"],
        options=recorded["options"],
    )  # fmt: skip


def inputs_of(side: Side, scratch: Path, crew: Crew) -> Path:
    """One sample, alone in a file: of golden.npz, or the first that would be made up for the file."""
    target = scratch / "inputs" / "00000.npz"
    if side.metadata is not None:
        golden = str(side.model.with_name(folder.GOLDEN))
        crew.ask("runner", "first_sample", golden=golden, target=str(target))
        return target
    plan = explain_inputs(side.model, scratch, crew)
    plan["sets"] = plan["sets"][:1]
    crew.ask("runner", "write_samples", plan=plan, folder=str(target.parent), samples=None, labels=None)
    return target


def demand_same_inputs(one: Side, other: Side, crew: Crew) -> None:
    found = [crew.ask("runner", "inspect", path=str(side.model))["inputs"] for side in (one, other)]
    asked = [sorted((value["name"], value["dtype"]) for value in values) for values in found]
    if asked[0] != asked[1]:
        taken = [", ".join(f"{name} ({dtype})" for name, dtype in values) or "nothing" for values in asked]
        message = f"not comparable: {one.label} takes {taken[0]}; {other.label} takes {taken[1]}"
        raise NotAvailable(message, hint="Compare models with the same inputs: --against ARTIFACT|FILE")


def default_baseline(side: Side, scratch: Path) -> Side:
    """The version before, from its folder or its git tag; else the source, where it lies unchanged."""
    hint = "Name one: --against ARTIFACT|FILE"
    if side.metadata is None:
        raise SourceError(f"{side.label} has no version before it to compare with", hint=hint)
    home = side.model.parent.parent
    older = [version for version in folder.versions(home) if version < side.metadata["version"]]
    if older:
        return side_of(home / folder_name(older[-1]))
    before = side.metadata["version"] - 1
    if before >= 1 and (found := git.fetch_tagged(home, side.name, before, scratch / "tagged")):
        return side_of(found)
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
