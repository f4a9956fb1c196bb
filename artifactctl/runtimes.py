"""The ONNX Runtime packages of this environment. All but the plugins bring the same files: a second one overwrites the
first, and what then runs is neither."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from artifactctl.errors import NotAvailable
from artifactctl.providers import PROVIDERS, Provider

MODULE = "onnxruntime/__init__.py"


@dataclass(frozen=True, slots=True)
class Installed:
    """`whole` packages bring ONNX Runtime itself; `plugins` lie beside it."""

    whole: tuple[str, ...]
    plugins: tuple[str, ...]

    @property
    def collide(self) -> bool:
        return len(self.whole) > 1


def installed(places: Iterable[str] | None = None) -> Installed:
    """Found by what they brought, not by their names: anyone may build an ONNX Runtime under another one."""
    from importlib.metadata import Distribution

    whole, plugins = set[str](), set[str]()
    for place in sys.path if places is None else places:
        for path in Path(place or ".").glob("onnxruntime*.dist-info"):
            found = Distribution.at(path)
            name = (found.name or path.name.partition("-")[0]).lower().replace("_", "-")
            files = [file.as_posix() for file in found.files or ()]
            brings = MODULE in files if files else name not in _plugin_names()
            (whole if brings else plugins).add(name)
    return Installed(tuple(sorted(whole)), tuple(sorted(plugins)))


def _plugin_names() -> set[str]:
    return {name for row in PROVIDERS.values() for name in row.packages[1:]}


def install_line(row: Provider, found: Installed) -> str:
    """What to type; a package that would be overwritten, or has been, goes first."""
    if row.extra and (found.collide or set(found.whole) - set(row.packages)):
        return f"pip uninstall -y {' '.join(found.whole)} && {row.install}"
    return row.install


def why_unavailable(row: Provider, available: Collection[str], found: Installed) -> tuple[str, str] | None:
    """Why a provider cannot be used here and what to type about it; None where it can. `available`: ONNX Runtime's."""
    if problem := why_unsound(row, found):
        return problem
    if row.execution_provider in available:
        return None
    here = {*found.whole, *found.plugins}
    if row.packages and set(row.packages) <= here:
        message = f"{' and '.join(row.packages)} is installed, but finds no device for {row.name}"
        return message, f"Check the device and its driver; {row.name} is for: {row.remark}."
    lacking = [name for name in row.packages if name not in here]
    needs = f": {' and '.join(lacking)} is not installed" if lacking else ""
    return f"provider {row.name} is not available here{needs}", install_line(row, found)


def why_unsound(row: Provider, found: Installed) -> tuple[str, str] | None:
    """What can be said before ONNX Runtime is loaded: this is not the machine, or packages overwrote one another."""
    if reason := row.why_not_here():
        others = [name for name, other in PROVIDERS.items() if other.execution_provider == row.execution_provider]
        fitting = [name for name in others if PROVIDERS[name].why_not_here() is None]
        instead = f", or here: --provider {fitting[0]}" if fitting else ""
        return reason, f"Run it on such a machine ('artifactctl matrix' names a runner){instead}."
    if found.collide:
        names = " and ".join(found.whole)
        return f"{names} are both installed and overwrite one another", install_line(row, found)
    return None


def demand_sound(provider: str) -> None:
    if problem := why_unsound(PROVIDERS[provider], installed()):
        raise NotAvailable(problem[0], hint=problem[1])


def demand_available(provider: str, available: Collection[str]) -> None:
    found = installed()
    if problem := why_unavailable(PROVIDERS[provider], available, found):
        rows = PROVIDERS.values()
        names = [row.name for row in rows if row.execution_provider in available and row.why_not_here() is None]
        raise NotAvailable(f"{problem[0]} (this machine has {', '.join(names)})", hint=problem[1])
