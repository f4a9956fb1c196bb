"""bom.cdx.json: what an artifact is made of, as a CycloneDX 1.6 ML-BOM. A function of the metadata alone."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from artifactctl import folder, jsontext, licences
from artifactctl.metadata import warnings

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
MODEL_REF = "model"
_RUNS_IT = ("numpy", "onnxruntime")  # what these names begin is needed to run the model, the rest made it

Entry = dict[str, Any]


def render(metadata: Mapping[str, Any]) -> str:
    """`metadata` as it is recorded; of `files` it takes those that a rebuild gives again, byte for byte."""
    environment = metadata["environment"]
    packages = [_package(name, version) for name, version in environment["packages"].items()]
    sources = [_source_file(metadata, entry) for entry in metadata["source"]["files"]]
    golden = [_golden(metadata, entry) for entry in metadata["files"] if entry["path"] == folder.GOLDEN]
    dated = {"timestamp": environment["date"]} if "date" in environment else {}
    tool = {"type": "application", "name": "artifactctl", "version": environment["artifactctl"]}
    data = [component["bom-ref"] for component in [*sources, *golden] if component["type"] == "data"]
    needed = [component["bom-ref"] for component in packages if component["scope"] == "required"]
    content = {
        "version": 1,
        "metadata": dated | {"tools": {"components": [tool]}, "component": _model(metadata, data)},
        "components": [*packages, *sources, *golden],
        "dependencies": [{"ref": MODEL_REF, "dependsOn": needed}],
    }
    head = {"$schema": SCHEMA, "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": _serial(content)}
    return jsontext.render(head | content)


def problems(artifact: Path, metadata: Mapping[str, Any]) -> list[str]:
    """What is wrong with the bill of an artifact; one that has none is from before there were any."""
    try:
        document = json.loads((artifact / folder.BOM).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        return [f"{folder.BOM} cannot be read ({error})"]
    match document:
        case {"bomFormat": "CycloneDX", "specVersion": str(), "metadata": {"component": {"type": str()} as component}}:
            wrong = [key for key, value in _identity(metadata).items() if component.get(key) != value]
            return [f"{folder.BOM} is not of this model: its {key} is another" for key in wrong]
    return [f"{folder.BOM} is not a CycloneDX document of a model"]


def _identity(metadata: Mapping[str, Any]) -> Entry:
    """What a bill says of the model itself, and is held to."""
    found = {entry["path"]: entry for entry in metadata["files"]}
    external = found.get(f"{folder.MODEL}.data")
    identity = {
        "type": "machine-learning-model",
        "name": metadata["model_name"],
        "version": str(metadata["version"]),
        "hashes": _hashes(found[folder.MODEL]["sha256"]),
    }
    if external is None:
        return identity
    part = {"type": "file", "name": external["path"], "hashes": _hashes(external["sha256"])}
    return identity | {"components": [part]}


def _model(metadata: Mapping[str, Any], data: list[str]) -> Entry:
    session, source = metadata["session"], metadata["source"]
    license_text = source.get("license")
    ancestor = {"type": "machine-learning-model", "name": source["target"]}
    ancestor |= _properties({"kind": source["kind"], "reference_sha256": metadata["reference"]["sha256"]})
    described = {
        "folder": f"artifact_v{metadata['version']}",
        "recipe": metadata["recipe"]["name"],
        "optimization": metadata["optimization"],
        "opset": metadata["opset"],
        "ir_version": metadata["model"]["ir_version"],
        "precision": metadata["precision"],
        "parameters": metadata["model"]["parameters"],
        "size_bytes": metadata["model"]["size_bytes"],
        "portability": metadata["model"]["portability"],
        "provider": session["provider"],
        "graph_level": session["graph_level"],
        "runtime": metadata["runtime"],
        "python": metadata["environment"]["python"],
        "reference": metadata["reference"]["framework"],
        "equivalence": metadata["equivalence"]["statement"],
        "samples": metadata["equivalence"]["samples"],
        "config_sha256": source["config_sha256"],
    }
    return {
        "bom-ref": MODEL_REF,
        **_identity(metadata),
        **({"licenses": _licenses(license_text)} if license_text else {}),
        "pedigree": {"ancestors": [ancestor]},
        "modelCard": _card(metadata, data),
        **_properties(described),
    }


def _card(metadata: Mapping[str, Any], data: list[str]) -> Entry:
    """Task, architecture and training are not known, so nothing is said about them."""
    model, limits = metadata["model"], warnings(metadata)
    return {
        "modelParameters": {
            "datasets": [{"ref": ref} for ref in data],
            "inputs": [{"format": _format(value)} for value in model["inputs"]],
            "outputs": [{"format": _format(value)} for value in model["outputs"]],
        },
        "quantitativeAnalysis": {"performanceMetrics": [*_proved(metadata), *_measured(metadata)]},
        **({"considerations": {"technicalLimitations": limits}} if limits else {}),
    }


def _format(value: Mapping[str, Any]) -> str:
    shape = value["shape"]
    sizes = f"[{', '.join(map(str, shape))}]" if isinstance(shape, list) else str(shape)
    return f"{value['name']}: {value['dtype']} {sizes}"


def _proved(metadata: Mapping[str, Any]) -> Iterable[Entry]:
    for output in metadata["equivalence"]["outputs"]:
        for key in ("max_abs", "max_error", "bound"):
            if output[key] is not None:
                yield _metric(f"equivalence.{key}", output[key], f"output {output['name']}")
    accuracy = metadata["equivalence"]["accuracy"] or {}
    for kind, key in (("accuracy.source", "source"), ("accuracy", "candidate"), ("accuracy_drop", "drop")):
        if accuracy.get(key) is not None:
            yield _metric(kind, accuracy[key], f"{accuracy['samples']} labelled samples")


def _measured(metadata: Mapping[str, Any]) -> Iterable[Entry]:
    """Of this build on this machine: what another build of the same bytes may say otherwise."""
    latency = metadata["latency"] or {}
    for report in (latency, latency.get("previous"), latency.get("oldest")):
        if report and report["ratio"] is not None:
            against = f"{report['provider']}, against {report['against']}"
            yield _metric("latency.ratio", report["ratio"], against, (report["ratio_low"], report["ratio_high"]))
    if latency and metadata["latency_ms"] is not None:
        interval = latency["candidate"].get("intervals", {}).get("p50_ms")
        yield _metric("latency.p50_ms", metadata["latency_ms"], latency["provider"], interval)


def _metric(kind: str, value: float, part: str, interval: Iterable[float] | None = None) -> Entry:
    metric: Entry = {"type": kind, "value": str(value), "slice": part}
    if interval is not None:
        metric["confidenceInterval"] = dict(zip(("lowerBound", "upperBound"), map(str, interval), strict=True))
    return metric


def _package(name: str, version: str) -> Entry:
    purl = f"pkg:pypi/{name}@{version}"
    scope = "required" if name.startswith(_RUNS_IT) else "excluded"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "scope": scope, "purl": purl}


def _source_file(metadata: Mapping[str, Any], entry: Mapping[str, Any]) -> Entry:
    uses = [use for use, path in metadata["source"].get("data", {}).items() if path == entry["path"]]
    return _file(entry, f"source:{entry['path']}", "excluded", uses)


def _golden(metadata: Mapping[str, Any], entry: Mapping[str, Any]) -> Entry:
    return _file(entry, f"artifact:{entry['path']}", "required", ["golden"]) | {
        "description": f"{metadata['reference']['golden']['samples']} inputs, with the source's answers"
    }


def _file(entry: Mapping[str, Any], ref: str, scope: str, uses: list[str]) -> Entry:
    found: Entry = {"type": "data" if uses else "file", "bom-ref": ref, "name": entry["path"], "scope": scope}
    found["hashes"] = _hashes(entry["sha256"])
    if uses:
        found["data"] = [{"type": "dataset", "name": use} for use in uses]
    return found | _properties({"size_bytes": entry["size_bytes"]})


def _hashes(sha256: str) -> list[Entry]:
    return [{"alg": "SHA-256", "content": sha256}]


def _properties(values: Mapping[str, Any]) -> Entry:
    return {"properties": [{"name": f"artifactctl:{key}", "value": str(value)} for key, value in values.items()]}


def _licenses(text: str) -> list[Entry]:
    """The list of SPDX decides what is an expression; anything else is a licence's name."""
    if known := licences.expression(text):
        return [{"expression": known, "acknowledgement": "declared"}]
    return [{"license": {"name": text, "acknowledgement": "declared"}}]


def _serial(content: Mapping[str, Any]) -> str:
    """Two bills with one number say the same."""
    digest = hashlib.sha256(jsontext.render(content).encode()).hexdigest()
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}"
