"""What people must know of where a model runs, from what `inspect` or metadata.yaml says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_NAMES = 3
ISAS = {8: "avx2", 16: "avx512f"}  # by the channels of a block: x86 without AVX-512, and with it
EITHER_ISA = "avx2-or-avx512f"  # where the file does not tell
TIED = "cpu:"


def on_this_cpu(portability: str, flags: str) -> str:
    """Of a graph that was proved on the CPU with these flags, so that its layout is that CPU's own."""
    if portability != TIED + EITHER_ISA or not flags:
        return portability
    return TIED + ISAS[16 if ISAS[16] in flags.split() else 8]


def portability_text(model: Mapping[str, Any]) -> str:
    """Older artifacts do not say which ONNX Runtime they need."""
    oldest = model.get("min_runtime")
    return f"{model['portability']}, ONNX Runtime {oldest} or later" if oldest else str(model["portability"])


def portability_warnings(model: Mapping[str, Any]) -> list[str]:
    found = []
    if model["portability"] == "this-device":
        found.append("it was compiled for one device and runs on no other")
    elif model["portability"].startswith(TIED):
        isa = model["portability"].removeprefix(TIED)
        which = "avx2 or avx512f, the file does not tell" if isa == EITHER_ISA else isa
        found.append(f"its graph is laid out for one kind of CPU ({which}), and gives wrong answers on others")
    if layers := [entry["layer"] for entry in model.get("saturation", ())]:
        names = ", ".join(layers[:MOST_NAMES]) + (
            f" and {len(layers) - MOST_NAMES} more" if layers[MOST_NAMES:] else ""
        )
        found.append(
            "on x86 processors without VNNI, sums of uint8 activations and int8 weights may overflow 16 bits in "
            f"{names}; prove it there with 'artifactctl verify', or quantize with reduce_range"
        )
    return found
