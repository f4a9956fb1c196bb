"""How the command line speaks: options in any place, environment, JSON, GitHub."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from artifactctl import schema
from tests.conftest import MODELS, Finished

Cli = Callable[..., Finished]


@pytest.mark.parametrize(
    "arguments",
    [("--json", "inspect", "mlp.onnx"), ("inspect", "--json", "mlp.onnx"), ("inspect", "mlp.onnx", "--json")],
)
def test_json_in_any_place(cli: Cli, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    done = cli(*arguments)
    assert schema.problems(done.json, "report") == []
    assert done.json["command"] == "inspect"
    assert done.json["data"]["parameters"] == 8 * 16 + 16 + 16 * 4 + 4


@pytest.mark.parametrize("name", ["ARTIFACTCTL_JSON", "ARTIFACTCTL_INSPECT_JSON"])
def test_options_from_the_environment(cli: Cli, tmp_path: Path, name: str) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    assert cli("inspect", "mlp.onnx", env={name: "1"}).json["ok"] is True


def test_directory_and_relative_paths(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    shutil.copy(MODELS / "mlp.onnx", tmp_path / "sub")
    assert cli("-C", "sub", "inspect", "mlp.onnx").code == 0
    assert cli("inspect", "mlp.onnx", "-C", "sub").code == 0
    missing = cli("-C", "nowhere", "doctor", "--json")
    assert missing.code == 2
    assert "nowhere" in missing.json["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "mention"),
    [
        (("bild",), "perhaps you meant 'build'"),
        (("build", "--recipes", "fp32"), "--recipe"),
        (("build", "--recipe", "int8-partal"), "perhaps you meant 'int8-partial'"),
        (("build", "--recipe", "wonder"), "'wonder' is not a recipe; choose from auto, fp32"),
        (("verify",), "ARTIFACT"),
        (("schema", "metadatas"), "metadata"),
        (("verify", "x", "--samples", "0"), "--samples"),
    ],
)
def test_usage_errors_are_json_too(cli: Cli, arguments: tuple[str, ...], mention: str) -> None:
    done = cli(*arguments, "--json")
    assert done.code == done.json["exit_code"] == 2
    assert mention in done.json["error"]["message"]
    assert "--help" in done.json["error"]["hint"]


def test_schema_prints_itself(cli: Cli) -> None:
    assert json.loads(cli("schema", "config").out)["title"] == "artifactctl.yaml"
    assert cli("schema", "config", "--json").json["data"]["title"] == "artifactctl.yaml"


def test_doctor_names_what_is_here(cli: Cli) -> None:
    done = cli("doctor", "--json")
    assert schema.problems(done.json, "report") == []
    here = {entry["name"]: entry for entry in done.json["data"]["providers"]}
    assert here["cpu"]["available"] is True
    assert here["cuda"]["install"] == "pip uninstall -y onnxruntime && pip install 'artifactctl[gpu]'"
    assert done.json["data"]["missing"] == []


def test_doctor_names_the_stores(cli: Cli, dvc_path: Path, lfs_path: Path | None, tmp_path: Path) -> None:
    """One that is not configured may be missing; the one that is may not."""
    git, python = (str(Path(shutil.which(program) or program).parent) for program in ("git", sys.executable))
    here = {"PATH": os.pathsep.join([str(dvc_path), *([str(lfs_path)] if lfs_path else []), git, python])}
    done = cli("doctor", "--json", env=here)
    found = {entry["name"]: entry for entry in done.json["data"]["stores"]}
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["DVC"]["version"])
    assert (found["git-lfs"]["version"] is None) == (lfs_path is None)
    assert done.json["data"]["missing"] == []

    alone = tmp_path / "programs"
    alone.mkdir()
    (alone / "git").symlink_to(shutil.which("git") or "")
    none = {"PATH": str(alone)}
    done = cli("doctor", "--json", env=none)
    assert (done.code, done.json["data"]["missing"]) == (0, [])
    assert schema.problems(done.json, "report") == []
    assert [entry["version"] for entry in done.json["data"]["stores"]] == [None, None]
    assert "pipx install dvc" in done.err
    for store, name, install in (("lfs", "git-lfs", "apt install git-lfs"), ("dvc", "DVC", "pip install")):
        (tmp_path / "artifactctl.yaml").write_text(
            f"schema_version: 1\nmodels:\n  mlp:\n    source: {{onnx: mlp.onnx}}\nrelease: {{store: {store}}}\n"
        )
        done = cli("doctor", "--json", env=none)
        (missing,) = done.json["data"]["missing"]
        assert (done.code, missing["what"]) == (0, name)
        assert install in missing["install"]
        assert f"missing: {name}, needed to release with release.store: {store}" in done.err


def test_init_writes_a_configuration_that_is_valid_and_never_overwrites(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    shutil.copy(MODELS / "mlp.onnx", tmp_path / "models" / "my net (2).onnx")
    first = cli("init", "--workflow", "--pre-commit", "--json")
    assert {entry["status"] for entry in first.json["data"]["files"]} == {"written"}
    assert len(first.json["data"]["files"]) == 3
    assert cli("check").code == 0
    (tmp_path / "artifactctl.yaml").write_text("mine")
    again = cli("init", "--json")
    assert again.json["data"]["files"] == [{"path": "artifactctl.yaml", "status": "kept"}]
    assert (tmp_path / "artifactctl.yaml").read_text() == "mine"


def test_github_gets_an_annotation_and_a_summary(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    assert cli("inspect", "mlp.onnx", env=env).code == 0
    assert "### artifactctl inspect" in (tmp_path / "summary.md").read_text()
    failed = cli("inspect", "none.onnx", "--json", env=env)
    assert "::error title=artifactctl SourceError::none.onnx does not exist" in failed.err
    assert failed.json["exit_code"] == 4


def test_nothing_but_the_result_on_stdout(cli: Cli, artifact: Path) -> None:
    quiet = cli("verify", artifact, "-q")
    assert (quiet.out, quiet.err) == ("", "")
    loud = cli("verify", artifact)
    assert "whole, equivalent" in loud.out
    assert "\x1b[" not in loud.out + loud.err


def test_verify_takes_as_many_samples_as_it_is_told(cli: Cli, artifact: Path) -> None:
    few = cli("verify", artifact, "--samples", "2", "--json").json["data"]["samples"]
    fresh = cli("verify", artifact, "--samples", "7", "--reference", MODELS / "mlp.onnx", "--json").json["data"]
    whole = cli("verify", artifact, "--json").json["data"]["samples"]
    assert few == 2 < whole < fresh["samples"]
    assert [output["name"] for output in fresh["outputs"]] == ["y", "y (fresh)"]


def test_inputs_are_explained(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(MODELS / "tokens.onnx", tmp_path)
    done = cli("inspect", "tokens.onnx", "--inputs")
    assert "index into 'table' with 20 rows" in done.out
    [spec] = cli("inspect", "tokens.onnx", "--inputs", "--json").json["data"]["plan"]["inputs"]
    assert (spec["fill"], spec["range"]) == ("range", [0, 19])


@pytest.mark.parametrize(
    ("inputs", "mention"),
    [
        ("{idz: {range: [0, 3]}}", "'idz'"),
        ("{ids: {dtype: int32}}", "declared as int32"),
        ("{ids: {range: [3, 0]}}", "the lowest value is above the highest"),
        ("{ids: {range: [0, 3], values: [1]}}", "not both"),
    ],
)
def test_declared_inputs_that_do_not_fit(cli: Cli, tmp_path: Path, inputs: str, mention: str) -> None:
    shutil.copy(MODELS / "tokens.onnx", tmp_path)
    text = "schema_version: 1\nmodels:\n  tokens:\n    source:\n      onnx: tokens.onnx\n      inputs: "
    (tmp_path / "artifactctl.yaml").write_text(text + inputs + "\n")
    done = cli("build", "--json")
    assert done.code == 3
    assert mention in done.json["error"]["message"]
