"""The proof again, from stored answers; and the samples that are kept when it fails."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from artifactctl.backends import core
from artifactctl.backends.messages import first_line, known_failures
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.backends.proof import read_sample
from artifactctl.backends.rows import badness_of
from artifactctl.errors import ArtifactctlError, ArtifactDamaged, NotAvailable, SourceError

Array = np.ndarray[Any, Any]
# what reading a damaged archive of arrays may raise
DAMAGE = (
    *(OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, NotImplementedError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


def keep_worst(folder: str, number: str, target: str, about: dict[str, Any]) -> None:
    """The sample where the error is largest, with the steps that led to it, and what is needed to run it again."""
    files = [file for file in sorted(Path(folder).glob("*.npz")) if file.stem <= number]
    first = len(files) - 1
    while first > 0 and read_sample(files[first])["follows"]:
        first -= 1
    _write_worst([read_sample(file) for file in files[first:]], Path(target), about)


def _write_worst(samples: list[dict[str, Any]], target: Path, about: dict[str, Any]) -> None:
    arrays = {"00000/about/": np.array(json.dumps(about))}
    for position, sample in enumerate(samples):
        arrays |= sample_arrays(f"{position:05d}", sample)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_npz(target, arrays)


def read_about(path: str) -> dict[str, Any]:
    """How a kept sample was judged: bounds, session, states."""
    stored = _read_golden(Path(path), SourceError)
    about = stored[0].get("about") if stored else None
    if not about:
        hint = "Give a file that a failed build or verify has kept: …/evidence/worst.npz"
        raise SourceError(f"{Path(path).name} is not a kept sample", hint=hint)
    try:
        found = json.loads(about)
    except ValueError:
        found = None
    if not isinstance(found, dict) or {"bounds", "session", "states", "batched"} - found.keys():
        raise SourceError(f"{Path(path).name} is damaged", hint="Run what made it again: build, or verify.")
    return found


def _read_golden(path: Path, kind: type[ArtifactctlError]) -> list[dict[str, Any]]:
    try:
        stored: list[dict[str, Any]] = core.read_golden(path)
    except DAMAGE as error:
        raise kind(f"{path.name} cannot be read: {error}") from None
    return stored


def verify_golden(
    path: str,
    golden: str,
    settings: dict[str, Any],
    bounds: dict[str, Any],
    plan: dict[str, Any],
    count: int | None = None,
    worst: str | None = None,
) -> dict[str, Any]:
    """A model against stored answers; where it differs, the worst sample is kept in `worst`."""
    stored = _read_golden(Path(golden), ArtifactDamaged)
    session = open_model(path, settings)
    report: dict[str, Any] = known_failures(core.compare_golden, session, stored[:count], plan, bounds)
    if worst and not all(output["passed"] for output in report["outputs"]):
        states = plan.get("states", [])
        chosen = _worst_sample(session, stored[:count], states, bounds)
        about = {"bounds": bounds, "session": settings, "states": states, "batched": plan["batched"]}
        _write_worst(chosen, Path(worst), about)
    feeds = stored[0]["inputs"] if stored else {}
    placed = known_failures(core.proved_placement, session, path, settings, feeds)
    return report | {"provider": settings["provider"], "placement": core.counted(placed)}


def _worst_sample(
    session: Any, samples: list[dict[str, Any]], states: list[dict[str, str]], bounds: dict[str, Any]
) -> list[dict[str, Any]]:
    """With the steps that led to it."""
    found, first, worst = None, 0, (-1.0, 0, 0)
    for position, sample in enumerate(samples):
        first = first if sample["follows"] else position
        found = core.run(session, core.carry(states, sample, found))
        comparison = core.Comparison()
        comparison.add(sample["outputs"], found)
        score = max(map(badness_of, comparison.outputs(bounds)), default=0.0)
        worst = max(worst, (score, first, position), key=lambda entry: entry[0])
    return samples[worst[1] : worst[2] + 1]


def first_sample(golden: str, target: str) -> None:
    """One sample alone in a file: the first that has no label, so that it is a single call and no batch of data."""
    stored = _read_golden(Path(golden), ArtifactDamaged)
    chosen = next((sample for sample in stored if sample["labels"] is None), stored[0] if stored else None)
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_npz(path, sample_arrays("00000", chosen) if chosen else {})


def describe_sample(path: str, batched: bool) -> dict[str, Any]:
    """Its rows, and whether they are a batch that can be made larger."""
    feeds = read_sample(Path(path))["inputs"]
    sizes = {value.shape[:1] if isinstance(value, np.ndarray) else None for value in feeds.values()}
    growing = batched and len(sizes) == 1 and all(size and size[0] for size in sizes)
    return {"inputs": path, "batch": core.rows(feeds, batched), "growing": growing}


def with_rows(source: str, rows: int) -> dict[str, Any]:
    """A sample of a batch with so many rows: its own, over and over."""
    path = Path(source)
    sample, target = read_sample(path), path.with_name(f"batch_{rows}.npz")
    feeds = {name: value[np.arange(rows) % len(value)] for name, value in sample["inputs"].items()}
    write_npz(target, sample_arrays("00000", sample | {"inputs": feeds, "outputs": {}}))
    return {"inputs": str(target), "batch": rows}


def verify_fresh(
    path: str, reference: str, settings: dict[str, Any], bounds: dict[str, Any], plan: dict[str, Any], count: int
) -> dict[str, Any]:
    """An artifact's model against a reference file on inputs that neither has seen."""
    source = open_model(reference, core.as_written(settings))
    report: dict[str, Any] = known_failures(core.compare_fresh, open_model(path, settings), source, plan, bounds, count)
    return report | {"provider": settings["provider"]}


def open_model(path: str, settings: dict[str, Any]) -> Any:
    try:
        return core.open_session(path, settings)
    except core.Failure as failure:
        raise NotAvailable(str(failure), hint=failure.hint) from None
    except core.runtime_errors() as error:
        raise SourceError(f"{Path(path).name} cannot be loaded by ONNX Runtime: {first_line(error, path)}") from None
