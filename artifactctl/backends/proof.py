"""Running models on samples and comparing what they answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from artifactctl.backends import core, graph
from artifactctl.backends.messages import first_line
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.backends.rows import Rows, badness_of
from artifactctl.errors import NotAvailable

LEVELS = ("all", "extended", "basic", "disabled")
GOLDEN_BYTES = 8_000_000
# operators that may draw random numbers; with a seed they repeat themselves now and then, so they are asked more often
RANDOM = {"Dropout", "Bernoulli", "Multinomial", "RandomNormal", "RandomUniform", "RandomNormalLike"}
RANDOM |= {"RandomUniformLike", "BiasDropout", "DropoutGrad"}
RANDOM_TIMES = 8

Array = np.ndarray[Any, Any]
Answer = Callable[[dict[str, Array]], dict[str, Array]]


def read_sample(file: Path) -> dict[str, Any]:
    """One stored sample; of a model without inputs nothing is stored before it is asked."""
    stored: list[dict[str, Any]] = core.read_golden(file)
    return stored[0] if stored else {"inputs": {}, "outputs": {}, "labels": None, "follows": False}


def record_answers(
    folder: Path,
    answer: Answer,
    refusals: tuple[type[Exception], ...],
    states: list[dict[str, str]],
    times: int = 2,
) -> dict[str, Any]:
    """Store the source's own outputs beside every sample; a sample that it refuses is outside its domain.

    Every sample is asked again, `times` in all: how far the answers lie apart is the source's own noise. A step of a
    sequence is asked with the state that the step before it gave.
    """
    refused, noise, outputs = [], core.Comparison(), None
    for file in sorted(folder.glob("*.npz")):
        sample = read_sample(file)
        inputs = core.carry(states, sample, outputs)
        why = "the step before it was refused" if sample["follows"] and outputs is None else None
        try:
            outputs = None if why else answer(inputs)
            for _ in range(times - 1 if outputs is not None else 0):
                noise.add(outputs, answer(inputs))
        except refusals as error:
            why, outputs = first_line(error)[:300], None
        if outputs is None:
            refused.append({"set": file.stem, "message": why})
            file.unlink()
            continue
        write_npz(file, sample_arrays(file.stem, sample | {"inputs": inputs, "outputs": outputs}))
    return {"refused": refused, "noise": noise.outputs({"default": {"max_abs": None}, "outputs": {}})}


def answer_as_written(path: str, folder: str, settings: dict[str, Any], states: list[dict[str, str]]) -> dict[str, Any]:
    session = core.open_session(path, core.as_written(settings))
    kinds = {node.op_type for node in graph.nodes(graph.load(Path(path), with_data=False))}
    times = RANDOM_TIMES if kinds & RANDOM else 2
    return record_answers(Path(folder), lambda feeds: core.run(session, feeds), core.runtime_errors(), states, times)


def prove(
    path: str, folder: str, settings: dict[str, Any], bounds: dict[str, Any], how: dict[str, Any]
) -> dict[str, Any]:
    """Compare a model with the stored answers, set by set and over all; what cannot be run is different.

    `how`: batched, states, batch_axes, and in `split` the sets whose rows are also asked one by one.
    """
    report: dict[str, Any] = {"provider": settings["provider"], "samples": 0, "outputs": [], "sets": []}
    whole, accuracy, rows, asked_nothing, found = core.Comparison(), core.Accuracy(), Rows(how), True, None
    try:
        session = core.open_session(path, settings)
        files = sorted(Path(folder).glob("*.npz"))
        first = read_sample(files[0])["inputs"]
        # one run more than the source had: a model that draws random numbers does not agree with itself
        core.run(session, first)
        placed = core.proved_placement(session, path, settings, first)
        for file in files:
            sample, part = read_sample(file), core.Comparison()
            feeds = core.carry(how["states"], sample, found)
            found = core.run(session, feeds)
            asked_nothing = asked_nothing and not sample["inputs"]
            count = core.rows(sample["inputs"], how["batched"])
            whole.add(sample["outputs"], found, count)
            part.add(sample["outputs"], found, count)
            if sample["labels"] is not None:
                accuracy.add(sample["labels"], sample["outputs"], found)
            report["sets"].append({"set": file.stem, "samples": count, "outputs": part.outputs(bounds)})
            if file.stem in how["split"]:
                rows.ask(session, feeds, found)
    except core.Failure as failure:
        raise NotAvailable(str(failure), hint=failure.hint) from None
    except core.runtime_errors() as error:
        return report | {"failure": f"ONNX Runtime cannot run it: {first_line(error, path)}"}
    outputs = whole.outputs(bounds)
    if asked_nothing:  # a model without inputs has one answer, and it was compared
        outputs = [output | {"vacuous": False} for output in outputs]
    limit = bounds["default"].get("max_accuracy_drop")
    return report | {
        "samples": whole.samples,
        "outputs": outputs,
        "accuracy": accuracy.result(limit),
        "rows": rows.result(bounds),
        "placement": core.counted(placed),
        "worst": _worst_set(report["sets"]),
    }


def _worst_set(sets: list[dict[str, Any]]) -> str | None:
    """Where the error is largest, measured by its bound."""

    def badness(entry: dict[str, Any]) -> float:
        return max((badness_of(output) for output in entry["outputs"]), default=0.0)

    return max(sets, key=badness)["set"] if sets else None


def noise(
    path: str, folder: str, settings: dict[str, Any], bounds: dict[str, Any], how: dict[str, Any]
) -> dict[str, Any]:
    """The unchanged source against its own answers, at falling graph levels until one holds the bound."""
    levels = []
    for level in LEVELS:
        report = prove(path, folder, settings | {"graph_level": level}, bounds, how)
        held = not report.get("failure") and all(output["passed"] for output in report["outputs"])
        if report.get("accuracy"):
            held = held and report["accuracy"]["passed"]
        worst = [output["max_error"] for output in report["outputs"] if output["max_error"] is not None]
        why = next((f"{output['name']}: {output['reason']}" for output in report["outputs"] if output["reason"]), None)
        entry = {"graph_level": level, "max_error": max(worst, default=None), "held": held}
        levels.append(entry | {"reason": report.get("failure") or why})
        if held:
            break
    return {
        "levels": levels,
        "graph_level": levels[-1]["graph_level"] if levels[-1]["held"] else None,
        "report": report,
    }


def write_golden(folder: str, target: str, all_labelled: bool, first: list[str]) -> list[str]:
    """Keep samples while they are small enough together, at least one; with `all_labelled`, every labelled one.

    Those named in `first` are kept in any case. A step stays with the steps before it.
    """
    stored = {file: read_sample(file) for file in sorted(Path(folder).glob("*.npz"))}
    sequences: list[list[Path]] = []
    for file, sample in stored.items():
        if sample["follows"] and sequences:
            sequences[-1].append(file)
        else:
            sequences.append([file])
    kept = [
        file for file, sample in stored.items() if file.stem in first or (all_labelled and sample["labels"] is not None)
    ]
    size = 0
    sizes = {files[0]: sum(file.stat().st_size for file in files) for files in sequences}
    for files in sorted(sequences, key=lambda files: (sizes[files[0]] > GOLDEN_BYTES // 8, files[0].stem)):
        if files[0] not in kept and (not kept or size + sizes[files[0]] <= GOLDEN_BYTES):
            kept += files
            size += sizes[files[0]]
    arrays: dict[str, Array] = {}
    for position, file in enumerate(sorted(kept)):
        arrays |= sample_arrays(f"{position:05d}", stored[file])
    write_npz(Path(target), arrays)
    return [file.stem for file in sorted(kept)]
