"""The providers by the names users write, read from providers.toml: what installs each, where it runs, on what.

Two names may share one execution provider (cpu and cpu-arm64, qnn and qnn-device): the machine tells them apart.
"""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CPU = "CPUExecutionProvider"
SYSTEMS = {"linux": "Linux", "windows": "Windows", "macos": "macOS"}
_SYSTEM_NAMES = {"darwin": "macos"}
_MACHINE_NAMES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    execution_provider: str
    extra: str  # "": bring your own wheel
    packages: tuple[str, ...] = ()
    runs_on: tuple[str, ...] = ()
    system: str = ""
    machine: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    emulated: bool = False
    device: str = "cpu"  # in Olive's words
    remark: str = ""

    @property
    def install(self) -> str:
        if self.extra:
            return f"pip install 'artifactctl[{self.extra}]'"
        return f"install an ONNX Runtime that was built with {self.execution_provider}"

    def why_not_on(self, system: str, machine: str) -> str | None:
        """Why a machine is not the one that this name stands for; None where it is."""
        if self.system not in ("", system):
            return f"{self.name} stands for {SYSTEMS[self.system]}, and this is {SYSTEMS.get(system, system)}"
        if self.machine not in ("", machine):
            return f"{self.name} stands for {self.machine} processors, and this one is {machine}"
        return None

    def why_not_here(self) -> str | None:
        return self.why_not_on(*this_machine())


def this_machine() -> tuple[str, str]:
    """The system and the processor, in the table's words."""
    system, machine = platform.system().lower(), platform.machine().lower()
    return _SYSTEM_NAMES.get(system, system), _MACHINE_NAMES.get(machine, machine)


def read_table(text: str) -> dict[str, Provider]:
    rows: dict[str, dict[str, Any]] = tomllib.loads(text)
    for row in rows.values():
        row |= {key: tuple(row[key]) for key in ("packages", "runs_on")}
    return {name: Provider(name, **row) for name, row in rows.items()}


PROVIDERS = read_table(Path(__file__).with_name("providers.toml").read_text(encoding="utf-8"))
