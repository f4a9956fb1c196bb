"""What this environment's ONNX Runtime is and has."""

from __future__ import annotations

import os
from typing import Any

import onnxruntime
import psutil

from artifactctl.backends import core


def version() -> tuple[int, int]:
    major, minor = onnxruntime.__version__.split(".")[:2]
    return int(major), int(minor)


def describe_runtime() -> dict[str, Any]:
    # a container or an affinity mask may leave fewer than the machine has
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "version": onnxruntime.__version__,
        "providers": core.available_providers(),
        "threads": min(psutil.cpu_count(logical=False) or 1, usable),
    }
