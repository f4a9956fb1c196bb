from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from artifactctl import schema
from tests.conftest import Finished

CONFIG = """\
schema_version: 1
models:
  mlp: {source: {onnx: mlp.onnx}, providers: [cpu, openvino]}
  cnn: {source: {onnx: cnn.onnx}, providers: {qnn: {max_abs: 0.1}, cuda: {}}}
"""
Cli = Callable[..., Finished]


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    (tmp_path / "artifactctl.yaml").write_text(CONFIG)
    return tmp_path


def test_the_document_and_the_bare_object(cli: Cli, configured: Path) -> None:
    done = cli("matrix", "--gpu-runner", "gpu-4", "--json")
    assert done.code == 0
    assert schema.problems(done.json, "report") == []
    include = done.json["data"]["include"]
    assert [cell["name"] for cell in include] == ["mlp · cpu", "mlp · openvino", "cnn · qnn", "cnn · cuda"]
    assert include[-1]["runs_on"] == ["gpu-4"]
    bare = cli("matrix", "--gpu-runner", "gpu-4", "--format", "github")
    assert bare.out.count("\n") == 1
    assert json.loads(bare.out) == {"include": include}
    assert cli("matrix", "--gpu-runner", "gpu-4", "--format", "json").json == done.json


def test_people_see_a_table(cli: Cli, configured: Path) -> None:
    done = cli("matrix", "cnn", "--provider", "qnn")
    head, _, *rows = done.out.splitlines()
    assert head.split() == ["model", "provider", "runs", "on", "extra", "device"]
    assert [row.split() for row in rows] == [["cnn", "qnn", "ubuntu-24.04", "qnn", "emulated"]]


def test_options_from_the_environment(cli: Cli, configured: Path) -> None:
    done = cli("matrix", "--json", env={"ARTIFACTCTL_GPU_RUNNER": "a,b", "ARTIFACTCTL_MATRIX_PROVIDER": "cuda cpu"})
    assert [cell["name"] for cell in done.json["data"]["include"]] == ["mlp · cpu", "cnn · cuda"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ([], "GitHub has no runner of its own for cuda", "--gpu-runner LABEL"),
        (["cnm"], "no model is named 'cnm', perhaps you meant 'cnn'", "mlp, cnn"),
        (["--provider", "opnvino"], "no provider is named 'opnvino', perhaps you meant 'openvino'", "cpu-arm64"),
        (["mlp", "--provider", "qnn"], "no cell is left", "providers: [cpu, qnn]"),
        (["--runner", "cuda"], "'cuda' names no runner", "--runner cuda=LABEL"),
        (["--runner", "cdua=x"], "no provider is named 'cdua', perhaps you meant 'cuda'", "cpu-arm64"),
    ],
)
def test_what_cannot_be_planned(cli: Cli, configured: Path, arguments: list[str], message: str, hint: str) -> None:
    done = cli("matrix", *arguments, "--format", "github")
    assert (done.code, done.out) == (3, "")
    assert f"ConfigError: {message}" in done.err
    assert hint in done.err


def test_without_a_configuration(cli: Cli) -> None:
    done = cli("matrix", "--json")
    assert (done.code, done.json["error"]["name"]) == (3, "ConfigError")
    assert "artifactctl init" in done.json["error"]["hint"]


def test_more_cells_than_github_takes(cli: Cli, tmp_path: Path) -> None:
    names = "".join(f"  m{number}: {{source: {{onnx: m.onnx}}, providers: [cpu, qnn]}}\n" for number in range(129))
    (tmp_path / "artifactctl.yaml").write_text(f"schema_version: 1\nmodels:\n{names}")
    done = cli("matrix")
    assert done.code == 3
    assert "258 cells are more than the 256 that GitHub takes" in done.err
    assert len(cli("matrix", "--provider", "qnn", "--json").json["data"]["include"]) == 129


def test_a_hostile_name_is_data(cli: Cli, configured: Path) -> None:
    hostile = 'self-hosted"; touch evil; echo "$(touch evil)\n::error::x'
    done = cli("matrix", "mlp", "--runner", f"cpu={hostile}", "--format", "github")
    assert done.out.count("\n") == 1
    assert json.loads(done.out)["include"][0]["runs_on"] == [hostile]
    assert not (configured / "evil").exists()
