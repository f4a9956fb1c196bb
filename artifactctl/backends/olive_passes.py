"""Olive: single passes without its engine (nothing swallowed, no cache), and a user's whole run configuration."""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from onnx import ModelProto

from artifactctl.backends import graph, streams
from artifactctl.backends.fingerprint import identity
from artifactctl.backends.messages import first_line
from artifactctl.backends.tensors import listed_as_inputs
from artifactctl.copies import copy
from artifactctl.errors import OptimizeError, perhaps

MOST_KINDS = 5  # of operators that are named when they came, or went
OWN_PASSES = {
    "OnnxAlgebra": "artifactctl.backends.olive_algebra",
    "OnnxOptimizerPasses": "artifactctl.backends.olive_onnxoptimizer",
    "OnnxSlimPass": "artifactctl.backends.olive_onnxslim",
}


def olive_load() -> str:
    """The slow import, asked for early so that it happens while other work is done."""
    import olive.workflows
    from olive.package_config import OlivePackageConfig

    OlivePackageConfig.load_default_config()
    return str(olive.version.__version__)


def olive_pass(
    name: str, config: dict[str, Any], source: str, folder: str, calibration: list[str] | None = None
) -> dict[str, Any]:
    """Run one pass; the answer says whether the graph is another one afterwards, and what is new in it.

    `calibration` are the files of the samples that it calibrates with.
    """
    from olive.exception import OlivePassError
    from olive.hardware import DEFAULT_CPU_ACCELERATOR
    from olive.model import ONNXModelHandler
    from olive.passes.olive_pass import create_pass_from_dict

    target = Path(folder)
    target.mkdir(parents=True)
    histograms: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if calibration:
        from artifactctl.backends.olive_data import data_config, fine_histograms

        config, histograms = {**config, "data_config": data_config(calibration)}, fine_histograms()
    step = create_pass_from_dict(
        _pass_class(name), config, disable_search=True, accelerator_spec=DEFAULT_CPU_ACCELERATOR
    )
    try:
        with histograms:
            result = step.run(ONNXModelHandler(model_path=source), str(target / "model.onnx"))
    except OlivePassError as error:  # it says only that something failed; what did stands behind it
        raise OptimizeError(first_line(error.__cause__ if isinstance(error.__cause__, Exception) else error)) from None
    written = result.model_path if result is not None else None
    if not written or not Path(written).is_file():
        raise OptimizeError(f"Olive's pass {name} gave no model")
    return _outcome(Path(written), Path(source))


def _outcome(made: Path, source: Path) -> dict[str, Any]:
    """What is large is laid out here, where a model may be held several times: nobody else should have to."""
    written = streams.lay_out(made, made.parent / "laid-out", graph.EXTERNAL_OVER_BYTES)
    if written != made:
        made.unlink()
    model, before = graph.load(written, with_data=False), graph.load(source, with_data=False)
    changed = identity(str(written)) != identity(str(source))
    old, new = operators_of(before), operators_of(model)
    kinds = difference(old, new, len(listed_as_inputs(model)) - len(listed_as_inputs(before)))
    answer = {"path": str(written), "changed": changed, "what": kinds if changed else ""}
    return answer | {"added": sorted(new - old)} | graph.describe(model)


def operators_of(model: ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in graph.nodes(model) if node.op_type != "Constant")


def difference(before: Counter[str], after: Counter[str], listed: int = 0) -> str:
    """Operators that came, then those that went; most of them first. `listed`: weights that became inputs."""
    parts = [_listed("+", after - before), _listed("−", before - after)]
    parts.append(f"{'+' if listed > 0 else '−'}{abs(listed)} weights that are inputs" if listed else "")
    return ", ".join(part for part in parts if part) or "the same operators, with other values, types or sizes"


def _listed(sign: str, counts: Counter[str]) -> str:
    ranked = sorted(counts, key=lambda kind: (-counts[kind], kind))
    shown = [f"{sign}{counts[kind]} {kind}" for kind in ranked[:MOST_KINDS]]
    rest = sum(counts[kind] for kind in ranked[MOST_KINDS:])
    return ", ".join([*shown, *([f"{sign}{rest} others"] if rest else [])])


def _pass_class(name: str) -> Any:
    from olive.package_config import OlivePackageConfig

    if name in OWN_PASSES:
        return getattr(importlib.import_module(OWN_PASSES[name]), name)
    return OlivePackageConfig.load_default_config().import_pass_module(name)


def olive_run(config: str, source: str, folder: str, passes: int | None = None) -> dict[str, Any]:
    """A user's own run configuration, with the model, the output and the cache put in their places.

    With `passes`, only so many of its passes.
    """
    from olive.workflows import run

    target = Path(folder)
    output, cache = target / "output", target / "cache"
    for place in (output, cache):
        place.mkdir(parents=True)
    asked = json.loads(Path(config).read_text(encoding="utf-8"))
    for key in ("engine", "packaging_config", "output_name", "log_severity_level"):
        asked.pop(key, None)
    asked["input_model"] = {"type": "OnnxModel", "model_path": source}
    asked |= {"output_dir": str(output), "cache_dir": str(cache), "clean_cache": True}
    _known_passes(asked.get("passes") or {})
    asked["passes"] = dict(list(asked["passes"].items())[:passes])
    result = run(asked)
    if not result.has_output_model():
        raise OptimizeError("Olive gave no model; run again with '-v' to see its log")
    written = _single(result.get_best_candidate().model_path)
    kept = target / "result"
    shutil.copytree(written.parent, kept, copy_function=copy)
    return _outcome(kept / written.name, Path(source))


def _single(given: str | None) -> Path:
    """The one ONNX file that passes gave; some split a model, and some write other formats."""
    best = Path(given or "")
    files = [best] if best.is_file() else sorted(best.glob("*")) if given else []
    models = [path for path in files if path.suffix == ".onnx"]
    if len(models) == 1:
        return models[0]
    listed = ", ".join(path.name for path in (models or files)[:MOST_KINDS])
    what = f"{len(models)} ONNX models where one is needed" if models else "no ONNX model"
    hint = "Take the pass out of the Olive file that splits the model or writes another format."
    raise OptimizeError(f"the passes of the Olive file give {what}{f': {listed}' if listed else ''}", hint=hint)


def _known_passes(passes: dict[str, Any]) -> None:
    from olive.package_config import OlivePackageConfig

    if not passes:
        raise OptimizeError(
            "the Olive file has no passes", hint='Add one: "passes": {"q": {"type": "OnnxDynamicQuantization"}}.'
        )
    olives = OlivePackageConfig.load_default_config().passes
    known = {name.lower() for name in olives}
    names = [entry.module_path.rpartition(".")[2] for entry in olives.values()]
    for label, entry in passes.items():
        for single in entry if isinstance(entry, list) else [entry]:
            kind = single.get("type") if isinstance(single, dict) else None
            if not kind:
                hint = 'Add it: {"type": "OnnxDynamicQuantization"}.'
                raise OptimizeError(f"the pass {label!r} of the Olive file has no 'type'", hint=hint)
            if str(kind).lower() not in known:
                message = f"Olive does not know the pass {kind!r} of {label!r}{perhaps(str(kind), names)}"
                raise OptimizeError(message, hint="Mend 'type' in the Olive file.")
