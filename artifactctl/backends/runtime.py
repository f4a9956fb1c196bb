"""What this environment's ONNX Runtime is and has."""

from __future__ import annotations

from typing import Any

import onnxruntime
import psutil


def describe_runtime() -> dict[str, Any]:
    return {
        "version": onnxruntime.__version__,
        "providers": onnxruntime.get_available_providers(),
        "threads": psutil.cpu_count(logical=False) or 1,
    }
