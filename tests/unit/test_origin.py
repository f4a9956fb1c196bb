"""The inputs of an artifact are found again by their digests, or what is wrong with them is named."""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl import __version__, folder
from artifactctl.errors import SourceError
from artifactctl.inputs import config_digest, declared_files
from artifactctl.origin import origin_of, own_project
from artifactctl.project import Bound, Equivalence, ModelConfig, Project, Source
from tests.conftest import MODELS

PLAIN = ModelConfig("mlp", Source("onnx", "mlp.onnx"))
TRIED = ("fp32", "fp16", "int8-dynamic", "source")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the source, and the path of an artifact below it."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    path = tmp_path / "artifacts" / "mlp" / "artifact_v2"
    path.mkdir(parents=True)
    return path


def record(
    config: ModelConfig, root: Path, tried: tuple[str, ...] = TRIED, made_by: str = __version__
) -> dict[str, Any]:
    files = [asdict(folder.file_digest(path, name)) for name, path in declared_files(config, root).items()]
    source = {"kind": "onnx", "target": config.source.target, "config_sha256": config_digest(config), "files": files}
    return {
        "model_name": "mlp",
        "version": 2,
        "source": source,
        "session": {"provider": config.providers[0]},
        "recipe": {"candidates": [{"recipe": name} for name in tried]},
        "environment": {"artifactctl": made_by},
    }


def test_a_file_alone_is_found_wherever_it_lies(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = record(PLAIN, tmp_path)
    assert origin_of(place, recorded, None) == (PLAIN, tmp_path)
    (tmp_path / "deep").mkdir()
    (tmp_path / "mlp.onnx").rename(tmp_path / "deep" / "mlp.onnx")
    monkeypatch.chdir(tmp_path)  # not above it: other tests have the same file there
    assert origin_of(place, recorded, None) == (PLAIN, tmp_path / "deep")


@pytest.mark.parametrize(
    ("changes", "tried"),
    [
        ({"recipes": ("fp16",)}, ("fp16", "source")),
        ({"recipes": ("int8-dynamic", "fp32")}, ("fp32", "int8-dynamic", "source")),
        ({"recipes": ("auto", "olive:q.json")}, ("fp32", "fp16", "int8-dynamic", "olive:q.json", "source")),
        ({"providers": ("cuda",)}, TRIED),
        ({"recipes": ("fp16",), "providers": ("openvino",)}, ("fp16", "source")),
    ],
)
def test_options_of_the_command_line_are_found_again(
    place: Path, tmp_path: Path, changes: dict[str, Any], tried: tuple[str, ...]
) -> None:
    (tmp_path / "q.json").write_text("{}")
    asked = replace(PLAIN, **changes)
    assert origin_of(place, record(asked, tmp_path, tried), None) == (asked, tmp_path)
    project = Project(tmp_path, {"mlp": PLAIN})
    assert origin_of(place, record(asked, tmp_path, tried), project) == (asked, tmp_path)


def test_a_configuration_goes_before_the_file_and_the_file_counts_where_it_differs(place: Path, tmp_path: Path) -> None:
    strict = replace(PLAIN, equivalence=Equivalence(Bound(1e-4)))
    project = Project(tmp_path, {"mlp": strict})
    assert origin_of(place, record(strict, tmp_path), project) == (strict, tmp_path)
    assert origin_of(place, record(PLAIN, tmp_path), project) == (PLAIN, tmp_path), "it was built from the file alone"


def test_a_changed_configuration(place: Path, tmp_path: Path) -> None:
    recorded = record(replace(PLAIN, equivalence=Equivalence(Bound(1e-4))), tmp_path)
    with pytest.raises(SourceError, match="mlp artifact_v2 cannot be rebuilt: the configuration has changed") as caught:
        origin_of(place, recorded, Project(tmp_path, {"mlp": PLAIN}))
    assert caught.value.hint.endswith("git log -- artifactctl.yaml")


def test_another_artifactctl_may_be_why(place: Path, tmp_path: Path) -> None:
    recorded = record(replace(PLAIN, equivalence=Equivalence(Bound(1e-4))), tmp_path, made_by="0.0.1")
    with pytest.raises(SourceError) as caught:
        origin_of(place, recorded, Project(tmp_path, {"mlp": PLAIN}))
    assert "pip install artifactctl==0.0.1" in caught.value.hint


def test_what_is_gone_is_named(place: Path, tmp_path: Path) -> None:
    recorded = record(PLAIN, tmp_path)
    (tmp_path / "mlp.onnx").unlink()
    digest = recorded["source"]["files"][0]["sha256"]
    with pytest.raises(SourceError, match=rf"mlp\.onnx is missing \(its sha256 was {digest}\)"):
        origin_of(place, recorded, Project(tmp_path, {"mlp": PLAIN}))
    with pytest.raises(SourceError, match=rf"mlp\.onnx \(sha256 {digest}\) is not here, nor is a configuration"):
        origin_of(place, recorded, None)


def test_a_torch_model_needs_its_configuration(place: Path, tmp_path: Path) -> None:
    recorded = record(PLAIN, tmp_path)
    recorded["source"] |= {"kind": "torch", "target": "package.net:build", "files": []}
    with pytest.raises(SourceError, match=r"package\.net:build is not here, nor is a configuration of that model"):
        origin_of(place, recorded, None)


def test_the_configuration_beside_the_artifacts(place: Path, tmp_path: Path) -> None:
    assert own_project(place) is None
    (tmp_path / "artifactctl.yaml").write_text("schema_version: 1\nmodels: {mlp: {source: {onnx: mlp.onnx}}}\n")
    found = own_project(place)
    assert found is not None
    assert (found.root, found.models["mlp"]) == (tmp_path, PLAIN)
    assert own_project(Path("/artifact_v1")) is None
