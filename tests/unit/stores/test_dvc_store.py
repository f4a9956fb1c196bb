"""release.store: dvc, with the real DVC and a folder as its remote. A call takes about a second: few, long tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from artifactctl import folder, stores
from artifactctl.errors import ReleaseError, SourceError
from artifactctl.stores import dvc_store
from tests.unit.stores.place import Place, content, kept_aside

pytestmark = pytest.mark.xdist_group("dvc")


def messages(place: Place, artifact: Path, *, push: bool = False) -> list[str]:
    return [problem.message for problem in dvc_store.preflight(place.root, artifact, push=push)]


def test_a_missing_program_is_named(place: Place, tmp_path: Path) -> None:
    artifact = place.artifact()
    found = dvc_store.preflight(place.root, artifact, push=True)
    assert [problem.message for problem in found] == [
        "DVC is not set up in this repository",
        "release.store is dvc, and DVC is not installed",
    ]
    assert found[0].hint.startswith("dvc init")
    assert found[1].hint == "pip install 'artifactctl[dvc]', or: pipx install dvc"
    for action in (
        lambda: dvc_store.track(place.root, artifact),
        lambda: dvc_store.push(place.root, artifact, "origin"),
    ):
        with pytest.raises(ReleaseError, match="dvc is not installed") as caught:
            action()
        assert "pipx install dvc" in caught.value.hint

    # a version that DVC has, where there is no DVC
    shutil.rmtree(artifact)
    text = (
        "outs:\n- md5: 0123456789abcdef0123456789abcdef.dir\n  size: 1\n  nfiles: 1\n  hash: md5\n  path: artifact_v1\n"
    )
    dvc_store.dvc_file(artifact).write_text(text)
    place.git("add", ".")
    place.git("commit", "-q", "-m", "x")
    place.git("tag", "m/artifact_v1")
    with pytest.raises(SourceError, match=r"byte \.dvc file: a pointer file is not the model.*not installed") as none:
        stores.fetch_tagged(artifact.parent, "m", 1, tmp_path / "t")
    assert "pipx install dvc" in none.value.hint
    assert stores.read_tagged(artifact.parent, "m", 1, "README.md") is None
    assert stores.holds("HEAD", place.artifact()) == "different"


def test_there_and_back(with_dvc: Place, tmp_path: Path) -> None:
    place = with_dvc
    artifact = place.artifact()
    before, states = content(artifact), dvc_store._states(artifact)
    assert messages(place, artifact) == ["DVC is not set up in this repository"]
    place.run("dvc", "init", "-q")
    place.run("dvc", "config", "cache.type", "symlink")  # would turn the artifact's files into links
    assert messages(place, artifact) == []
    [problem] = dvc_store.preflight(place.root, artifact, push=True)
    assert "no default remote" in problem.message
    assert problem.hint.startswith("dvc remote add --default")
    place.run("dvc", "remote", "add", "-q", "--default", "store", tmp_path / "remote")
    assert messages(place, artifact, push=True) == []
    place.git("add", ".dvc")
    place.publish()

    paths = [artifact.parent / "artifact_v1.dvc", artifact.parent / ".gitignore"]
    assert dvc_store.belongings(artifact) == paths
    commit = place.release(dvc_store, artifact)
    assert place.git("status", "--porcelain") == ""
    assert dvc_store.track(place.root, artifact) == paths
    assert place.git("status", "--porcelain") == ""
    assert (content(artifact), dvc_store._states(artifact)) == (before, states)
    assert folder.damage(artifact) == []
    assert stores.holds(commit, artifact) == "equal"
    assert stores.holds(commit, place.artifact(2)) == "absent"
    shutil.rmtree(artifact.parent / "artifact_v2")
    for _ in range(2):
        dvc_store.push(place.root, artifact, "origin")
    (artifact / "README.md").write_bytes(b"changed")
    assert stores.holds(commit, artifact) == "different"

    clone = place.clone()
    home = clone.root / "artifacts" / "m"
    assert folder.versions(home) == []
    assert folder.next_free(home) == 2  # its number is taken
    assert str(folder.elsewhere(home / "artifact_v1")).endswith("artifacts/m/artifact_v1.dvc")
    clone.git("rm", "-q", "artifacts/m/artifact_v1.dvc")  # the tag has it all the same
    found = stores.fetch_tagged(home, "m", 1, tmp_path / "t")
    assert found is not None
    assert content(found) == before
    assert folder.damage(found) == []
    assert stores.fetch_tagged(home, "m", 1, tmp_path / "t") == found  # without asking again

    shutil.rmtree(tmp_path / "remote")
    late = place.clone("late")
    with pytest.raises(SourceError, match=r"a pointer file is not the model, and DVC cannot fetch it") as caught:
        stores.fetch_tagged(late.root / "artifacts" / "m", "m", 1, tmp_path / "late-t")
    assert caught.value.hint.endswith("artifacts/m/artifact_v1 --rev m/artifact_v1")
    assert not list((tmp_path / "late-t").rglob("*.onnx"))


def test_killed_and_run_again(with_dvc: Place, tmp_path: Path) -> None:
    """Every state that `dvc add` leaves when it is killed is mended by running it again."""
    place = with_dvc
    place.run("dvc", "init", "-q", "--subdir")  # a DVC project that is a part of a repository works as well
    artifact = place.artifact()
    dvc_store.track(place.root, artifact)
    expected = dvc_store.dvc_file(artifact).read_bytes()
    shutil.rmtree(place.root / ".dvc" / "cache")  # described, but not kept
    dvc_store.track(place.root, artifact)
    assert (place.root / ".dvc" / "cache" / "files").is_dir()
    dvc_store.dvc_file(artifact).unlink()  # kept and ignored, but not described
    dvc_store.track(place.root, artifact)
    assert dvc_store.dvc_file(artifact).read_bytes() == expected
    assert (artifact.parent / ".gitignore").read_text() == "/artifact_v1\n"
    place.release(dvc_store, artifact)
    original = kept_aside(artifact)
    found = stores.fetch_tagged(artifact.parent, "m", 1, tmp_path / "t")  # from the cache: nothing was pushed
    assert found is not None
    assert content(found) == original


def test_a_file_that_dvc_leaves_out_stops_the_release(with_dvc: Place) -> None:
    place = with_dvc
    place.run("dvc", "init", "-q")
    (place.root / ".dvcignore").write_text("*.npz\n")
    with pytest.raises(ReleaseError, match=r"artifact_v1\.dvc does not have every file") as caught:
        dvc_store.track(place.root, place.artifact())
    assert ".dvcignore" in caught.value.hint
    (place.root / ".gitignore").write_text("artifacts/\n")
    assert any("is ignored by git" in message for message in messages(place, place.artifact()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "outs: []",
        "outs: [{md5: a, hash: sha}]",
        "outs: [{md5: a}]",
        "outs: [{hash: md5}]",
        "{",
        "\0",
        "outs: 1",
    ],
)
def test_a_file_that_says_something_else_proves_nothing(text: str) -> None:
    assert dvc_store.recorded_digest(text.encode()) is None
