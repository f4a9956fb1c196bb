"""Metadata <-> metadata.yaml, both ways; validate.py, which is rendered from it; what it says, in sentences."""

from __future__ import annotations

import math
import pprint
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from artifactctl import schema, verdicts, yamlfile
from artifactctl.errors import ArtifactDamaged, ConfigError
from artifactctl.folder import digest
from artifactctl.portability import portability_warnings
from artifactctl.providers import PROVIDERS
from artifactctl.resources import template_text
from artifactctl.versions import parse_folder_name

SCHEMA_VERSION = 1
MEASURED = ("latency_ms", "latency", "files")
MOST_TEXTS = 3
PLAIN_SETTINGS = {"memory_pattern": True, "arena": True, "flush_denormals": False, "allow_spinning": True}
DATA_STATEMENT = "DATA: dict[str, Any] = "
DATA_BLOCK = re.compile(r"^# <data>\n.*?^# </data>\n", re.MULTILINE | re.DOTALL)


def dump(metadata: Mapping[str, Any]) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    # what our reader takes for a number must be quoted when it is a text
    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", yamlfile.EXPONENT, list("-+0123456789"))
    return yaml.dump(
        dict(metadata), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None
    )


def read(folder: Path) -> dict[str, Any]:
    try:
        data = yamlfile.read(folder / "metadata.yaml").data
    except ConfigError as error:
        raise ArtifactDamaged(f"{folder}/metadata.yaml: {error}") from None
    found = schema.problems(data, "metadata")
    if found:
        place = ".".join(str(part) for part in found[0].place)
        raise ArtifactDamaged(f"{folder}/metadata.yaml: {place or 'top level'}: {found[0].message}")
    mapping: dict[str, Any] = data
    return mapping


def without_measurements(data: Mapping[str, Any]) -> dict[str, Any]:
    """What the same inputs give again to the byte: no times, and no digests of files that hold times."""
    kept = {key: value for key, value in data.items() if key not in MEASURED}
    bare = [{key: value for key, value in entry.items() if key != "latency"} for entry in data["recipe"]["candidates"]]
    return kept | {"recipe": {**data["recipe"], "candidates": bare}}


def disagreements(folder: Path, data: Mapping[str, Any], known: Mapping[str, str] | None = None) -> list[str]:
    """Where the metadata and the files tell two stories; SHA256SUMS alone can be written anew by anyone.

    `known` are digests that were just found right; without them the files are read.
    """
    found = []
    if data["version"] != parse_folder_name(folder.name) and parse_folder_name(folder.name):
        found.append(f"metadata.yaml is of version {data['version']}, but the folder is {folder.name}")
    for entry in data["files"]:
        path = folder / entry["path"]
        real = known.get(entry["path"]) if known is not None else digest(path) if path.is_file() else None
        if real != entry["sha256"]:
            found.append(f"{entry['path']} is not the file that metadata.yaml describes")
    return found


def validate_data(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What validate.py knows of its artifact."""
    return {
        "model_name": metadata["model_name"],
        "version": metadata["version"],
        "session": metadata["session"],
        "bounds": metadata["equivalence"]["bounds"],
        "plan": {key: metadata["reference"]["samples"][key] for key in ("seed", "batched", "inputs", "states", "sets")},
        "own": metadata["equivalence"].get("providers", {}),
        "providers": {
            name: {key: getattr(row, key) for key in ("execution_provider", "system", "machine", "options", "emulated")}
            for name, row in PROVIDERS.items()
        },
    }


def candidate_key(entry: Mapping[str, Any]) -> tuple[str, str | None]:
    """A candidate is a recipe on a provider; in older records it is a recipe."""
    return entry["recipe"], entry.get("provider")


def candidate_name(entry: Mapping[str, Any]) -> str:
    """For people: the provider is said where it is not plain CPU."""
    elsewhere = entry.get("provider") not in (None, "cpu")
    return f"{entry['recipe']} on {entry['provider']}" if elsewhere else str(entry["recipe"])


def session_texts(meta: Mapping[str, Any]) -> list[str]:
    """What of the session is not as everyone expects it, and why."""
    session, found = meta["session"], list[str]()
    if (level := session["graph_level"]) != "all":
        usual = meta["reference"]["noise"]["levels"][0]  # ONNX Runtime's default
        outside = f"at the default even the source leaves the bound: {usual['reason']}"
        found.append(f"graph level {level!r}: {'proved faster' if usual['held'] else outside}")
    tuned = [name for name, plain in PLAIN_SETTINGS.items() if session.get(name, plain) != plain]
    if tuned:
        found.append(f"tuned: {', '.join(f'{name} {str(session[name]).lower()}' for name in tuned)}")
    if "fallback" in session:
        other = session["fallback"]
        proved = f"{other['provider']}, the same file, proved too" if other else "nothing: the CPU leaves the bound"
        if other and (best := other.get("best")):
            proved += f"; the best there is {best['recipe']}: build --provider {other['provider']}"
        high = (meta["latency"] or {}).get("ratio_high")
        faster = ", proved faster" if high is not None and high < 1 else ""
        found.append(f"{session['provider']}{faster}; where it is missing: {proved}")
    return found


def same_candidate(
    entries: Mapping[tuple[str, str | None], Mapping[str, Any]], recipe: str, provider: str | None
) -> Mapping[str, Any]:
    return entries.get((recipe, provider)) or entries.get((recipe, None)) or {}


def bounds_on(metadata: Mapping[str, Any], provider: str | None = None) -> Mapping[str, Any]:
    """The bounds on a provider, or where the build proved it."""
    proof = metadata["equivalence"]
    own = proof.get("providers", {}).get(provider or metadata["session"]["provider"], {})
    found: Mapping[str, Any] = own.get("bounds", proof["bounds"])
    return found


def options_on(metadata: Mapping[str, Any], provider: str) -> dict[str, str]:
    """The session's options on a provider: those of the table, and the artifact's own."""
    session = metadata["session"]
    if provider == session["provider"]:
        return dict(session["options"])
    own = metadata["equivalence"].get("providers", {}).get(provider, {})
    return {**PROVIDERS[provider].options, **own.get("options", {})}


def render_validate(metadata: Mapping[str, Any]) -> str:
    """validate.py is a function of the metadata and the template alone."""
    data = pprint.pformat(validate_data(metadata), width=110, sort_dicts=False)
    block = f"# <data>\n{DATA_STATEMENT}{data}\n# </data>\n"
    return DATA_BLOCK.sub(lambda _: block, template_text("validate.py"), count=1)


def warnings(meta: Mapping[str, Any]) -> list[str]:
    """What a reader must know before believing the proof."""
    found = coverage_texts(meta)
    if fixed := meta["model"].get("fixed"):
        sizes = ", ".join(f"{name} {shape}" for name, shape in fixed.items())
        found.append(f"made for one shape only, {sizes}; the source takes others, and nothing is proved there")
    vacuous = [output["name"] for output in meta["equivalence"]["outputs"] if output["vacuous"]]
    if vacuous:
        found.append(f"constant over all samples, so nothing is proved about: {', '.join(vacuous)}")
    return found + portability_warnings(meta["model"]) + _cost_texts(meta) + speed_texts(meta, proved=False)


def _cost_texts(meta: Mapping[str, Any]) -> list[str]:
    """Of session settings that hold the bound where ONNX Runtime's defaults do not."""
    report = (meta["latency"] or {}).get("defaults")
    if not report or report["ratio"] is None or report["ratio_low"] <= 1:
        return []
    usual, bounds = meta["reference"]["noise"]["levels"][0], meta["equivalence"]["bounds"]
    bound = None if bounds["outputs"] or meta["equivalence"].get("providers") else bounds["default"]["max_abs"]
    text = f"slower than {report['against']}, which leave the bound: {verdicts.spread(report)}"
    if bound and usual["max_error"] is not None and usual["max_error"] > bound:
        wider = f"equivalence: {{max_abs: {_rounded_up(1.2 * usual['max_error']):g}}}"
        text += f"; if an error of {usual['max_error']:.2g} is small enough for you, {wider} takes them"
    return [text]


def _rounded_up(value: float) -> float:
    """To one digit."""
    unit: float = 10.0 ** math.floor(math.log10(value))
    return math.ceil(value / unit) * unit


def coverage_texts(meta: Mapping[str, Any]) -> list[str]:
    """What of the source the samples did not reach."""
    found = []
    for branch in meta["reference"]["samples"]["branches"]:
        if len(branch["taken"]) < 2:
            found.append(
                f"only one side of the branch on {branch['condition']!r} was ever taken; add data.samples for the other"
            )
    if count := meta["reference"]["samples"]["unwatched_branches"]:
        found.append(f"{count} branches lie inside other branches or loops; which of their sides ran is not known")
    for symbol in meta["reference"]["samples"]["single_size"]:
        found.append(f"the source takes one size of {symbol!r} only, as far as it was tried")
    return found


def speed_texts(meta: Mapping[str, Any], *, proved: bool = True) -> list[str]:
    """Against the versions before: what was proved when this one was built, or what was not."""
    found = [(meta["latency"] or {}).get(name) for name in ("previous", "oldest")]
    reports = [report for report in found if report]
    return [verdicts.sentence(report) for report in reports if (report["verdict"] == verdicts.NOT_SLOWER) is proved]


def sizes_text(meta: Mapping[str, Any]) -> str:
    """At which sizes it was timed, where nobody gave any; elsewhere another recipe may be the fastest."""
    dims = ((meta["latency"] or {}).get("sample") or {}).get("dims") or {}
    if "samples" in meta["source"]["data"] or not any(size > 1 for size in dims.values()):
        return ""
    free = [spec for spec in meta["reference"]["samples"]["inputs"] if dims.keys() & set(spec["shape"])]
    shapes = [f"{spec['name']} {[dims.get(size, size) for size in spec['shape']]}" for spec in free]
    told = shapes[:MOST_TEXTS] + [f"{len(shapes) - MOST_TEXTS} more"] * (len(shapes) > MOST_TEXTS)
    return f"with {', '.join(told)}, which is made up: if you serve other sizes, give data.samples of them"


def margin_text(
    outputs: Sequence[Mapping[str, Any]], noise: Mapping[str, Any] | None, meta: Mapping[str, Any] | None
) -> str:
    """How far below the bound the largest error lies, and what part of it nobody can avoid."""
    judged = [output for output in outputs if output["passed"] and output["max_error"] is not None and output["bound"]]
    if not judged:
        return ""
    if not any(output["max_error"] for output in judged):
        return "max |Δ| 0: bit for bit the source's answers"
    worst = max(judged, key=lambda output: output["max_error"] / output["bound"])
    parts = [f"{worst['bound'] / worst['max_error']:.3g} × below the bound"]
    if noise and noise["ran"] and noise["max_error"] and meta:
        kind = {"fp16": "float16", "bf16": "bfloat16"}.get(meta["reference"]["precision"], "float32")
        parts.append(f"{worst['max_error'] / noise['max_error']:.2g} × the {kind} noise")
    return f"max |Δ| {worst['max_abs']:.2g}: {', '.join(parts)}"


def decision_texts(outputs: Sequence[Mapping[str, Any]], meta: Mapping[str, Any] | None) -> list[str]:
    """What the error means for whoever takes the largest score of a row; a state is no score."""
    states = [pair["output"] for pair in (meta or {}).get("reference", {}).get("samples", {}).get("states", ())]
    found = []
    for output in outputs:
        if not (made := output.get("decisions")) or output["name"] in states:
            continue
        top5 = "" if made["top5"] is None else f", top-5 {made['top5']:.4f}"
        text = f"{output['name']}: {made['flips']} flips in {made['rows']} rows{top5}"
        if made["covered"] is not None:
            text += f"; none can change where the margin is above {made['margin']:.2g}: {made['covered']:.1%} of them"
        found.append(text)
    return found[:MOST_TEXTS] + ([f"and {len(found) - MOST_TEXTS} more outputs"] if len(found) > MOST_TEXTS else [])
