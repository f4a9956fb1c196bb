"""Running models on samples and comparing what they answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from artifactctl.backends import core
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.errors import EXIT_CODES, ArtifactDamaged, NotAvailable, SourceError

LEVELS = ("all", "extended", "basic", "disabled")
GOLDEN_BYTES = 8_000_000

Array = np.ndarray[Any, Any]
Answer = Callable[[dict[str, Array]], dict[str, Array]]


def read_sample(file: Path) -> dict[str, Any]:
    """One stored sample; of a model without inputs nothing is stored before it is asked."""
    stored: list[dict[str, Any]] = core.read_golden(file)
    return stored[0] if stored else {"inputs": {}, "outputs": {}, "labels": None}


def record_answers(folder: Path, answer: Answer, refusals: tuple[type[Exception], ...]) -> dict[str, Any]:
    """Store the source's own outputs beside every sample; a sample that it refuses is outside its domain.

    Every sample is asked twice: how far the two answers lie apart is the source's own noise.
    """
    refused, noise = [], core.Comparison()
    for file in sorted(folder.glob("*.npz")):
        sample = read_sample(file)
        try:
            outputs = answer(sample["inputs"])
            noise.add(outputs, answer(sample["inputs"]))
        except refusals as error:
            refused.append({"set": file.stem, "message": _first_line(error)[:300]})
            file.unlink()
            continue
        arrays = sample_arrays(file.stem, sample | {"outputs": outputs})
        write_npz(file, arrays)
    return {"refused": refused, "noise": noise.outputs({"default": {"max_abs": None}, "outputs": {}})}


def answer_as_written(path: str, folder: str, settings: dict[str, Any]) -> dict[str, Any]:
    session = core.open_session(path, settings | {"graph_level": "disabled"})
    return record_answers(Path(folder), lambda feeds: core.run(session, feeds), core.runtime_errors())


def prove(path: str, folder: str, settings: dict[str, Any], bounds: dict[str, Any], batched: bool) -> dict[str, Any]:
    """Compare a model with the stored answers, set by set and over all; what cannot be run is different."""
    report: dict[str, Any] = {"provider": settings["provider"], "samples": 0, "outputs": [], "sets": []}
    whole, accuracy, asked_nothing = core.Comparison(), core.Accuracy(), True
    try:
        session = core.open_session(path, settings)
        files = sorted(Path(folder).glob("*.npz"))
        # one run more than the source had: a model that draws random numbers does not agree with itself
        core.run(session, read_sample(files[0])["inputs"])
        for file in files:
            sample, part = read_sample(file), core.Comparison()
            found = core.run(session, sample["inputs"])
            asked_nothing = asked_nothing and not sample["inputs"]
            count = core.rows(sample["inputs"], batched)
            whole.add(sample["outputs"], found, count)
            part.add(sample["outputs"], found, count)
            if sample["labels"] is not None:
                accuracy.add(sample["labels"], sample["outputs"], found)
            report["sets"].append({"set": file.stem, "samples": count, "outputs": part.outputs(bounds)})
    except core.Failure as failure:
        raise NotAvailable(str(failure), hint=failure.hint) from None
    except core.runtime_errors() as error:
        return report | {"failure": f"ONNX Runtime cannot run it: {_first_line(error, path)}"}
    outputs = whole.outputs(bounds)
    if asked_nothing:  # a model without inputs has one answer, and it was compared
        outputs = [output | {"vacuous": False} for output in outputs]
    limit = bounds["default"].get("max_accuracy_drop")
    return report | {"samples": whole.samples, "outputs": outputs, "accuracy": accuracy.result(limit)}


def noise(path: str, folder: str, settings: dict[str, Any], bounds: dict[str, Any], batched: bool) -> dict[str, Any]:
    """The unchanged source against its own answers, at falling graph levels until one holds the bound."""
    levels = []
    for level in LEVELS:
        report = prove(path, folder, settings | {"graph_level": level}, bounds, batched)
        held = not report.get("failure") and all(output["passed"] for output in report["outputs"])
        if report.get("accuracy"):
            held = held and report["accuracy"]["passed"]
        worst = [output["max_error"] for output in report["outputs"] if output["max_error"] is not None]
        why = next((f"{output['name']}: {output['reason']}" for output in report["outputs"] if output["reason"]), None)
        entry = {"graph_level": level, "max_error": max(worst, default=None), "held": held}
        levels.append(entry | {"reason": report.get("failure") or why})
        if held:
            break
    return {"levels": levels, "graph_level": levels[-1]["graph_level"] if levels[-1]["held"] else None}


def write_golden(folder: str, target: str, all_labelled: bool) -> list[str]:
    """Keep samples while they are small enough together, at least one; with `all_labelled`, every labelled one."""
    stored = {file: read_sample(file) for file in sorted(Path(folder).glob("*.npz"))}
    kept = [file for file, sample in stored.items() if all_labelled and sample["labels"] is not None]
    size = 0
    for file in sorted(stored, key=lambda file: (file.stat().st_size > GOLDEN_BYTES // 8, file.stem)):
        if file not in kept and (not kept or size + file.stat().st_size <= GOLDEN_BYTES):
            kept.append(file)
            size += file.stat().st_size
    arrays: dict[str, Array] = {}
    for position, file in enumerate(sorted(kept)):
        arrays |= sample_arrays(f"{position:05d}", stored[file])
    write_npz(Path(target), arrays)
    return [file.stem for file in sorted(kept)]


def verify_golden(
    path: str, golden: str, settings: dict[str, Any], bounds: dict[str, Any], plan: dict[str, Any], count: int | None
) -> dict[str, Any]:
    """An artifact's model against the answers it was shipped with."""
    try:
        stored = core.read_golden(Path(golden))
    except (OSError, ValueError) as error:
        raise ArtifactDamaged(f"golden.npz cannot be read: {error}") from None
    report = _known_failures(core.compare_golden, _open(path, settings), stored[:count], plan, bounds)
    return report | {"provider": settings["provider"]}


def verify_fresh(
    path: str, reference: str, settings: dict[str, Any], bounds: dict[str, Any], plan: dict[str, Any], count: int
) -> dict[str, Any]:
    """An artifact's model against a reference file on inputs that neither has seen."""
    source = _open(reference, core.as_written(settings))
    report = _known_failures(core.compare_fresh, _open(path, settings), source, plan, bounds, count)
    return report | {"provider": settings["provider"]}


def _known_failures(compare: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    try:
        return compare(*arguments)
    except core.Failure as failure:
        raise EXIT_CODES[failure.code](str(failure), hint=failure.hint) from None


def _open(path: str, settings: dict[str, Any]) -> Any:
    try:
        return core.open_session(path, settings)
    except core.Failure as failure:
        raise NotAvailable(str(failure), hint=failure.hint) from None
    except core.runtime_errors() as error:
        raise SourceError(f"{Path(path).name} cannot be loaded by ONNX Runtime: {_first_line(error, path)}") from None


def _first_line(error: Exception, path: str = "") -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
    return line.replace(path, Path(path).name) if path else line
