"""Releases in real repositories: what stops them, what they leave, and that a second run goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from artifactctl import schema, tags
from tests.conftest import MODELS, Finished, clean_environment, run_cli

Cli = Callable[..., Finished]


def git(place: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(
        ["git", *words], cwd=place, capture_output=True, text=True, check=check, env=clean_environment()
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one built artifact that is not committed yet, and a bare remote beside it."""
    place = tmp_path_factory.mktemp("release")
    project, remote = place / "project", place / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    project.mkdir()
    git(project, "init", "-q", "-b", "main")
    for key, value in (("name", "Tester"), ("email", "tester@example.com")):
        git(project, "config", f"user.{key}", value)
    git(project, "remote", "add", "origin", "../remote.git")
    shutil.copy(MODELS / "mlp.onnx", project)
    git(project, "add", ".")
    git(project, "commit", "-qm", "the model")
    git(project, "push", "-q", "-u", "origin", "main")
    done = run_cli("build", "mlp.onnx", "--recipe", "fp32", cwd=project)
    assert done.code == 0, done.err
    return place


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Path:
    """A copy of `template` that a test may spoil."""
    for name in ("project", "remote.git"):
        shutil.copytree(template / name, tmp_path / name)
    return tmp_path / "project"


@pytest.fixture(scope="module")
def released(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Released and pushed, once for all tests that only look."""
    place = tmp_path_factory.mktemp("released")
    for name in ("project", "remote.git"):
        shutil.copytree(template / name, place / name)
    done = run_cli("release", "mlp", "--push", "--json", cwd=place / "project")
    assert done.code == 0, done.err
    assert done.json["data"]["status"] == "released"
    assert schema.problems(done.json, "report") == []
    return place / "project"


def test_what_a_release_leaves(released: Path) -> None:
    assert git(released, "status", "--porcelain") == ""
    message = git(released, "tag", "-l", "--format=%(contents)", "mlp/artifact_v1")
    assert message.startswith("Optimized ONNX artifact, verified equivalence ≤ 0.001")
    found = tags.parse_trailers(message)
    for key in ("Digest", "Package-Digest", "Equivalence", "Latency", "Previous"):
        assert found[f"Artifact-{key}"]
    assert git(released, "log", "-1", "--format=%s").startswith("Optimized ONNX artifact, verified equivalence ≤ 0.001")
    listed = git(released, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    assert "artifacts/mlp/artifact_v1/SHA256SUMS" in listed
    assert "baselines/mlp.cpu.json" in listed
    assert not [name for name in listed if name.startswith(("dist/", "artifacts/.work"))]
    sums = subprocess.run(["sha256sum", "-c", "mlp-artifact_v1.SHA256SUMS"], cwd=released / "dist", check=False)
    assert sums.returncode == 0
    names = {path.name for path in (released / "dist").iterdir()}
    assert {"mlp-artifact_v1.zip", "mlp-artifact_v1.md", "mlp-artifact_v1.equivalence.intoto.json"} <= names
    assert git(released.parent / "remote.git", "rev-parse", "mlp/artifact_v1") == git(
        released, "rev-parse", "mlp/artifact_v1"
    )
    statement = json.loads((released / "dist/mlp-artifact_v1.equivalence.intoto.json").read_text())
    assert statement["subject"][0]["digest"]["sha256"] == found["Artifact-Package-Digest"].removeprefix("sha256:")


def test_a_stranger_in_a_fresh_clone(released: Path, tmp_path: Path) -> None:
    """clone -> show -> history -> fetch -> verify, from tags alone."""
    git(tmp_path, "clone", "-q", str(released.parent / "remote.git"), "clone")
    clone = tmp_path / "clone"
    shown = run_cli("show", "--json", cwd=clone)
    assert [(model["model"], model["latest"]) for model in shown.json["data"]["models"]] == [("mlp", 1)]
    assert "verified equivalence" in run_cli("show", "mlp@v1", cwd=clone).out
    events = run_cli("history", "mlp", "--json", cwd=clone).json["data"]["events"]
    assert [event["kind"] for event in events] == ["release"]
    assert run_cli("verify", "artifacts/mlp/artifact_v1", cwd=clone).code == 0
    shutil.rmtree(clone / "artifacts")
    same = run_cli("diff", "mlp@v1", "mlp@v1", "--json", cwd=clone)
    assert (same.code, same.json["data"]["same"]) == (0, True)
    again = run_cli("show", "mlp@v9", cwd=clone)
    assert again.code == 4


def test_a_second_run_changes_nothing(released: Path) -> None:
    before = git(released, "rev-parse", "HEAD", "mlp/artifact_v1")
    done = run_cli("release", "mlp", "--push", "--json", cwd=released)
    assert (done.code, done.json["data"]["status"]) == (0, "unchanged")
    assert git(released, "rev-parse", "HEAD", "mlp/artifact_v1") == before


def test_a_dry_run_writes_nothing(project: Path) -> None:
    def everything() -> dict[str, float]:
        return {str(path): path.stat().st_mtime for path in project.rglob("*") if ".git/" not in str(path)}

    before = everything()
    done = run_cli("release", "mlp", "--dry-run", "--push", "--json", cwd=project)
    assert (done.code, done.json["data"]["status"]) == (0, "planned")
    assert [step["status"] for step in done.json["data"]["steps"]] == ["planned"] * 5
    assert everything() == before
    assert git(project, "tag") == ""


def refused(project: Path, *words: str, env: dict[str, str] | None = None) -> Finished:
    before = git(project, "rev-parse", "HEAD", check=False), git(project, "tag")
    done = run_cli("release", "mlp", *words, "--json", cwd=project, env=env)
    assert done.code in (4, 9, 10, 11, 12), done.out
    assert (git(project, "rev-parse", "HEAD", check=False), git(project, "tag")) == before
    assert not (project / "dist").exists()
    assert done.json["error"]["hint"]
    return done


def test_other_changes_are_in_the_way(project: Path) -> None:
    (project / "notes.txt").write_text("x")
    (project / "mlp.onnx").write_bytes(b"y")
    done = refused(project)
    assert done.code == 12
    assert "notes.txt" in done.json["error"]["message"]
    assert "mlp.onnx" in done.json["error"]["message"]


def test_no_identity(project: Path) -> None:
    git(project, "config", "--unset", "user.name")
    git(project, "config", "--unset", "user.email")
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": str(project.parent)}
    done = refused(project, env=nobody)
    assert "git config user.name" in done.json["error"]["hint"]


def test_a_detached_head(project: Path) -> None:
    git(project, "checkout", "-q", "--detach")
    assert "detached" in refused(project).json["error"]["message"]


def test_a_shallow_clone(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project.parent / 'remote.git'}", "shallow")
    shutil.copytree(project / "artifacts", tmp_path / "shallow" / "artifacts")
    assert "--unshallow" in refused(tmp_path / "shallow").json["error"]["hint"]


def test_not_a_repository(project: Path) -> None:
    shutil.rmtree(project / ".git")
    done = run_cli("release", "mlp", "--json", cwd=project, env={"GIT_CEILING_DIRECTORIES": str(project.parent)})
    assert (done.code, "git init" in done.json["error"]["hint"]) == (12, True)


def test_no_git_at_all(project: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = run_cli("release", "mlp", "--json", cwd=project, env={"PATH": str(tmp_path / "bin")})
    assert done.code == 9


def test_a_tag_that_blocks_the_others(project: Path) -> None:
    git(project, "tag", "mlp")
    assert "cannot have both" in refused(project).json["error"]["message"]


def test_a_tag_with_other_content(project: Path) -> None:
    git(project, "tag", "-a", "mlp/artifact_v1", "-m", "x\n\nArtifact-Digest: sha256:" + "0" * 64)
    done = refused(project)
    assert done.code == 11
    assert "0" * 64 in done.json["error"]["message"]


def test_a_remote_that_is_not_there(project: Path) -> None:
    shutil.rmtree(project.parent / "remote.git")
    assert "cannot be reached" in refused(project, "--push").json["error"]["message"]


def test_a_remote_that_moved_on(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(project.parent / "remote.git"), "other")
    (tmp_path / "other/new").write_text("x")
    for words in (
        ("add", "."),
        ("-c", "user.name=o", "-c", "user.email=o@e.x", "commit", "-qm", "more"),
        ("push", "-q"),
    ):
        git(tmp_path / "other", *words)
    done = refused(project, "--push")
    assert "git pull --rebase" in done.json["error"]["hint"]
    git(project, "pull", "-q", "--rebase", "origin", "main")
    assert run_cli("release", "mlp", "--push", cwd=project).code == 0


def test_a_remote_that_refuses(project: Path) -> None:
    hook = project.parent / "remote.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho no releases today >&2\nexit 1\n")
    hook.chmod(0o755)
    done = run_cli("release", "mlp", "--push", "--json", cwd=project)
    assert (done.code, done.json["error"]["name"]) == (12, "ReleaseError")
    hook.unlink()
    again = run_cli("release", "mlp", "--push", "--resume", "--json", cwd=project)
    assert (again.code, again.json["data"]["status"]) == (0, "released")
    assert [step["name"] for step in again.json["data"]["steps"] if step["status"] == "done"] == ["push"]


def test_a_damaged_artifact_and_one_that_is_not_there(project: Path) -> None:
    assert run_cli("release", "other", cwd=project).code == 4
    assert run_cli("release", "mlp@v7", cwd=project).code == 4
    assert run_cli("release", "mlp@x", cwd=project).code == 4
    assert run_cli("release", "mlp", "--resume", cwd=project).code == 12
    with (project / "artifacts/mlp/artifact_v1/golden.npz").open("ab") as file:
        file.write(b"x")
    assert refused(project).code == 10


def test_a_required_provider_without_its_proof(project: Path) -> None:
    (project / "artifactctl.yaml").write_text(
        "schema_version: 1\nmodels:\n  mlp:\n    source: {onnx: mlp.onnx}\n    providers: [cpu, openvino]\n"
    )
    git(project, "add", "artifactctl.yaml")
    git(project, "commit", "-qm", "config")
    done = refused(project)
    assert "openvino was never verified" in done.json["error"]["message"]
    assert "--save-evidence" in done.json["error"]["hint"]
    artifact = "artifacts/mlp/artifact_v1"
    assert run_cli("verify", artifact, "--save-evidence", cwd=project).code == 0
    cell = json.loads((project / f"{artifact}.cells/cpu.json").read_text())
    assert schema.problems(cell, "cell") == []
    (project / f"{artifact}.cells/openvino.json").write_text(json.dumps(cell | {"provider": "openvino"}))
    stale = cell | {"provider": "openvino", "artifact_sha256": "0" * 64}
    (project / f"{artifact}.cells/openvino.json").write_text(json.dumps(stale))
    assert "another artifact" in refused(project).json["error"]["message"]
    (project / f"{artifact}.cells/openvino.json").write_text(json.dumps(cell | {"provider": "openvino"}))
    assert run_cli("release", "mlp", cwd=project).code == 0
    assert f"{artifact}.cells/openvino.json" in git(project, "ls-tree", "-r", "--name-only", "HEAD")


def test_stages_and_withdrawals_are_added_never_changed(released: Path, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    shutil.copytree(released.parent, place)
    copy = place / "project"
    assert run_cli("assign", "mlp@v1", "prod", "--push", "--json", cwd=copy).json["data"]["tag"] == "mlp/assign/prod/1"
    assert run_cli("assign", "mlp@v1", "prod", "--json", cwd=copy).json["data"]["status"] == "unchanged"
    assert run_cli("assign", "mlp@v1", "Not a stage", cwd=copy).code == 3
    assert run_cli("assign", "mlp", "prod", cwd=copy).code == 3
    assert run_cli("assign", "mlp@v2", "prod", cwd=copy).code == 4
    shown = run_cli("show", "mlp", "--json", cwd=copy).json["data"]
    assert shown["versions"][0]["stages"] == ["prod"]
    assert run_cli("yank", "mlp@v1", cwd=copy).code == 2
    assert run_cli("yank", "mlp@v1", "--reason", "wrong\nlabels", "--push", cwd=copy).code == 0
    assert run_cli("yank", "mlp@v1", "--reason", "again", "--json", cwd=copy).json["data"]["status"] == "unchanged"
    assert run_cli("assign", "mlp@v1", "dev", cwd=copy).code == 11
    git(tmp_path, "clone", "-q", str(place / "remote.git"), "clone")
    shown = run_cli("show", "mlp", "--json", cwd=tmp_path / "clone").json["data"]
    assert shown["versions"][0]["yanked"] == "wrong labels"
    kinds = [
        event["kind"] for event in run_cli("history", "mlp", "--json", cwd=tmp_path / "clone").json["data"]["events"]
    ]
    assert kinds == ["release", "assign", "yank"]
    assert git(copy, "rev-parse", "mlp/artifact_v1") == git(released, "rev-parse", "mlp/artifact_v1")


def test_a_proof_that_comes_after_the_release(released: Path, tmp_path: Path) -> None:
    """The run that commits it pushes it; the tag stays."""
    for name in ("project", "remote.git"):
        shutil.copytree(released.parent / name, tmp_path / name)
    copy = tmp_path / "project"
    tagged = git(copy, "rev-parse", "mlp/artifact_v1")
    assert run_cli("verify", "artifacts/mlp/artifact_v1", "--save-evidence", cwd=copy).code == 0
    done = run_cli("release", "mlp", "--push", "--json", cwd=copy)
    assert done.code == 0, done.err
    steps = {step["name"]: step["status"] for step in done.json["data"]["steps"]}
    assert (steps["commit"], steps["tag"], steps["push"]) == ("done", "skipped", "done")
    remote = tmp_path / "remote.git"
    listed = git(remote, "ls-tree", "-r", "--name-only", "main").splitlines()
    assert "artifacts/mlp/artifact_v1.cells/cpu.json" in listed
    assert git(remote, "rev-parse", "main", "mlp/artifact_v1") == f"{git(copy, 'rev-parse', 'HEAD')}\n{tagged}"
    again = run_cli("release", "mlp", "--push", "--json", cwd=copy)
    assert (again.code, again.json["data"]["status"]) == (0, "unchanged")


def test_two_releases_at_once(project: Path, tmp_path: Path) -> None:
    """From two clones: one wins, the other finds it released, or says so."""
    other = tmp_path / "other"
    shutil.copytree(project, other)
    for place in (project, other):
        git(place, "remote", "set-url", "origin", str(project.parent / "remote.git"))
    command = ["-m", "artifactctl", "release", "mlp", "--push", "--json"]
    import sys

    running = [
        subprocess.Popen(
            [sys.executable, *command], cwd=place, env=clean_environment(), stdout=subprocess.PIPE, text=True
        )
        for place in (project, other)
    ]
    ended = [(process.communicate()[0], process.returncode) for process in running]
    statuses = sorted(json.loads(out)["data"].get("status", "conflict") for out, _ in ended)
    assert statuses in (["released", "unchanged"], ["conflict", "released"])
    assert all(code in (0, 11) for _, code in ended)
    tag = git(project.parent / "remote.git", "rev-parse", "mlp/artifact_v1")
    assert {git(place, "rev-parse", "mlp/artifact_v1") for place in (project, other)} == {tag}


def test_a_copied_folder_is_no_version(project: Path) -> None:
    shutil.copytree(project / "artifacts/mlp", project / "artifacts/other")
    done = run_cli("release", "other", "--json", cwd=project)
    assert (done.code, "an artifact of 'mlp'" in done.json["error"]["message"]) == (10, True)
    assert not (project / "dist").exists()


def test_a_remote_tag_with_other_content_is_seen_before_anything_is_written(project: Path) -> None:
    git(project, "tag", "-a", "mlp/artifact_v1", "-m", "x\n\nArtifact-Digest: sha256:" + "0" * 64)
    git(project, "push", "-q", "origin", "mlp/artifact_v1")
    git(project, "tag", "-d", "mlp/artifact_v1")
    assert refused(project, "--push").code == 11


def test_a_place_that_cannot_be_written_to(project: Path) -> None:
    """Seen before anything is written; root may write anywhere, but not below a file."""

    def stopped(place: str) -> None:
        before = git(project, "rev-parse", "HEAD")
        done = run_cli("release", "mlp", "--json", cwd=project)
        assert (done.code, git(project, "rev-parse", "HEAD"), git(project, "tag")) == (12, before, "")
        assert f"{place} is " in done.json["error"]["message"]
        assert "Move it away" in done.json["error"]["hint"]
        assert git(project, "status", "--porcelain") == "?? artifacts/"

    (project / "dist").write_text("a file")
    git(project, "add", "dist")
    git(project, "commit", "-qm", "odd")
    stopped("dist")
    git(project, "rm", "-q", "dist")
    git(project, "commit", "-qm", "gone")
    (project / "dist/mlp-artifact_v1.md").mkdir(parents=True)
    stopped("dist/mlp-artifact_v1.md")


def test_a_submodule(project: Path, tmp_path: Path) -> None:
    """Its own history and its own remote; what holds it is left alone."""
    outer = tmp_path / "outer"
    git(tmp_path, "init", "-q", "-b", "main", "outer")
    local = ("-c", "protocol.file.allow=always")
    git(outer, *local, "submodule", "add", "-q", str(tmp_path / "remote.git"), "models/inner")
    inner = outer / "models" / "inner"
    for place in (outer, inner):
        git(place, "config", "user.name", "Tester")
        git(place, "config", "user.email", "tester@example.com")
    git(outer, "commit", "-qm", "outer")
    before = git(outer, "rev-parse", "HEAD")
    shutil.copytree(project / "artifacts" / "mlp", inner / "artifacts" / "mlp")
    done = run_cli("release", "mlp", "--push", "--json", cwd=inner)
    assert (done.code, done.json["data"]["status"]) == (0, "released"), done.err
    remote = tmp_path / "remote.git"
    assert git(remote, "rev-parse", "main", "mlp/artifact_v1^{}").split() == [git(inner, "rev-parse", "HEAD")] * 2
    assert (git(outer, "rev-parse", "HEAD"), git(outer, "tag")) == (before, "")
    assert git(inner, "status", "--porcelain") == ""
    again = run_cli("release", "mlp", "--push", "--json", cwd=inner)
    assert (again.code, again.json["data"]["status"]) == (0, "unchanged")
    assert run_cli("doctor", "--json", cwd=inner, env={"TMPDIR": str(outer)}).json["data"]["leftovers"] == []


def test_a_linked_worktree(project: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git(project, "worktree", "add", "-q", "-b", "side", str(tree))
    git(project, "remote", "set-url", "origin", str(tmp_path / "remote.git"))
    shutil.copytree(project / "artifacts" / "mlp", tree / "artifacts" / "mlp")
    before = git(project, "rev-parse", "HEAD")
    done = run_cli("release", "mlp", "--push", "--json", cwd=tree)
    assert (done.code, done.json["data"]["status"]) == (0, "released"), done.err
    remote = tmp_path / "remote.git"
    assert git(remote, "rev-parse", "side", "mlp/artifact_v1^{}").split() == [git(tree, "rev-parse", "HEAD")] * 2
    assert (git(project, "rev-parse", "HEAD"), git(remote, "rev-parse", "main")) == (before, before)
    assert git(tree, "status", "--porcelain") == ""
    again = run_cli("release", "mlp", "--push", "--json", cwd=tree)
    assert (again.code, again.json["data"]["status"]) == (0, "unchanged")


def test_doctor_names_what_a_kill_leaves(project: Path) -> None:
    (project.parent / "temporary").mkdir()
    own = {"TMPDIR": str(project.parent / "temporary")}  # the machine's may hold what others killed
    assert run_cli("package", "artifacts/mlp/artifact_v1", cwd=project).code == 0
    (project / "dist/.mlp-artifact_v1.zip.part").write_text("half")
    scratch = project / "artifacts/.work/mlp@build-x"
    scratch.mkdir()
    lock = project / ".git/index.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    found = run_cli("doctor", "--json", cwd=project, env=own).json["data"]["leftovers"]
    texts = "\n".join(item["what"] for item in found)
    for word in (".part", "@build-x", "index.lock", "half done: packaged, not tagged"):
        assert word in texts
    assert "--resume" in next(item["type"] for item in found if "half done" in item["what"])
    mended = run_cli("doctor", "--mend", "--json", cwd=project, env=own).json["data"]["leftovers"]
    assert sum(item["removed"] for item in mended) == 3
    left = run_cli("doctor", "--json", cwd=project, env=own).json["data"]["leftovers"]
    assert [item["path"] for item in left] == [None]
    assert run_cli("release", "mlp", "--resume", cwd=project).code == 0
    assert run_cli("doctor", "--json", cwd=project, env=own).json["data"]["leftovers"] == []


def test_a_package_that_was_made_before(project: Path, tmp_path: Path) -> None:
    """It is opened and proved; a damaged one, one of another artifact and one that is not there release nothing."""
    words = ("build", "mlp.onnx", "--recipe", "fp32", "--json")
    made = run_cli(*words, "--package", tmp_path / "one", cwd=project)
    other = run_cli(*words, "--force", "--output", tmp_path / "again", "--package", tmp_path / "two", cwd=project)
    assert made.code == other.code == 0, made.err + other.err
    given = tmp_path / "one/mlp-artifact_v1.zip"
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(given.read_bytes()[:-1])
    bad = {damaged: 10, tmp_path / "none.zip": 4, tmp_path / "two/mlp-artifact_v1.zip": 11}
    for file, code in bad.items():
        refused = run_cli("release", "mlp", "--package", file, "--json", cwd=project)
        assert refused.code == code, refused.err
    assert git(project, "tag") == ""
    done = run_cli("release", "mlp", "--package", given, "--json", cwd=project)
    assert done.code == 0, done.err
    assert (project / "dist/mlp-artifact_v1.zip").read_bytes() == given.read_bytes()
