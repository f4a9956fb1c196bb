"""The machine and the packages that made an artifact: versions and hardware, never a name, a path or a clock."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from artifactctl import __version__
from artifactctl.errors import ConfigError

PACKAGES = (
    "numpy", "onnx", "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-ep-openvino",
    "onnxruntime-directml", "onnxruntime-qnn", "onnxruntime-webgpu", "olive-ai", "onnxoptimizer", "onnxscript", "torch",
    "safetensors",
)  # fmt: skip


def package_versions(names: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    from importlib import metadata

    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name).split("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return found


def describe() -> dict[str, Any]:
    described: dict[str, Any] = {
        "artifactctl": __version__,
        "python": platform.python_version(),
        "system": platform.system().lower(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "packages": package_versions(),
    }
    if date := source_date():
        described["date"] = date.isoformat()
    return described


def source_date() -> datetime | None:
    """SOURCE_DATE_EPOCH, the one time that may stand in what we write; None where it is not set."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return None
    try:
        return datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        hint = "It is a whole number of seconds, as 'date +%s' prints; or unset it."
        raise ConfigError(f"SOURCE_DATE_EPOCH is {epoch!r}, which is not a time", hint=hint) from None


def _cpu_model() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or None
