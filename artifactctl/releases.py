"""Which releases of ONNX Runtime take a model: by its opsets, its IR and the operators that are not ONNX's own."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWN_DOMAIN = "com.microsoft"
STANDARD = ("ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    opset: int
    ml: int
    ir: int
    operators: frozenset[str]  # of com.microsoft, new in it


@dataclass(frozen=True, slots=True)
class Need:
    """The oldest release that takes a model, and what of the model it is needed for; None: no release is known to."""

    version: str | None
    why: str


@functools.cache
def table() -> tuple[Release, ...]:
    """Oldest first."""
    rows = tomllib.loads(Path(__file__).with_name("releases.toml").read_text(encoding="utf-8"))["release"]
    return tuple(Release(**{**row, "operators": frozenset(row["operators"])}) for row in rows)


def need_of(model: Mapping[str, Any]) -> Need:
    """`model` is what `inspect` finds. The oldest release of the table stands for those before it, too."""
    versions = {"ir": model["ir_version"], "opset": model["opsets"].get("ai.onnx", 0)}
    versions["ml"] = model["opsets"].get("ai.onnx.ml", 0)
    words = {"ir": "IR", "opset": "opset", "ml": "opset ai.onnx.ml"}
    needs = [(_first_from(key, wanted), f"{words[key]} {wanted}") for key, wanted in versions.items()]
    for entry in model["operators"]:
        if entry["domain"] not in (*STANDARD, *model["functions"]):
            name = f"{entry['domain']}:{entry['operator']}"
            needs.append((_first_with(entry["domain"], entry["operator"]), name))
    found = Need(table()[0].version, "")
    for version, why in needs:
        if version is None:
            return Need(None, why)
        if number(version) > number(found.version or ""):
            found = Need(version, why)
    return found


def _first_from(key: str, wanted: int) -> str | None:
    return next((row.version for row in table() if getattr(row, key) >= wanted), None)


def _first_with(domain: str, operator: str) -> str | None:
    if domain != OWN_DOMAIN:
        return None
    return next((row.version for row in table() if operator in row.operators), None)


def number(version: str) -> tuple[int, ...]:
    """1.9 is before 1.10; of 1.18.1 only 1.18 counts."""
    return tuple(int(part) for part in version.split(".")[:2])


def broken_promise(model: Mapping[str, Any], promised: str | None) -> str | None:
    """Why a model does not run on every release from `promised` on; None where it does, or nothing is promised."""
    if promised is None:
        return None
    need = need_of(model)
    if need.version is None:
        return f"not known to run on ONNX Runtime {promised} (optimize.min_runtime): it has {need.why}"
    if number(need.version) > number(promised):
        return f"needs ONNX Runtime {need.version} for {need.why}, and optimize.min_runtime is {promised}"
    return None
