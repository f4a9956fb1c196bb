"""Build, gate and release as steps in real repositories, against a real server; and the same again after trouble."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from artifactctl import folder
from tests.conftest import MODELS, clean_environment
from tests.flow.step import Ran, run
from tests.hub import ReleasesServer

TAG = "mlp/artifact_v1"
MATRIX = json.dumps({"include": [{"model": "mlp", "provider": "cpu"}]})


def git(place: Path, *words: str) -> str:
    env = clean_environment(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull)
    identity = ("-c", "user.name=Tester", "-c", "user.email=tester@example.com")
    return subprocess.run(
        ["git", *identity, *words], cwd=place, env=env, capture_output=True, text=True, check=True
    ).stdout.strip()


def step(name: str, cwd: Path, *, env: dict[str, str] | None = None, **inputs: object) -> Ran:
    """On a runner where git knows nobody."""
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return run(name, cwd, nobody | (env or {}), **inputs)


def build(clone: Path) -> tuple[Ran, dict[str, Any]]:
    done = step("build", clone, models="mlp.onnx", output=clone.parent / "staged")
    assert done.code == 0, done.err
    return done, json.loads((clone.parent / "staged" / "build.json").read_text())["artifacts"][0]


def cell(digest: str, **changes: Any) -> dict[str, Any]:
    found = {"schema_version": 1, "model": "mlp", "version": 1, "artifact_sha256": digest, "provider": "cpu"}
    output = {"name": "y", "passed": True, "reason": None, "max_error": 1e-6}
    rest = {"verdict": "equivalent", "samples": 4, "placement": None, "outputs": [output], "machine": {}}
    return found | rest | changes


@pytest.fixture(scope="module")
def origin(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A remote with the model, a clone of it in which it was built, and what the build handed over."""
    place = tmp_path_factory.mktemp("origin")
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(place / "remote.git")], check=True)
    git(place, "clone", "-q", "remote.git", "clone")
    clone = place / "clone"
    git(clone, "checkout", "-q", "-b", "main")
    shutil.copy(MODELS / "mlp.onnx", clone)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "the model")
    git(clone, "push", "-q", "-u", "origin", "main")
    shutil.copytree(built, clone / "artifacts" / "mlp" / built.name)  # the same inputs: nothing is built again
    _, entry = build(clone)
    evidence = place / "evidence"
    for name, data in {
        "artifactctl-cell-mlp-cpu/cpu.json": cell(entry["digest"]),
        "artifactctl-cell-mlp-openvino/openvino.json": cell("b" * 64, provider="openvino"),
    }.items():
        (evidence / name).parent.mkdir(parents=True)
        (evidence / name).write_text(json.dumps(data))
    return place


@pytest.fixture
def place(origin: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil, with a fresh clone of the old commit."""
    for name in ("remote.git", "staged", "evidence"):
        shutil.copytree(origin / name, tmp_path / name)
    fresh(tmp_path)
    return tmp_path


def fresh(place: Path, at: str = "main") -> Path:
    """As a job checks out: a full clone with the tags."""
    shutil.rmtree(place / "clone", ignore_errors=True)
    git(place, "clone", "-q", "remote.git", "clone")
    git(place / "clone", "checkout", "-q", at)
    return place / "clone"


@pytest.fixture
def server() -> Iterator[ReleasesServer]:
    with ReleasesServer("owner/name") as server:
        yield server


def release(place: Path, server: ReleasesServer | None = None, env: dict[str, str] | None = None, **more: str) -> Ran:
    github = {"GITHUB_API_URL": server.api, "GITHUB_REPOSITORY": "owner/name"} if server else {}
    inputs = {"build": place / "staged", "evidence": place / "evidence", "token": "a-token"}
    return step(
        "release", place / "clone", env=github | (env or {}),
        **(inputs | {"github_release": "true" if server else "false"} | more),
    )  # fmt: skip


def refs(place: Path) -> str:
    return git(place / "remote.git", "for-each-ref", "--format=%(refname) %(objectname)")


def test_release_fails_in_the_middle_and_is_run_again(place: Path, server: ReleasesServer) -> None:
    """Then once more from the old commit, as a re-run does: nothing is built or released again."""
    old = git(place / "clone", "rev-parse", "HEAD")
    server.fail(4, "half")  # the second upload
    done = release(place, server)
    assert done.code == 12, done.err
    assert done.page.startswith("## ❌ artifactctl release: ReleaseError")
    assert all(each.draft for each in server.releases)
    pushed = refs(place)
    assert f"refs/tags/{TAG} " in pushed

    fresh(place, old)
    git(place / "clone", "switch", "-q", "-C", "main")
    again, entry = build(place / "clone")
    assert (entry["version"], entry["status"]) == (1, "unchanged")
    assert folder.digest(place / "clone" / entry["path"] / folder.SUMS) == entry["digest"]
    assert again.page.startswith("## ✅")
    done = release(place, server)
    assert done.code == 0, done.err
    assert refs(place) == pushed
    names = {file.name for file in (place / "clone" / "dist").glob("mlp-artifact_v1.*")}
    assert server.published(TAG).keys() == names
    assert "published" in done.page

    done = release(place, server)
    assert done.code == 0, done.err
    assert "published" not in done.page
    assert refs(place) == pushed
    held = git(place / "remote.git", "ls-tree", "-r", "--name-only", TAG).splitlines()
    assert "artifacts/mlp/artifact_v1.cells/cpu.json" in held
    assert not [name for name in held if "openvino" in name]  # its digest is of another artifact
    assert "github-actions[bot]" in git(place / "remote.git", "log", "-1", "--format=%an", TAG)
    assert "a-token" not in "".join((done.out, done.err, done.page, done.outputs))


def test_on_its_own_tag_only_that_version_is_published(place: Path, server: ReleasesServer) -> None:
    assert release(place).code == 0
    before = refs(place)
    on_tag = {"GITHUB_REF_TYPE": "tag", "GITHUB_REF_NAME": TAG, "GITHUB_RUN_ID": "7"}
    fresh(place, TAG)
    assert release(place, server, env=on_tag).code == 0
    assert refs(place) == before
    git(place / "clone", "checkout", "-q", "--detach", TAG)  # the same run again, on a machine that kept its folder
    again = release(place, server, env=on_tag)
    assert again.code == 0, again.err
    other = release(place, server, env=on_tag | {"GITHUB_REF_NAME": "mlp/artifact_v2"})
    assert other.code == 12
    assert "made no such version" in other.err


def unreleased(place: Path, done: Ran, code: int) -> str:
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    assert "refs/tags" not in refs(place)
    assert len(done.obeyed()) == 1
    return done.err


def test_evidence_that_would_be_written_elsewhere(place: Path) -> None:
    evil = place / "evidence" / "evil.json"
    digest = json.loads((place / "staged" / "build.json").read_text())["artifacts"][0]["digest"]
    evil.write_text(json.dumps(cell(digest, provider="../../../evil")))
    assert "evil.json cannot be read as evidence" in unreleased(place, release(place), 10)
    assert not list(place.rglob("evil.json.json"))
    assert not (place / "clone" / "evil.json").exists()
    evil.write_text("{")
    unreleased(place, release(place), 10)


def test_a_model_that_was_not_built(place: Path) -> None:
    """Releasing nothing is no success."""
    assert "no artifact of cnn" in unreleased(place, release(place, models="mlp cnn"), 3)


def test_a_build_that_failed_or_is_not_there(place: Path) -> None:
    build_json = place / "staged" / "build.json"
    data = json.loads(build_json.read_text())
    error = {"name": "SourceError", "message": "m", "hint": "h", "line": "l", "exit_code": 4}
    build_json.write_text(json.dumps(data | {"error": error}))
    unreleased(place, release(place), 12)
    build_json.write_text(json.dumps({"artifacts": [], "error": None}))
    unreleased(place, release(place), 3)
    build_json.unlink()
    unreleased(place, release(place), 12)


def gate(place: Path, **changes: str) -> Ran:
    inputs = {"matrix": MATRIX, "build": str(place / "staged"), "evidence": str(place / "evidence")}
    return step("gate", place / "clone", **(inputs | changes))


def test_the_gate(place: Path) -> None:
    foreign = gate(place)
    assert foreign.code == 8  # the evidence of openvino was not planned
    shutil.rmtree(place / "evidence" / "artifactctl-cell-mlp-openvino")
    good = gate(place)
    assert good.code == 0, good.err
    assert good.page.startswith("## ✅ artifactctl: every cell is proved")
    assert good.obeyed() == []
    (place / "evidence" / "more.json").write_text("{")
    damaged = gate(place)
    assert damaged.code == 10
    assert "ArtifactDamaged" in damaged.obeyed()[0]
    missing = gate(place, evidence=str(place / "nowhere"))
    assert missing.code == 8
    assert "artifactctl verify artifacts/mlp/artifact_v1 --provider cpu" in missing.page
    unbuilt = gate(place, build=str(place / "nowhere"))
    assert unbuilt.code == 10  # the worst of its findings


@pytest.mark.parametrize("matrix", ["", "{", "[]", "{}", '{"include": []}', '{"include": {}}', "null", "3"])
def test_no_cells(tmp_path: Path, matrix: str) -> None:
    done = step("gate", tmp_path / "x", matrix=matrix, build="b", evidence="e")
    assert (done.code, "ConfigError" in done.page) == (3, True)


@pytest.mark.parametrize("cells", ["[1]", '[{"model": "a"}]', '"abc"', '[{"model": ["a"], "provider": "cpu"}]'])
def test_a_matrix_that_is_none(tmp_path: Path, cells: str) -> None:
    done = step("gate", tmp_path / "x", matrix=f'{{"include": {cells}}}', build="b", evidence="e")
    assert (done.code, "ConfigError" in done.page) == (3, True)


def test_a_package_is_verified_as_its_folder_is(place: Path) -> None:
    packed, output = place / "staged" / "dist" / "mlp-artifact_v1.zip", place / "new" / "folder"
    done = step("verify", place / "clone", artifact=packed, provider="cpu", samples=1, output=output)
    assert done.code == 0, done.err
    assert done.page.startswith("## ✅ `mlp-artifact_v1.zip` on `cpu`: equivalent")
    (evidence,) = output.rglob("*.cells/cpu.json")
    assert str(evidence) in done.outputs
