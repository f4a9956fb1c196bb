"""Everything but its inputs that a recipe's result depends on: our code, the packages that take part, the machine."""

from __future__ import annotations

import functools
import hashlib
import platform
import re
from pathlib import Path
from typing import Any

from artifactctl import __version__, environment, resources

# What recipes call by itself; whatever these need comes along.
ROOTS = (*environment.PACKAGES, "onnxslim", "onnxsim", "protobuf", "transformers", "neural-compressor", "ml-dtypes")
OWN_CODE = ("recipes.py", "steps/optimize.py", "steps/ingredients.py", "backends/**/*.py")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@functools.cache
def describe() -> dict[str, Any]:
    here = environment.describe()
    machine = {key: here[key] for key in ("python", "system", "machine", "cpu", "cores")}
    # constants are folded by the kernels of this CPU, so another one may give other last bits
    return {"artifactctl": __version__, "code": _own_code(), **machine, "isa": _isa(), "packages": packages()}


def packages() -> dict[str, str]:
    """Versions of the roots and of everything that they need, as far as it is installed."""
    from importlib import metadata

    found: dict[str, str] = {}
    waiting = list(ROOTS)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found[name] = distribution.version
        for requirement in distribution.requires or ():
            if "extra ==" not in requirement and (match := _NAME.match(requirement)):
                waiting.append(match[0])
    return found


def _isa() -> str | None:
    """A virtual machine's CPU may have one name and many sets of instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return hashlib.sha256(found.encode()).hexdigest()


def _own_code() -> str:
    """A checkout changes without a new version."""
    digest = hashlib.sha256(platform.python_implementation().encode())
    for path in own_files():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def own_files() -> list[Path]:
    """The template makes the inputs that some recipes calibrate with."""
    here = Path(__file__).parent
    return [resources.template_path("validate.py"), *sorted(path for each in OWN_CODE for path in here.glob(each))]
