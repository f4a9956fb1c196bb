"""release.store: git, in real repositories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from artifactctl import folder, git, stores
from artifactctl.errors import ReleaseError, SourceError
from artifactctl.stores import git_store
from tests.unit.stores.place import Place, content


def test_there_and_back(place: Place, tmp_path: Path) -> None:
    artifact = place.artifact()
    assert git_store.preflight(place.root, artifact, push=True) == []
    place.publish()
    commit = place.release(git_store, artifact)
    git_store.push(place.root, artifact, "origin")
    clone = place.clone()
    home = clone.root / "artifacts" / "m"
    assert content(home / "artifact_v1") == content(artifact)
    for found in (
        stores.fetch_tagged(home, "m", 1, tmp_path / "one"),
        stores.fetch(clone.root, commit, "m", 1, tmp_path / "two"),
    ):
        assert found is not None
        assert content(found) == content(artifact)
        assert folder.damage(found) == []
    assert stores.fetch_tagged(home, "m", 2, tmp_path) is None
    assert stores.read_tagged(home, "m", 1, "README.md") == "Grüße\n".encode()
    assert stores.read_tagged(home, "m", 1, "nothing") is None


def test_line_ends_survive_every_setting(place: Place) -> None:
    """Without our attributes git would rewrite the CRLF of a file, and its digest."""
    place.git("config", "core.autocrlf", "true")
    (place.root / ".gitattributes").write_text("* text=auto eol=crlf\n")
    place.git("add", ".gitattributes")
    place.publish()
    artifact = place.artifact()
    commit = place.release(git_store, artifact)
    assert stores.holds(commit, artifact) == "equal"
    clone = place.clone()
    assert folder.damage(clone.root / "artifacts/m/artifact_v1") == []
    assert clone.git("status", "--porcelain") == ""


def test_twice_is_once(place: Place) -> None:
    """Killed after any step and run again: the attributes have one line for a version, others stay."""
    artifact = place.artifact()
    attributes = artifact.parent / ".gitattributes"
    attributes.write_text("/notes.txt text")  # the user's own, without an end of line
    assert [git_store.track(place.root, artifact) for _ in range(3)] == [[artifact, attributes]] * 3
    assert git_store.belongings(artifact) == [artifact, attributes]
    assert attributes.read_text() == "/notes.txt text\n/artifact_v1/** -text\n"
    place.release(git_store, artifact)
    assert place.git("status", "--porcelain") == ""
    git_store.track(place.root, artifact)
    assert place.git("status", "--porcelain") == ""
    assert folder.damage(artifact) == []


def test_a_file_over_50_mb_is_refused_with_the_advice(place: Place) -> None:
    artifact = place.artifact()
    with (artifact / "model_opt.onnx.data").open("wb") as file:
        file.truncate(git_store.LARGEST_BYTES)
    assert git_store.preflight(place.root, artifact) == []
    with (artifact / "model_opt.onnx.data").open("wb") as file:
        file.truncate(git_store.LARGEST_BYTES + 1)
    [problem] = git_store.preflight(place.root, artifact)
    assert "model_opt.onnx.data (50.0 MB) is too large for git" in problem.message
    assert "artifact_v1 has 50.0 MB in all" in problem.message
    assert "release.store: lfs" in problem.hint
    assert "dvc" in problem.hint
    # whoever sends such files through git-lfs already has no problem
    (place.root / ".gitattributes").write_text("*.data filter=lfs\n")
    assert git_store.preflight(place.root, artifact) == []


def test_an_ignored_artifact_is_told_before(place: Place) -> None:
    (place.root / ".gitignore").write_text("/artifacts/\n")
    found = git_store.preflight(place.root, place.artifact())
    assert len(found) == 2
    assert all("is ignored by git" in problem.message for problem in found)
    assert "git check-ignore -v" in found[0].hint


def test_equal_absent_different(place: Place, tmp_path: Path) -> None:
    artifact = place.artifact()
    place.git("commit", "-q", "--allow-empty", "-m", "before")
    before = place.git("rev-parse", "HEAD")
    commit = place.release(git_store, artifact)
    assert stores.holds(before, artifact) == "absent"
    assert stores.holds(commit, artifact) == "equal"
    assert stores.holds("m/artifact_v1", artifact) == "equal"
    assert stores.holds(commit, place.artifact(2)) == "absent"
    with pytest.raises(ReleaseError, match="git failed"):
        stores.holds("0" * 40, artifact)
    aside = tmp_path / "aside"
    shutil.copytree(artifact, aside)

    def restore() -> None:
        shutil.rmtree(artifact)
        shutil.copytree(aside, artifact)

    for name in folder.listing(artifact):
        path = artifact / name
        changed = bytearray(path.read_bytes() or b"\0")
        changed[-1] ^= 1
        path.write_bytes(changed)
        assert stores.holds(commit, artifact) == "different", name
        path.unlink()
        assert stores.holds(commit, artifact) == "different", name
        path.symlink_to(aside / name)
        assert stores.holds(commit, artifact) == "different", name
        restore()
    (artifact / ".added").touch()
    assert stores.holds(commit, artifact) == "different"
    restore()
    assert stores.holds(commit, artifact) == "equal"


def test_an_artifact_that_was_moved_since_is_found(place: Place, tmp_path: Path) -> None:
    artifact = place.artifact()
    place.release(git_store, artifact)
    expected = content(artifact)
    place.git("mv", "artifacts", "models")
    place.git("commit", "-q", "-m", "moved")
    found = stores.fetch_tagged(place.root / "models" / "m", "m", 1, tmp_path / "t")
    assert found is not None
    assert content(found) == expected


def test_two_projects_in_one_repository_are_not_mixed(place: Place, tmp_path: Path) -> None:
    artifact = place.artifact()
    git_store.track(place.root, artifact)
    for name in ("a", "b"):
        shutil.copytree(place.root / "artifacts", place.root / name / "artifacts")
        (place.root / name / "artifacts/m/artifact_v1/README.md").write_text(name)
    shutil.rmtree(place.root / "artifacts")
    place.git("add", "a", "b")
    place.git("commit", "-q", "-m", "two")
    place.git("tag", "m/artifact_v1")
    for name in ("a", "b"):
        found = stores.fetch_tagged(place.root / name / "artifacts" / "m", "m", 1, tmp_path / name)
        assert found is not None
        assert (found / "README.md").read_text() == name
    with pytest.raises(SourceError, match="in 2 places: a/artifacts/m/artifact_v1, b/artifacts/m/artifact_v1"):
        stores.fetch_tagged(place.root, "m", 1, tmp_path / "c")


def test_outside_a_repository(tmp_path: Path) -> None:
    assert git.tagged_versions(tmp_path, "m") == []
    assert stores.fetch_tagged(tmp_path, "m", 1, tmp_path) is None
    with pytest.raises(ReleaseError, match="is not in a git repository"):
        git.toplevel(tmp_path)
    Place(tmp_path, tmp_path).git("init", "-q", "--bare", "b.git")
    with pytest.raises(ReleaseError, match="bare"):
        git.toplevel(tmp_path / "b.git")
