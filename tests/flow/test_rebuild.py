"""A version again from its inputs: identical, equivalent for a reason, or not what its inputs give."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from artifactctl import bom, card, config, environment, folder, metadata, schema
from artifactctl.crew import Crew
from artifactctl.project import Project
from artifactctl.steps.rebuild import UNEXPLAINED, Comparison, rebuild
from tests.conftest import EXAMPLE, MODELS, Finished, clean_environment, run_cli
from tests.flow.refusal import contents, fails

pytestmark = pytest.mark.xdist_group("built")

Cli = Callable[..., Finished]
Edit = Callable[[Path, dict[str, Any]], None]


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """Loads Olive once for all."""
    with Crew() as made:
        yield made


def again(path: Path, crew: Crew, project: Project | None = None) -> Comparison:
    before = contents(path.parent)
    found = rebuild(path, metadata.read(path), project, crew, lambda _: None)
    assert contents(path.parent) == before
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the source in it."""
    made = tmp_path / "project"
    made.mkdir()
    shutil.copy(MODELS / "mlp.onnx", made)
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def artifact(built: Path, place: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(built, place / "artifacts" / "mlp" / built.name))


def forge(path: Path, edit: Edit) -> None:
    """As somebody would who knows the format: whatever follows from the files and the metadata is written anew."""
    data, before = metadata.read(path), folder.digest(path / folder.MODEL)
    edit(path, data)
    for file in (path / "evidence").glob("*.json"):
        file.write_text(file.read_text().replace(before, folder.digest(path / folder.MODEL)))
    for name, render in ((folder.VALIDATE, metadata.render_validate), ("README.md", card.render)):
        (path / name).write_text(render(data), encoding="utf-8")
    for _ in range(2):  # the bill names digests, and has one
        for entry in data["files"]:
            file = path / entry["path"]
            entry |= {"sha256": folder.digest(file), "size_bytes": file.stat().st_size}
        (path / folder.BOM).write_text(bom.render(data), encoding="utf-8")
    (path / folder.METADATA).write_text(metadata.dump(data), encoding="utf-8")
    (path / folder.SUMS).unlink()
    folder.write_sums(path)


def another_model(path: Path, data: dict[str, Any]) -> None:
    model = onnx.load(path / folder.MODEL)
    weights = model.graph.initializer[0]
    weights.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weights) * 1.5, weights.name))
    onnx.save(model, path / folder.MODEL)


def other_bytes(path: Path, data: dict[str, Any]) -> None:
    model = onnx.load(path / folder.MODEL)
    model.producer_version = "another"
    onnx.save(model, path / folder.MODEL)


def other_packages(path: Path, data: dict[str, Any]) -> None:
    data["environment"]["packages"] |= {"olive-ai": "0.1.0"}


def test_the_same_bytes_from_another_directory(cli: Cli, tmp_path: Path) -> None:
    """Built with a recipe of the command line, which is found again; nothing is left, and nothing is changed."""
    place, elsewhere, temporary = tmp_path / "project", tmp_path / "else where", tmp_path / "temporary"
    for made in (place, elsewhere, temporary):
        made.mkdir()
    shutil.copy(MODELS / "cnn.onnx", place)
    assert cli("build", "cnn.onnx", "--recipe", "fp16", "--recipe", "fp32", "-q", cwd=place).code == 0
    path, before = place / "artifacts" / "cnn" / "artifact_v1", contents(place)
    done = cli("rebuild", "--check", "--exact", path, "--json", cwd=elsewhere, env={"TMPDIR": str(temporary)})
    assert done.code == 0, done.err
    data = done.json["data"]
    assert data["verdict"] == "identical"
    assert data["recipe"] == metadata.read(path)["recipe"]["name"]
    assert {entry["path"]: entry["status"] for entry in data["files"]} == {
        name: "measured" if "latency" in name else "equal" for name in folder.listing(path) if name != folder.SUMS
    }
    assert (data["graph"], data["metadata"], data["environment"], data["reasons"]) == (None, [], [], [])
    assert [entry["passed"] for entry in data["outputs"]] == [True]
    assert contents(place) == before
    assert not list(elsewhere.iterdir())
    assert not list(temporary.iterdir())


def test_a_torch_model_with_its_configuration(tmp_path: Path, crew: Crew) -> None:
    place = shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("artifacts", "__pycache__"))
    assert run_cli("build", "-q", cwd=place).code == 0
    found = again(place / "artifacts/simple_cnn/artifact_v1", crew, config.load(place / "artifactctl.yaml"))
    assert (found.verdict, found.reasons) == ("identical", [])


def test_a_model_that_was_replaced_is_found(artifact: Path, crew: Crew) -> None:
    """Everything about it is consistent; only its inputs tell."""
    forge(artifact, another_model)
    assert run_cli("check", artifact, cwd=artifact.parent).code == 0
    found = again(artifact, crew)
    assert found.verdict == "different"
    assert {entry["path"]: entry["status"] for entry in found.files}["model_opt.onnx"] == "differs"
    assert found.graph is not None
    assert (found.graph["same"], found.graph["operators"]) == (False, [])
    assert found.graph["weights"]["recorded"] == found.graph["weights"]["rebuilt"] == 1
    assert not found.outputs["the recorded model against the rebuilt one"].passed
    assert "the recorded model against the rebuilt one: output 'y'" in found.reasons[0]


def test_other_bytes_are_equivalent_where_other_packages_explain_them(cli: Cli, artifact: Path, place: Path) -> None:
    forge(artifact, other_bytes)
    forge(artifact, other_packages)
    before = contents(artifact)
    done = cli("rebuild", "--check", artifact, "--json", cwd=place)
    assert done.code == 0, done.err
    assert schema.problems(done.json, "report") == []
    assert done.json["data"]["verdict"] == "equivalent"
    assert "warning   not to the byte: evidence/equivalence.json differs; model_opt.onnx differs" in done.err
    assert "only names, order or encoding differ" in done.err
    here = environment.package_versions()["olive-ai"]
    assert done.json["data"]["environment"] == [{"package": "olive-ai", "recorded": "0.1.0", "here": here}]
    error = fails(cli, place, 11, "rebuild", "--check", "--exact", artifact, names=("model_opt.onnx",))
    assert "olive-ai 0.1.0" in error["hint"]
    assert contents(artifact) == before


def set_bound(path: Path, data: dict[str, Any]) -> None:
    data["equivalence"]["bounds"]["default"]["max_abs"] = 10.0


def set_accuracy(path: Path, data: dict[str, Any]) -> None:
    data["accuracy_drop"] = -0.5


def add_file(path: Path, data: dict[str, Any]) -> None:
    (path / "setup.sh").write_text("echo hello\n")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (other_bytes, UNEXPLAINED),
        (set_bound, "metadata.yaml claims another equivalence.bounds.default.max_abs"),
        (set_accuracy, UNEXPLAINED),
        (add_file, "setup.sh is not made by a build"),
    ],
    ids=["bytes", "bound", "accuracy", "file"],
)
def test_what_nothing_explains_is_different(artifact: Path, crew: Crew, edit: Edit, reason: str) -> None:
    forge(artifact, edit)
    found = again(artifact, crew)
    assert found.verdict == "different"
    assert reason in found.reasons


def test_a_validate_script_of_somebody_else(artifact: Path, crew: Crew) -> None:
    """Packages may explain other numbers, never other code of the same artifactctl."""
    forge(artifact, other_packages)
    with (artifact / folder.VALIDATE).open("a") as file:
        file.write("print('fine')\n")
    data = metadata.read(artifact)
    for entry in data["files"]:
        entry["sha256"] = folder.digest(artifact / entry["path"])
    (artifact / folder.METADATA).write_text(metadata.dump(data), encoding="utf-8")
    (artifact / folder.SUMS).unlink()
    folder.write_sums(artifact)
    found = again(artifact, crew)
    assert found.verdict == "different"
    assert "validate.py is not the one that artifactctl" in found.reasons[0]


def test_a_changed_source_is_named_with_both_digests(cli: Cli, artifact: Path, place: Path) -> None:
    old = folder.digest(place / "mlp.onnx")
    shutil.copy(MODELS / "tokens.onnx", place / "mlp.onnx")
    names = ("mlp.onnx has changed", old, folder.digest(place / "mlp.onnx"))
    error = fails(cli, place, 4, "rebuild", "--check", artifact, names=names)
    assert "git log -- mlp.onnx" in error["hint"]
    (place / "mlp.onnx").unlink()
    fails(cli, place, 4, "rebuild", "--check", artifact, names=("mlp.onnx", old, "is not here"))


def test_the_tag_is_named_where_there_is_one(cli: Cli, artifact: Path, place: Path) -> None:
    who = {f"GIT_{role}_{key}": "tester" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    env = clean_environment(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1", **who)
    for line in ("init -q", "add .", "commit -q -m first", "tag -a -m first mlp/artifact_v1"):
        subprocess.run(["git", *line.split()], cwd=place, env=env, check=True, capture_output=True)
    (place / "mlp.onnx").unlink()
    done = cli("rebuild", "--check", artifact, "--json", cwd=place)
    assert (done.code, done.json["error"]["hint"]) == (4, "git checkout mlp/artifact_v1")


def test_a_changed_configuration(cli: Cli, artifact: Path, place: Path) -> None:
    """Of the working directory, or beside the artifacts/ where the version lies."""
    text = "schema_version: 1\nmodels:\n  mlp:\n    source: {onnx: mlp.onnx}\n    equivalence: {max_abs: 1.0e-4}\n"
    forge(artifact, lambda _, data: data["source"].update(config_sha256="0" * 64))
    (place / "artifactctl.yaml").write_text(text)
    names = ("mlp artifact_v1", "the configuration has changed")
    error = fails(cli, place, 4, "rebuild", "--check", "artifacts/mlp/artifact_v1", names=names)
    assert "git log -- artifactctl.yaml" in error["hint"]
    (place / "below").mkdir()
    fails(cli, place / "below", 4, "rebuild", "--check", "../artifacts/mlp/artifact_v1", names=names)


def test_a_damaged_artifact_is_refused_before_anything(cli: Cli, artifact: Path, place: Path) -> None:
    content = bytearray((artifact / folder.MODEL).read_bytes())
    content[len(content) // 2] ^= 1
    (artifact / folder.MODEL).write_bytes(content)
    (place / "mlp.onnx").unlink()
    fails(cli, place, 10, "rebuild", "--check", artifact, names=("model_opt.onnx was changed",))


def test_a_version_is_never_changed(cli: Cli, artifact: Path, place: Path) -> None:
    error = fails(
        cli, place, 2, "rebuild", "artifacts/mlp/artifact_v1", names=("never changed", "--check artifacts/mlp")
    )
    assert "rebuild --help" in error["hint"]
