"""release.store: lfs, with the real git-lfs where the machine has it or can unpack it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from artifactctl import folder, stores
from artifactctl.errors import ReleaseError, SourceError
from artifactctl.pointers import pointer_in
from artifactctl.stores import git_store, lfs_store
from tests.unit.stores.place import Place, content, kept_aside

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 10240\n" % (b"0" * 64)


def test_a_missing_program_is_named(place: Place) -> None:
    [problem] = lfs_store.preflight(place.root, place.artifact())
    assert problem.message == "release.store is lfs, and git-lfs is not installed"
    assert "apt install git-lfs" in problem.hint


def test_a_pointer_without_the_program_is_not_the_model(place: Place, tmp_path: Path) -> None:
    artifact = place.artifact(model_opt=POINTER)
    place.release(git_store, artifact)
    with pytest.raises(SourceError) as caught:
        stores.fetch_tagged(artifact.parent, "m", 1, tmp_path / "t")
    assert "model_opt.onnx of m/artifact_v1 is a 130-byte pointer file of git-lfs" in str(caught.value)
    assert "a pointer file is not the model" in str(caught.value)
    assert "git-lfs is not installed" in str(caught.value)
    assert caught.value.hint.endswith("then: git lfs fetch origin m/artifact_v1")
    assert not list((tmp_path / "t").rglob("*.onnx"))  # nothing half-made
    messages = [problem.message for problem in lfs_store.preflight(place.root, artifact)]
    assert messages[-1] == "artifact_v1/model_opt.onnx is a 130-byte pointer file of git-lfs, not its contents"
    with pytest.raises(ReleaseError, match="could not push"):
        lfs_store.track(place.root, artifact)
        lfs_store.push(place.root, artifact, "origin")


def test_there_and_back(with_lfs: Place, lfs_path: Path | None, tmp_path: Path) -> None:
    place = with_lfs
    artifact = place.artifact()
    before = content(artifact)
    [problem] = lfs_store.preflight(place.root, artifact)
    if lfs_path is None:
        assert "git-lfs is not installed" in problem.message
        return
    assert problem.hint == "git lfs install --local"
    place.git("lfs", "install", "--local")
    assert lfs_store.preflight(place.root, artifact) == []
    place.publish()
    commit = place.release(lfs_store, artifact)
    assert stores.holds(commit, artifact) == "equal"
    assert content(artifact) == before
    assert folder.damage(artifact) == []
    assert place.git("show", f"{commit}:artifacts/m/artifact_v1/model_opt.onnx").startswith("version https://git-lfs")
    assert place.git("show", f"{commit}:artifacts/m/artifact_v1/README.md") == "Grüße"
    for _ in range(2):  # killed before the tag was pushed, and run again
        lfs_store.push(place.root, artifact, "origin")
        place.git("add", "--", *lfs_store.track(place.root, artifact))
        assert place.git("status", "--porcelain") == ""
    assert len([path for path in (tmp_path / "bare.git/lfs/objects").rglob("*") if path.is_file()]) == 2

    clone = place.clone()
    home = clone.root / "artifacts" / "m"
    assert pointer_in(home / "artifact_v1" / "model_opt.onnx")  # git-lfs is not set up in this clone
    assert "git lfs pull" in str(folder.elsewhere(home / "artifact_v1"))
    assert "golden.npz is a 128-byte pointer file of git-lfs, not its contents" in folder.damage(home / "artifact_v1")
    assert stores.holds(commit, home / "artifact_v1") == "different"
    found = stores.fetch_tagged(home, "m", 1, tmp_path / "t")
    assert found is not None
    assert content(found) == before

    # the remote lost them, and this clone never had them
    shutil.rmtree(tmp_path / "bare.git" / "lfs")
    late = place.clone("late")
    with pytest.raises(SourceError, match="a pointer file is not the model, and git-lfs cannot fetch it") as caught:
        stores.fetch_tagged(late.root / "artifacts" / "m", "m", 1, tmp_path / "late-t")
    assert caught.value.hint == "git lfs fetch origin m/artifact_v1"
    assert stores.read_tagged(late.root / "artifacts" / "m", "m", 1, "model_opt.onnx") is None
    assert stores.read_tagged(late.root / "artifacts" / "m", "m", 1, "validate.py") == before["validate.py"]


def test_a_version_keeps_its_store(with_lfs: Place, lfs_path: Path | None, tmp_path: Path) -> None:
    """git first, git-lfs later: a fresh clone is clean, and each version comes back."""
    place = with_lfs
    place.publish()
    first = place.artifact()
    place.release(git_store, first)
    second = place.artifact(2, model_opt=b"another" * 99)
    if lfs_path is None:
        assert lfs_store.preflight(place.root, second)
        return
    place.git("lfs", "install", "--local")
    commit = place.release(lfs_store, second)
    lfs_store.push(place.root, second, "origin")
    assert [stores.holds(commit, path) for path in (first, second)] == ["equal", "equal"]
    place.git("config", "--global", "filter.lfs.smudge", "git-lfs smudge -- %f")
    place.git("config", "--global", "filter.lfs.clean", "git-lfs clean -- %f")
    clone = place.clone()
    clone.git("add", "--renormalize", ".")
    assert clone.git("status", "--porcelain") == ""
    for path in (first, second):
        place.git("rm", "-r", "-q", "--cached", path)
        expected = kept_aside(path)
        found = stores.fetch_tagged(path.parent, "m", int(path.name[-1]), tmp_path / "t")
        assert found is not None
        assert content(found) == expected
