"""python -P -m artifactctl.ci as a program: what it leaves for GitHub, and what hostile names cannot do."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from artifactctl import cells, folder
from tests.flow.step import run


def test_an_unknown_step(tmp_path: Path) -> None:
    done = run("publish", tmp_path / "x")
    assert done.code == 2
    assert "plan|build|verify|gate|release" in done.err


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    done = run("gate", tmp_path / "x", directory="sub/nowhere")
    assert done.code == 9
    assert "nowhere" in done.err
    assert done.page.startswith("## ❌ artifactctl gate: NotAvailable")
    assert len(done.obeyed()) == 1
    assert "nowhere" in done.obeyed()[0]


@pytest.mark.parametrize("step", ["verify", "gate", "release"])
def test_inputs_that_are_missing(tmp_path: Path, step: str) -> None:
    done = run(step, tmp_path / "x")
    assert done.code == 3
    assert "Traceback" not in done.err
    assert done.page.startswith(f"## ❌ artifactctl {step}: ConfigError")


EVIL = "x\n::set-env name=PATH::/evil\n  ::add-mask::a\n##[set-output name=verdict]equivalent\n$(touch x) `touch y`"


@pytest.mark.parametrize("name", ["artifact", "provider", "samples"])
def test_no_input_is_obeyed(tmp_path: Path, name: str) -> None:
    place = tmp_path / "x"
    inputs = {"artifact": "artifacts/mlp/artifact_v1", "provider": "cpu", "samples": "1"} | {name: EVIL}
    done = run("verify", place, **inputs)
    assert done.code in (2, 10)
    obeyed = done.obeyed()
    assert len(obeyed) == 1
    assert obeyed[0].startswith("::error title=artifactctl ")
    assert "set-env" not in done.outputs.replace(EVIL, "")
    assert list(place.iterdir()) == []
    assert "<" not in re.sub(r"`[^`\n]*`", "", done.page)


@pytest.fixture
def hostile(artifact: Path, tmp_path: Path) -> Path:
    """A repository that has names of ours, each of which stops the program that imports it."""
    place = tmp_path / "repository"
    for name in ("artifactctl", "artifactctl/ci", "tests"):
        (place / name).mkdir(parents=True)
        (place / name / "__init__.py").write_text("raise SystemExit('shadowed')\n")
    for name in ("onnx", "onnxruntime", "numpy", "yaml", "click", "json", "sitecustomize", "artifactctl/ci/__main__"):
        (place / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    shutil.copytree(artifact, place / "artifacts" / "mlp" / artifact.name)
    return place


def test_a_repository_with_names_of_ours(hostile: Path) -> None:
    """In the program itself and in the workers that it starts."""
    artifact = next((hostile / "artifacts" / "mlp").iterdir())
    done = run("verify", hostile, artifact=str(artifact.relative_to(hostile)), provider="cpu", samples="2")
    assert done.code == 0, done.err
    assert "shadowed" not in done.err
    cell = json.loads(cells.path_of(artifact, "cpu").read_text())
    assert (cell["verdict"], cell["artifact_sha256"]) == ("equivalent", folder.digest(artifact / folder.SUMS))
    assert done.page.startswith("## ✅ `mlp artifact_v1` on `cpu`: equivalent\n")
    assert f"artifacts{os.sep}mlp{os.sep}artifact_v1.cells" in done.outputs
    assert done.obeyed() == []


def test_old_evidence_does_not_speak_for_a_failed_run(artifact: Path, tmp_path: Path) -> None:
    old = cells.path_of(artifact, "cpu")
    old.parent.mkdir()
    old.write_text("{}")
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text("{}")
    with (artifact / folder.MODEL).open("ab") as file:
        file.write(b"damage")
    done = run("verify", tmp_path / "x", artifact=artifact, provider="cpu")
    assert done.code == 10
    assert not old.exists()
    assert "artifactctl verify artifacts/mlp/artifact_v1 --provider cpu" in done.page
    assert "cpu.json" not in done.outputs
    run("verify", tmp_path / "x", artifact=artifact, provider="../../elsewhere")
    assert elsewhere.exists()
