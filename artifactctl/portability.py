"""What people must know of where a model runs, from what `inspect` or metadata.yaml says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_NAMES = 3


def portability_text(model: Mapping[str, Any]) -> str:
    """Older artifacts do not say which ONNX Runtime they need."""
    oldest = model.get("min_runtime")
    return f"{model['portability']}, ONNX Runtime {oldest} or later" if oldest else str(model["portability"])


def portability_warnings(model: Mapping[str, Any]) -> list[str]:
    found = []
    if model["portability"] == "this-device":
        found.append("it was compiled for one device and runs on no other")
    elif model["portability"].startswith("cpu:"):
        found.append(f"its graph is laid out for one kind of CPU ({model['portability'][4:]})")
    if layers := [entry["layer"] for entry in model.get("saturation", ())]:
        names = ", ".join(layers[:MOST_NAMES]) + (
            f" and {len(layers) - MOST_NAMES} more" if layers[MOST_NAMES:] else ""
        )
        found.append(
            "on x86 processors without VNNI, sums of uint8 activations and int8 weights may overflow 16 bits in "
            f"{names}; prove it there with 'artifactctl verify', or quantize with reduce_range"
        )
    return found
