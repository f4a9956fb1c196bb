"""Times of models, by templates/bench.py, which also runs where artifactctl is not installed. It judges nothing."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import onnxruntime  # noqa: F401 - loaded before the first fork, so that every round has it

from artifactctl.backends import core
from artifactctl.backends.messages import known_failures
from artifactctl.resources import template_path


def _load() -> ModuleType:
    """The script imports validate.py, which lies beside it in a bundle; here that is the one that core has loaded."""
    sys.modules.setdefault("validate", sys.modules[core.Comparison.__module__])
    spec = importlib.util.spec_from_file_location("artifactctl_bench_template", template_path("bench.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_bench = _load()


def time_round(task: dict[str, Any], seed: int) -> dict[str, Any]:
    found: dict[str, Any] = known_failures(_bench.in_child, "one_round", task, seed)
    return found


def load_round(task: dict[str, Any], seed: int) -> list[list[int]]:
    found: list[list[int]] = known_failures(_bench.in_child, "load_round", task, seed)
    return found


def surveys(task: dict[str, Any], side: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = known_failures(_bench.surveys, task, side)
    return found


def describe_machine() -> dict[str, Any]:
    return {"machine": _bench.machine(), "noise": _bench.noise()}
