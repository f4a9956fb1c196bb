"""actions/setup/install.py as a real program: what it refuses, what it keeps, what it installs."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT, clean_environment

PROVIDERS = """\
[cpu]
extra = "cpu"

[xnnpack]
extra = ""
"""
# a package without dependencies that is built without a network
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "artifactctl"
version = "1"
"""
BACKEND = """\
import zipfile
from pathlib import Path

INFO = "artifactctl-1.dist-info"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "artifactctl-1-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w") as wheel:
        wheel.writestr("artifactctl/__init__.py", "")
        wheel.writestr(f"{INFO}/METADATA", f"Metadata-Version: 2.1\\nName: artifactctl\\nVersion: 1\\n")
        wheel.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{INFO}/RECORD", "")
    return name
"""


@dataclass(frozen=True)
class Installed:
    code: int
    out: str
    err: str
    output: str
    path: str

    @property
    def python(self) -> Path:
        return Path(self.output.strip().removeprefix("python="))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout of the action with a package that installs at once."""
    place = tmp_path / "checkout"
    (place / "artifactctl").mkdir(parents=True)
    (place / "artifactctl" / "providers.toml").write_text(PROVIDERS)
    (place / "artifactctl" / "__init__.py").write_text("")
    (place / "pyproject.toml").write_text(PROJECT)
    (place / "backend.py").write_text(BACKEND)
    shutil.copytree(ROOT / "actions" / "setup", place / "actions" / "setup")
    return place


def install(tree: Path, kept: Path, cwd: Path | None = None, **inputs: str) -> Installed:
    kept.mkdir(exist_ok=True)
    files = {name: kept.parent / name for name in ("GITHUB_OUTPUT", "GITHUB_PATH")}
    for file in files.values():
        file.write_text("")
    done = subprocess.run(
        [sys.executable, tree / "actions" / "setup" / "install.py"],
        cwd=cwd or kept.parent,
        env=clean_environment(
            RUNNER_TEMP=str(kept),
            **{name: str(file) for name, file in files.items()},
            **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
        ),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    return Installed(done.returncode, done.stdout, done.stderr, *(file.read_text() for file in files.values()))


def environments(kept: Path) -> list[Path]:
    return sorted((kept / "artifactctl-environments").glob("*"))


def load(tree: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("install_under_test", tree / "actions" / "setup" / "install.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ({"provider": "abacus"}, "there is no provider 'abacus'; there are cpu, xnnpack"),
        ({"provider": "x\n::add-mask::y%"}, "there is no provider 'x\\n::add-mask::y%25'; there are cpu, xnnpack"),
        ({"provider": "xnnpack"}, "xnnpack needs an ONNX Runtime of your own: name its wheel or requirement"),
    ],
)
def test_refused_before_anything_is_made(tree: Path, tmp_path: Path, inputs: dict[str, str], why: str) -> None:
    done = install(tree, tmp_path / "kept", **inputs)
    assert done.code == 9
    assert done.out.startswith(f"::error title=artifactctl setup::{why}")
    assert len(done.out.splitlines()) == 1
    assert (done.err, done.output, environments(tmp_path / "kept")) == ("", "", [])


def test_what_pip_refuses_leaves_nothing(tree: Path, tmp_path: Path) -> None:
    """A runtime is one requirement, never an option of pip."""
    done = install(tree, tmp_path / "kept", provider="xnnpack", runtime="--version")
    assert done.code == 9
    assert done.out.splitlines()[-1] == "::error title=artifactctl setup::pip could not install artifactctl --version"
    assert (done.output, environments(tmp_path / "kept")) == ("", [])


def test_installed_once_and_found_again(tree: Path, tmp_path: Path) -> None:
    """Whatever lies in the working directory: a folder pip/ is not taken for pip, its packages not for ours."""
    around = tmp_path / "around"
    (around / "artifactctl-1.dist-info").mkdir(parents=True)
    (around / "artifactctl-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: artifactctl\nVersion: 1\n"
    )
    for name in ("pip", "venv", "tomllib"):
        (around / name).mkdir()
        (around / name / "__init__.py").write_text("raise SystemExit('shadowed')\n")
    kept = tmp_path / "kept"
    first = install(tree, kept, cwd=around, path="true")
    assert first.code == 0, first.out + first.err
    assert first.path == f"{first.python.parent}\n"
    site = json.loads(subprocess.run(
        [first.python, "-I", "-c", "import artifactctl, json; print(json.dumps(artifactctl.__file__))"],
        capture_output=True, text=True, check=True,
    ).stdout)  # fmt: skip
    assert Path(site).is_relative_to(first.python.parents[1])
    again = install(tree, kept)
    assert (again.code, again.python, again.path) == (0, first.python, "")
    shutil.rmtree(first.python.parents[1])  # cleaned by someone, and the pointer was left
    anew = install(tree, kept)
    assert anew.code == 0, anew.out + anew.err
    assert anew.python != first.python
    assert anew.python.exists()


def test_every_file_that_is_installed_counts(tree: Path) -> None:
    module = load(tree)
    wanted = module.requirements("cpu", "", "")
    seen = [module.key(wanted)]

    def changed() -> bool:
        seen.append(module.key(wanted))
        return seen[-1] not in seen[:-1]

    for part in module.PARTS:
        place = tree / part
        file = place if place.suffix or part == "LICENSE" else place / "more" / "file.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + "# more\n")
        assert changed(), part
    (tree / "artifactctl" / "__init__.py").rename(tree / "artifactctl" / "other.py")
    assert changed()
    for ignored in (tree / "artifactctl" / "__pycache__" / "x.pyc", tree / "docs" / "x.md", tree / "tests" / "x.py"):
        ignored.parent.mkdir(exist_ok=True)
        ignored.write_text("x")
        assert not changed(), ignored


def test_what_is_asked_for_counts_and_where_it_lies_does_not(tree: Path, tmp_path: Path) -> None:
    module = load(tree)
    asked = [("", "", ""), ("cpu", "", ""), ("", "build", ""), ("", "build,sign", ""), ("xnnpack", "", "wheel==1")]
    keys = [module.key(module.requirements(*words)) for words in asked]
    assert len(set(keys)) == len(asked)
    other = load(Path(shutil.copytree(tree, tmp_path / "elsewhere")))
    assert [other.key(other.requirements(*words)) for words in asked] == keys


def test_the_requirements(tree: Path) -> None:
    module = load(tree)
    top = str(tree)
    assert module.requirements("", "", "") == [top]
    assert module.requirements("cpu", "", "") == [f"{top}[cpu]"]
    assert module.requirements("cpu", "build, cpu sign", "") == [f"{top}[build,cpu,sign]"]
    assert module.requirements("cpu", "", "onnxruntime-x==1") == [top, "onnxruntime-x==1"]
    assert module.requirements("xnnpack", "", "x.whl") == [top, "x.whl"]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The base package of this checkout, without extras: what the gate and every cell begin with."""
    done = install(ROOT, tmp_path_factory.mktemp("setup") / "kept")
    assert done.code == 0, done.out + done.err
    return done


def test_neither_torch_nor_olive(real: Installed) -> None:
    code = "from importlib.metadata import distributions as d; print(*(each.metadata['Name'].lower() for each in d()))"
    names = subprocess.run([real.python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"artifactctl", "click", "onnx", "numpy"} <= set(names)
    assert not {name for name in names if name.startswith(("torch", "olive", "onnxruntime", "transformers"))}


def test_its_steps_run_in_a_repository_with_names_of_ours(real: Installed, tmp_path: Path) -> None:
    (tmp_path / "artifactctl").mkdir()
    for name in ("artifactctl/__init__.py", "onnx.py", "click.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('shadowed')\n")
    done = subprocess.run(
        [real.python, "-P", "-m", "artifactctl.ci", "gate"],
        cwd=tmp_path,
        env=clean_environment(INPUT_MATRIX='{"include": []}'),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "there are no cells to judge" in done.stderr
