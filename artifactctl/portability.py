"""What people must know of where a model runs, from what `inspect` or metadata.yaml says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_NAMES = 3
# by the channels of a block: x86 without AVX-512; x86 with it, and ARM
BLOCKS_OF_8, BLOCKS_OF_16 = ("avx2",), ("avx512f", "neon")
ANY_ISA = BLOCKS_OF_8 + BLOCKS_OF_16
TIED, OR = "cpu:", "-or-"


def tied_to(isas: Sequence[str]) -> str:
    return TIED + OR.join(isas)


def on_this_cpu(portability: str, machine: Mapping[str, str]) -> str:
    """Of a graph that was proved on this machine, so that its layout is that CPU's own."""
    if not portability.startswith(TIED):
        return portability
    possible, flags = portability.removeprefix(TIED).split(OR), machine["flags"].split()
    arm = machine["machine"].lower() in ("aarch64", "arm64")
    own = "neon" if arm else "avx512f" if "avx512f" in flags else "avx2" if flags else None
    return TIED + own if own in possible else portability


def portability_text(model: Mapping[str, Any]) -> str:
    """Older artifacts do not say which ONNX Runtime they need."""
    oldest = model.get("min_runtime")
    return f"{model['portability']}, ONNX Runtime {oldest} or later" if oldest else str(model["portability"])


def portability_warnings(model: Mapping[str, Any]) -> list[str]:
    found = []
    if model["portability"] == "this-device":
        found.append("it was compiled for one device and runs on no other")
    elif model["portability"].startswith(TIED):
        *others, last = model["portability"].removeprefix(TIED).split(OR)
        which = f"{', '.join(others)} or {last}, the file does not tell" if others else last
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
