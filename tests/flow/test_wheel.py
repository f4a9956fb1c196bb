"""What is shipped: the wheel holds schemas and templates, and works without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, clean_environment


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return next(place.glob("*.whl"))


def test_contents(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("schemas", "templates"):
        for path in (ROOT / folder).iterdir():
            assert f"artifactctl/_data/{folder}/{path.name}" in names
    assert {"artifactctl/providers.toml", "artifactctl/releases.toml"} <= set(names)
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"artifactctl"}
    assert not [name for name in names if "tests" in name or name.endswith(".onnx")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["schema", "metadata"], '"metadata.yaml of an artifact"'), (["verify", "--help"], "cpu-arm64")],
    ids=["its schemas", "its provider table"],
)
def test_it_works_from_the_wheel_alone(wheel: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from artifactctl.cli import main; import artifactctl; "
    code += "assert 'site' in artifactctl.__file__, artifactctl.__file__; main()"
    command = [sys.executable, "-P", "-c", code, os.fspath(tmp_path / "site"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
