"""Installs artifactctl from its own checkout into a private environment; standard library only.

What is asked for comes through the environment: INPUT_PROVIDER (a row of the provider table), INPUT_EXTRAS (such as
`build`), INPUT_RUNTIME (a wheel or requirement, for providers that bring their own ONNX Runtime), INPUT_PATH (true puts
it on the path of the steps after this one).

An environment is kept under ARTIFACTCTL_ENVIRONMENTS where that is set (a self-hosted runner then installs once), else
under RUNNER_TEMP, and is found again by a digest of everything that it is made from.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import uuid
import venv
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    "artifactctl",
    "schemas",
    "templates",
    "pyproject.toml",
    "hatch_build.py",
    "constraints.txt",
    "README.md",
    "LICENSE",
)


def main() -> None:
    provider, extras, runtime = (
        os.environ.get(f"INPUT_{name}", "").strip() for name in ("PROVIDER", "EXTRAS", "RUNTIME")
    )
    wanted = requirements(provider, extras, runtime)
    kept = Path(
        os.environ.get("ARTIFACTCTL_ENVIRONMENTS") or Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir())
    )
    pointer = kept / "artifactctl-environments" / key(wanted)
    place = found(pointer) or install(pointer, wanted)
    hand_over(place)


def requirements(provider: str, extras: str, runtime: str) -> list[str]:
    """What pip is asked for; a provider that brings its own ONNX Runtime must be given one."""
    names = [name for name in extras.replace(",", " ").split() if name]
    if provider:
        rows = tomllib.loads((ROOT / "artifactctl" / "providers.toml").read_text(encoding="utf-8"))
        if provider not in rows:
            fail(f"there is no provider {provider!r}; there are {', '.join(rows)}")
        extra = rows[provider].get("extra", "")
        if not extra and not runtime:
            fail(f"{provider} needs an ONNX Runtime of your own: name its wheel or requirement in the input 'runtime'")
        names += [extra] if extra and not runtime else []
    chosen = f"[{','.join(dict.fromkeys(names))}]" if names else ""
    return [f"{ROOT}{chosen}", *([runtime] if runtime else [])]


def key(wanted: list[str]) -> str:
    """Of the Python, of what is asked for and of every file that is installed."""
    said = [sys.version, *(item.replace(str(ROOT), "") for item in wanted)]
    files = [path for part in PARTS for path in (ROOT / part, *sorted((ROOT / part).rglob("*"))) if path.is_file()]
    for path in files:
        if "__pycache__" not in path.parts:
            said.append(f"{path.relative_to(ROOT).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:24]


def found(pointer: Path) -> Path | None:
    try:
        place = Path(pointer.read_text(encoding="utf-8"))
    except OSError:
        return None
    return place if python_of(place).exists() else None


def install(pointer: Path, wanted: list[str]) -> Path:
    """Into a place of its own; the pointer is written last, so that a killed run leaves nothing that is believed."""
    place = pointer.with_name(f"{pointer.name}-{uuid.uuid4().hex[:8]}")
    place.parent.mkdir(parents=True, exist_ok=True)
    venv.create(place, with_pip=True, symlinks=os.name != "nt")  # as `python -m venv` does
    constraints = ROOT / "constraints.txt"
    # -I: neither a folder pip/ here nor packages on PYTHONPATH are taken for ours
    words = [str(python_of(place)), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    words += ["-c", str(constraints)] if constraints.exists() else []
    if subprocess.run([*words, "--", *wanted], check=False).returncode:
        shutil.rmtree(place, ignore_errors=True)
        fail(f"pip could not install {' '.join(item.replace(str(ROOT), 'artifactctl') for item in wanted)}")
    part = pointer.with_name(f"{place.name}.pointer")
    part.write_text(str(place), encoding="utf-8")
    part.replace(pointer)
    return place


def python_of(place: Path) -> Path:
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def hand_over(place: Path) -> None:
    """Its Python is an output; with INPUT_PATH the steps after this one also find its programs."""
    python = python_of(place)
    sys.stdout.write(f"artifactctl is installed in {place}\n")
    files = {"GITHUB_OUTPUT": f"python={python}\n"}
    if os.environ.get("INPUT_PATH") == "true":
        files["GITHUB_PATH"] = f"{python.parent}\n"
    for variable, line in files.items():
        if file := os.environ.get(variable):
            with Path(file).open("a", encoding="utf-8") as stream:
                stream.write(line)


def fail(why: str) -> NoReturn:
    """9: a provider or a package is missing here."""
    line = why.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    sys.stdout.write(f"::error title=artifactctl setup::{line}\n")
    sys.exit(9)


if __name__ == "__main__":
    main()
