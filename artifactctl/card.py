"""README.md of an artifact, the model card: a function of its metadata and the template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from artifactctl import verdicts
from artifactctl.metadata import candidate_name, speed_texts, warnings
from artifactctl.portability import portability_text
from artifactctl.resources import template_text


def render(metadata: Mapping[str, Any]) -> str:
    """README.md of the artifact: what a person wants to know first."""
    equivalence, latency, model = metadata["equivalence"], metadata["latency"], metadata["model"]
    told = verdicts.spread(latency, unit=" × the source's time", digits=2) if latency else ""
    speed = f", {told}" if told else ""
    drop = metadata["accuracy_drop"]
    values = {
        "model": metadata["model_name"],
        "version": metadata["version"],
        "recipe": metadata["recipe"]["name"],
        "reason": metadata["recipe"]["reason"],
        "optimization": metadata["optimization"],
        "precision": metadata["precision"],
        "opset": metadata["opset"],
        "size": f"{model['size_bytes']:,} bytes",
        "statement": _cell(equivalence["statement"]),
        "samples": equivalence["samples"],
        "max_error": "–" if equivalence["max_error"] is None else f"{equivalence['max_error']:.2e}",
        "reference": metadata["reference"]["framework"],
        "latency": "not measured"
        if metadata["latency_ms"] is None
        else "; ".join([f"{metadata['latency_ms']:.4g} ms (median){speed}", *map(_cell, speed_texts(metadata))]),
        "accuracy": "not measured" if drop is None else f"{drop:+.4f}",
        "license": _cell(metadata["source"].get("license") or "not given"),
        "portability": _cell(portability_text(model)),
        "golden": _golden(metadata["reference"]["golden"]),
        "inputs": "\n".join(_value_row(value) for value in model["inputs"]) or "| – | – | – |",
        "outputs": "\n".join(_value_row(value) for value in model["outputs"]),
        "warnings": "\n".join(f"**Note:** {_cell(text)}.\n" for text in warnings(metadata)),
        "conditions": _conditions(metadata),
        "candidates": "\n".join(_candidate_row(entry) for entry in metadata["recipe"]["candidates"]),
        "curve": _curve(metadata["recipe"].get("curve")),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: str(values[match.group(1)]), template_text("card.md"))


def _cell(text: Any) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def _golden(golden: Mapping[str, int]) -> str:
    own = f"{golden['own']} of them your own (data.samples)" if golden["own"] else "all made up"
    return f"{golden['samples']} samples, {own}, with the source's answers"


def _conditions(metadata: Mapping[str, Any]) -> str:
    session, latency = metadata["session"], metadata["latency"]
    sizes = ", ".join(f"{name} {size}" for name, size in (latency or {}).get("sample", {}).get("dims", {}).items())
    threads = f"{session['intra_op_threads']} threads"
    return f"{metadata['runtime']}, provider {session['provider']}, {threads}{', ' + sizes if sizes else ''}"


def _value_row(value: Mapping[str, Any]) -> str:
    return f"| `{_cell(value['name'])}` | {_cell(value['dtype'])} | {_cell(value['shape'])} |"


def _curve(plot: str | None) -> str:
    return f"\n![int8 by layers: speed-up against error]({plot})\n" if plot else ""


def _candidate_row(entry: Mapping[str, Any]) -> str:
    return f"| {_cell(candidate_name(entry))} | {entry['status']} | {_cell(entry['reason'])} |"
