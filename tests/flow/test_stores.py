"""A version that only its tag has, in each store, is found as the baseline; pointers are never taken for models."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from artifactctl import folder, metadata, stores
from artifactctl.steps.sides import Side, default_baseline, recorded
from tests.conftest import Finished

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 1234567\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dvc_path: Path, lfs_path: Path | None) -> Path:
    """An empty repository, with DVC and, where it can be had, git-lfs on PATH."""
    found = [str(path) for path in (dvc_path, lfs_path) if path]
    monkeypatch.setenv("PATH", os.pathsep.join([*found, os.environ["PATH"]]))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Tester")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "tester@example.com")
    root = tmp_path / "project"
    root.mkdir()
    run(root, "git", "init", "-q")
    return root


def run(cwd: Path, *words: str | Path) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.xdist_group("dvc")
@pytest.mark.parametrize("name", stores.STORES)
def test_the_default_baseline_is_a_tag_of_any_store(
    name: str, project: Path, built: Path, tmp_path: Path, lfs_path: Path | None
) -> None:
    store = stores.store_of(name)
    home = project / "artifacts" / "mlp"
    artifact = Path(shutil.copytree(built, home / "artifact_v1"))
    if name == "lfs" and lfs_path is None:
        assert "git-lfs is not installed" in store.preflight(project, artifact)[0].message
        return
    if name != "git":
        run(project, *{"lfs": ("git", "lfs", "install", "--local"), "dvc": ("dvc", "init", "-q")}[name])
    assert store.preflight(project, artifact) == []
    run(project, "git", "add", "--", *store.track(project, artifact))
    run(project, "git", "commit", "-q", "-m", "one")
    run(project, "git", "tag", "-a", "-m", "one", "mlp/artifact_v1")
    data = metadata.read(artifact)
    if name == "lfs":  # a clone without git-lfs has the folder, with pointers in it
        shutil.copy(artifact / folder.MODEL, tmp_path)
        (artifact / folder.MODEL).write_text(POINTER)
    else:
        shutil.rmtree(artifact)
    newer = Side("newer", home / "artifact_v2" / folder.MODEL, data | {"version": 2})
    found = default_baseline(newer, tmp_path / "scratch")
    assert (found.label, found.metadata) == ("mlp/artifact_v1 (tag)", data)
    assert found.sha256 == folder.digest(built / folder.SUMS)
    # history asks no remote: a version that DVC alone has is not in it
    assert [entry["version"] for entry in recorded(home, "mlp", 2, tmp_path)] == ([] if name == "dvc" else [1])


def test_a_pointer_is_never_taken_for_a_model(cli: Callable[..., Finished], artifact: Path, tmp_path: Path) -> None:
    (artifact / folder.MODEL).write_text(POINTER)
    done = cli("verify", artifact, "--json")
    assert done.code == 10
    assert "model_opt.onnx is a 132-byte pointer file of git-lfs, not its contents" in done.json["error"]["message"]
    assert done.json["error"]["hint"] == "Fetch the contents: git lfs pull"
    (tmp_path / "m.onnx").write_text(POINTER)
    for command in ("inspect", "build"):
        done = cli(command, "m.onnx", "--json")
        assert done.code == 4
        assert "m.onnx is a 132-byte pointer file of git-lfs, not the" in done.json["error"]["message"]
        assert done.json["error"]["hint"] == "Fetch the contents: git lfs pull"
    shutil.rmtree(artifact)
    artifact.with_name("artifact_v1.dvc").write_text("outs: []\n")
    done = cli("verify", artifact, "--json")
    assert done.code == 10
    assert done.json["error"]["hint"] == "Fetch it: dvc pull mlp/artifact_v1.dvc"


@pytest.mark.xdist_group("dvc")
@pytest.mark.parametrize("name", ["lfs", "dvc"])
def test_a_release_with_its_bytes_elsewhere(
    name: str, project: Path, built: Path, tmp_path: Path, lfs_path: Path | None, cli: Callable[..., Finished]
) -> None:
    """release --push, twice; then a stranger's clone brings the version back from its tag and finds it whole."""
    if name == "lfs" and lfs_path is None:
        assert "git-lfs is not installed" in stores.store_of("lfs").preflight(project, built)[0].message
        return
    run(tmp_path, "git", "init", "-q", "--bare", "remote.git")
    run(project, "git", "remote", "add", "origin", str(tmp_path / "remote.git"))
    model = "models: {mlp: {source: {onnx: mlp.onnx}}}"
    (project / "artifactctl.yaml").write_text(f"schema_version: 1\nrelease: {{store: {name}}}\n{model}\n")
    shutil.copy(built.parents[2] / "mlp.onnx", project)
    if name == "lfs":
        run(project, "git", "lfs", "install", "--local")
    else:
        run(project, "dvc", "init", "-q")
        run(project, "dvc", "remote", "add", "-q", "-d", "store", str(tmp_path / "bytes"))
    run(project, "git", "add", ".")
    run(project, "git", "commit", "-q", "-m", "project")
    shutil.copytree(built, project / "artifacts" / "mlp" / "artifact_v1")
    done = cli("release", "mlp", "--push", "--json", cwd=project)
    assert done.code == 0, done.err
    again = cli("release", "mlp", "--push", "--json", cwd=project)
    assert (again.code, again.json["data"]["status"]) == (0, "unchanged"), again.err
    clone = tmp_path / "clone"
    plain = ("-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false")
    run(tmp_path, "git", *plain, "clone", "-q", "remote.git", "clone")
    if name == "lfs":
        run(clone, "git", "lfs", "install", "--local")
    shutil.rmtree(clone / "artifacts", ignore_errors=True)
    same = cli("diff", "mlp@v1", "mlp@v1", "--json", cwd=clone)
    assert same.code == 0, same.err
    assert same.json["data"]["same"] is True
