"""The steps of a release one by one, in real repositories with small files."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl import baselines, cells, folder, jsontext, leftovers, stores, tags
from artifactctl.errors import Conflict, ReleaseError
from artifactctl.git.repository import Repository, open_repository
from artifactctl.steps import preflight, publish, release
from artifactctl.steps.package import Package
from artifactctl.steps.preflight import Target
from artifactctl.stores import git_store
from tests.unit.test_baselines import MACHINE, SESSION, TIMING

Git = Callable[..., str]
STORE: stores.Store = git_store
METADATA: dict[str, Any] = {
    "session": {"provider": "cpu"}, "latency": None, "previous": None, "precision": "fp32", "opset": 18,
    "accuracy_drop": None, "model": {"size_bytes": 10}, "recipe": {"name": "fp32"},
    "equivalence": {"statement": "max_abs ≤ 0.001", "max_error": 1e-7, "samples": 8},
}  # fmt: skip


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder of its own: the machine's may hold what others killed."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """In a repository with a bare remote, and no settings but these."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\n\tname = Tester\n\temail = tester@example.com\n[init]\n\tdefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def run(*words: str | Path, at: str = "project", given: bytes | None = None) -> str:
        done = subprocess.run(["git", *words], cwd=tmp_path / at, input=given, capture_output=True, check=True)
        return done.stdout.decode(errors="replace").strip()

    run("init", "-q", "--bare", tmp_path / "remote.git", at="")
    run("init", "-q", tmp_path / "project", at="")
    run("remote", "add", "origin", "../remote.git")
    (tmp_path / "project/README").write_text("x\n")
    run("add", ".")
    run("commit", "-qm", "first")
    run("push", "-q", "-u", "origin", "main")
    return run


def target_in(root: Path, version: int = 1, remote: str | None = None) -> Target:
    artifact = root / "artifacts" / "m" / f"artifact_v{version}"
    for name in folder.REQUIRED:
        (artifact / name).parent.mkdir(parents=True, exist_ok=True)
        (artifact / name).write_bytes(f"{name} of {version}\r\nand\n".encode())
    folder.write_sums(artifact)
    digest = folder.digest(artifact / folder.SUMS)
    return Target("m", version, artifact, METADATA, digest, root, ("cpu",), remote)


def package_of(target: Target) -> Package:
    return Package(target.dist / f"{target.package_name}.zip", "1" * 64, 10, "written")


def released(target: Target, repository: Repository) -> str:
    """Committed and tagged."""
    package = package_of(target)
    trailers = release.trailers(target, package)
    subject = release.subject(target.metadata)
    commit, _ = release.commit(target, repository, STORE, tags.message(subject, "", trailers))
    release.tag(target, repository, commit, tags.message(subject, "# Notes", trailers), package)
    return commit


def test_a_kill_between_branch_and_index(git: Git, tmp_path: Path) -> None:
    """The branch has the commit, the index does not know: it is not made a second time."""
    target = target_in(tmp_path / "project")
    with open_repository(tmp_path / "project") as repository:
        first = released(target, repository)
        git("read-tree", "HEAD~")
        assert preflight.needs_commit(target, repository, STORE)
        assert release.commit(target, repository, STORE, "again")[0] == first
        assert git("status", "--porcelain") == ""
        assert git("rev-list", "--count", "HEAD") == "2"


def test_what_a_kill_leaves_of_small_files_is_not_in_the_way(git: Git, tmp_path: Path) -> None:
    target = target_in(tmp_path / "project")
    (tmp_path / "project/baselines").mkdir()
    parts = [folder.part_of(target.baseline), folder.part_of(target.artifact.parent / ".gitattributes")]
    for part in parts:
        part.write_text("half")
    with open_repository(tmp_path / "project") as repository:
        assert preflight.problems(target, repository, STORE) == []
        named = {item.path for item in leftovers.find(tmp_path / "project")}
        assert set(parts) <= named
        (tmp_path / "project/artifacts/m/.gitattributes~").touch()  # begins like one of ours
        (found,) = preflight.problems(target, repository, STORE)
        assert ".gitattributes~" in found.message


@pytest.mark.parametrize("rule", ["*.npz", "evidence/", "artifacts/", "baselines/", ".gitattributes"])
def test_a_rule_that_would_leave_a_file_out(git: Git, tmp_path: Path, rule: str) -> None:
    target = target_in(tmp_path / "project")
    (tmp_path / "project/.gitignore").write_text(f"{rule}\n")
    git("add", ".gitignore")
    git("commit", "-qm", "rule")
    with open_repository(tmp_path / "project") as repository:
        found = preflight.problems(target, repository, STORE)
    assert found
    assert all("is ignored by git" in problem.message for problem in found)


def test_a_filter_that_changes_bytes_stops_before_the_branch_moves(git: Git, tmp_path: Path) -> None:
    target = target_in(tmp_path / "project")
    git("config", "filter.tidy.clean", "tr -d '\\r'")
    (tmp_path / "project/.git/info").mkdir(exist_ok=True)
    (tmp_path / "project/.git/info/attributes").write_text("*.yaml filter=tidy\n")
    before = git("rev-parse", "HEAD")
    with (
        open_repository(tmp_path / "project") as repository,
        pytest.raises(ReleaseError, match="would not keep"),
    ):
        release.commit(target, repository, STORE, "x")
    assert git("rev-parse", "HEAD") == before


@pytest.mark.parametrize("value", ["true", "input"])
def test_line_ends_come_back_as_they_were(git: Git, tmp_path: Path, value: str) -> None:
    for key, setting in (("core.autocrlf", value), ("core.safecrlf", "true"), ("core.eol", "crlf")):
        git("config", "--global", key, setting)
    target = target_in(tmp_path / "project", remote="origin")
    with open_repository(tmp_path / "project") as repository:
        released(target, repository)
        assert publish.push(target, repository, STORE, package_of(target)).status == release.DONE
    git("clone", "-q", "remote.git", "clone", at="")
    assert folder.damage(tmp_path / "clone/artifacts/m/artifact_v1") == []
    assert git("status", "--porcelain", at="clone") == ""


def test_a_tag_without_a_message(git: Git, tmp_path: Path) -> None:
    git("tag", "m/artifact_v1")
    target = target_in(tmp_path / "project")
    with (
        open_repository(tmp_path / "project") as repository,
        pytest.raises(Conflict, match="without a message") as caught,
    ):
        preflight.demand_tag_free_or_equal(target, repository)
    assert "git tag -d m/artifact_v1" in caught.value.hint
    assert folder.next_free(target.artifact.parent.parent / "m") == 2


@pytest.mark.parametrize("name", ["m", "m/artifact_v1/x"])
def test_tags_that_block_others_here_and_there(git: Git, tmp_path: Path, name: str) -> None:
    git("tag", name)
    git("push", "-q", "origin", name)
    git("fetch", "-q", "--tags")
    target = target_in(tmp_path / "project", remote="origin")
    with open_repository(tmp_path / "project") as repository:
        assert [repr(name) in problem.message for problem in preflight.problems(target, repository, STORE)] == [
            True
        ] * 2
        git("tag", "-d", name)
        (found,) = preflight.problems(target, repository, STORE)
    assert "of origin" in found.message


def test_odd_tags_of_other_tools(git: Git, tmp_path: Path) -> None:
    target = target_in(tmp_path / "project")
    with open_repository(tmp_path / "project") as repository:
        released(target, repository)
        git("tag", "v1.0")
        git("tag", "-a", "-F", "-", "v2.0", given=b"x" * 3_000_000)
        git("tag", "-a", "-m", "of a tag", "m/artifact_v2", "v2.0")
        raw = (
            b"object %s\ntype commit\ntag odd\ntagger a <b> 1 +0000\n\n\xff\xfe not text\n"
            % git("rev-parse", "HEAD").encode()
        )
        oid = git("hash-object", "-t", "tag", "-w", "--stdin", given=raw)
        git("update-ref", "refs/tags/odd", oid)
        git("tag", "tree", "HEAD^{tree}")
        git("tag", "-a", "-m", "a tree", "m/artifact_v3", "HEAD^{tree}")
        found = repository.tags()
        assert {tag.name for tag in found} == {"m/artifact_v1", "m/artifact_v2", "m/artifact_v3", "odd", "v2.0"}
        assert [event.version for event in tags.events_of(found)] == [1]


def test_a_signed_tag_is_read_like_any_other(git: Git, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    settings = {"gpg.format": "ssh", "user.signingkey": str(tmp_path / "key.pub"), "log.showSignature": "true"}
    for key, value in (settings | {"commit.gpgsign": "true", "tag.gpgsign": "true", "tag.sort": "-refname"}).items():
        git("config", "--global", key, value)
    target = target_in(tmp_path / "project")
    with open_repository(tmp_path / "project") as repository:
        commit = released(target, repository)
        found = repository.tag(target.tag)
        assert found is not None
        assert "-----BEGIN SSH SIGNATURE-----" in found.message
        assert "gpgsig" in git("cat-file", "commit", commit)
        assert tags.parse_trailers(found.message)["Artifact-Digest"] == f"sha256:{target.digest}"
        assert release.published_notes(target, repository) == "# Notes\n"
        assert release.commit(target, repository, STORE, "x")[0] == commit
        git("config", "--global", "user.signingkey", str(tmp_path / "missing.pub"))
        with pytest.raises(ReleaseError, match="git could not commit"):
            release.commit(target_in(tmp_path / "project", 2), repository, STORE, "x")


def test_an_older_version_after_a_newer_one(git: Git, tmp_path: Path) -> None:
    root = tmp_path / "project"
    first, second = target_in(root, 1), target_in(root, 2)
    saved = baselines.content("m", {"version": 2, "sha256": "2" * 64}, TIMING, MACHINE, SESSION)
    with open_repository(root) as repository:
        jsontext.write(second.baseline, saved)
        released(second, repository)
        measured = {"latency": {"candidate": asdict(TIMING)}, "session": asdict(SESSION)}
        latency = first.artifact / "evidence/latency.cpu.json"
        latency.write_text(json.dumps({"machine": MACHINE}))
        folder.write_sums(first.artifact)
        told = release.write_baseline(replace(first, metadata=METADATA | measured), repository)
        assert told.detail.endswith("is of version 2")
        commit = released(first, repository)
        assert release.commit(second, repository, STORE, "x")[0] == git("rev-parse", "m/artifact_v2^{commit}")
        assert release.commit(first, repository, STORE, "x")[0] == commit
        assert release.write_baseline(first, repository).status == release.SKIPPED
    assert baselines.read(second.baseline) == json.loads(json.dumps(saved))


def test_a_published_tag_is_never_moved(git: Git, tmp_path: Path) -> None:
    """The same artifact on another branch: its tag stays. One that a rebase left behind, unseen, is made anew."""
    target = target_in(tmp_path / "project", remote="origin")
    with open_repository(tmp_path / "project") as repository:
        commit = released(target, repository)
        package, message = package_of(target), git("tag", "-l", "--format=%(contents)", target.tag)
        git("commit", "-q", "--amend", "-m", "rebased")
        moved = git("rev-parse", "HEAD")
        assert release.tag(replace(target, remote=None), repository, moved, message, package).status == release.SKIPPED
        assert git("rev-parse", f"{target.tag}^{{commit}}") == commit
        assert release.tag(target, repository, moved, message, package).status == release.DONE
        assert git("rev-parse", f"{target.tag}^{{commit}}") == moved
        assert publish.push(target, repository, STORE, package).status == release.DONE
        git("commit", "-q", "--amend", "-m", "rebased again")
        assert release.tag(target, repository, git("rev-parse", "HEAD"), message, package).status == release.SKIPPED


def test_what_is_published_wins(git: Git, tmp_path: Path) -> None:
    """Another clone was faster: with the same digests its tag becomes ours, with others it is a conflict."""
    git("clone", "-q", "remote.git", "other", at="")
    ours = target_in(tmp_path / "project", remote="origin")
    theirs = target_in(tmp_path / "other", remote="origin")
    git("config", "user.name", "Another", at="other")
    with open_repository(tmp_path / "other") as repository:
        released(theirs, repository)
        publish.intend(theirs, repository)
        assert ["was not pushed to origin" in item.what for item in leftovers.find(tmp_path / "other")] == [True]
        assert publish.push(theirs, repository, STORE, package_of(theirs)).status == release.DONE
        assert leftovers.find(tmp_path / "other") == []
    published = git("rev-parse", ours.tag, at="remote.git")
    with open_repository(tmp_path / "project") as repository:
        found = publish.overtaken(ours, repository, dry_run=True)
        assert found is not None
        assert repository.tag(ours.tag) is None
        released(ours, repository)
        assert git("rev-parse", ours.tag) != published
        other_package = replace(package_of(ours), sha256="2" * 64)
        with pytest.raises(Conflict, match="Artifact-Package-Digest"):
            publish.push(ours, repository, STORE, other_package)
        assert publish.push(ours, repository, STORE, package_of(ours)).status == release.OVERTAKEN
        assert git("rev-parse", ours.tag) == published
        git("pull", "-q", "--rebase", "origin", "main")
        assert git("rev-parse", "HEAD") == git("rev-parse", "main", at="remote.git")
        assert publish.overtaken(ours, repository, dry_run=False) is None
        with pytest.raises(Conflict, match="Artifact-Digest"):
            publish.overtaken(replace(ours, digest="3" * 64), repository, dry_run=False)


def test_what_comes_after_the_tag_is_pushed_too(git: Git, tmp_path: Path) -> None:
    """A proof on another provider: committed and pushed, also by a run after one that was killed in between."""
    target = target_in(tmp_path / "project", remote="origin")
    with open_repository(tmp_path / "project") as repository:
        released(target, repository)
        publish.push(target, repository, STORE, package_of(target))
        tagged = git("rev-parse", target.tag, at="remote.git")
        jsontext.write(cells.path_of(target.artifact, "cuda"), {"verdict": "equivalent"})
        assert publish.overtaken(target, repository, dry_run=True) is None
        assert [step.status for step in release.planned(target, repository, STORE) if step.name != "package"] == [
            "planned", "skipped", "planned", "planned",
        ]  # fmt: skip
        released(target, repository)
        assert git("rev-parse", "main", at="remote.git") != git("rev-parse", "HEAD")
        assert publish.overtaken(target, repository, dry_run=False) is None
        assert release.planned(target, repository, STORE)[-1].status == release.PLANNED
        assert publish.push(target, repository, STORE, package_of(target)).status == release.DONE
        assert git("rev-parse", "main", at="remote.git") == git("rev-parse", "HEAD")
        assert git("rev-parse", target.tag, at="remote.git") == tagged
        assert release.planned(target, repository, STORE)[-1].status == release.SKIPPED
        assert publish.push(target, repository, STORE, package_of(target)).status == release.SKIPPED
        git("commit", "-q", "--allow-empty", "-m", "not of the release")
        assert publish.push(target, repository, STORE, package_of(target)).status == release.SKIPPED


def test_a_branch_that_is_refused_after_the_tag(git: Git, tmp_path: Path) -> None:
    target = target_in(tmp_path / "project", remote="origin")
    with open_repository(tmp_path / "project") as repository:
        released(target, repository)
        publish.push(target, repository, STORE, package_of(target))
        jsontext.write(cells.path_of(target.artifact, "cuda"), {"verdict": "equivalent"})
        released(target, repository)
        hook = tmp_path / "remote.git/hooks/pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
        publish.intend(target, repository)
        with pytest.raises(ReleaseError, match="refused the push"):
            publish.push(target, repository, STORE, package_of(target))
        assert ["was not pushed to origin" in item.what for item in leftovers.find(tmp_path / "project")] == [True]


def test_nothing_else_is_pushed(git: Git, tmp_path: Path) -> None:
    git("config", "push.followTags", "true")
    target = target_in(tmp_path / "project", remote="origin")
    with open_repository(tmp_path / "project") as repository:
        released(target, repository)
        git("tag", "-a", "-m", "mine", "private")
        publish.push(target, repository, STORE, package_of(target))
    assert git("tag", at="remote.git").splitlines() == [target.tag]


def test_a_linked_worktree_in_a_folder_with_an_odd_name(git: Git, tmp_path: Path) -> None:
    for key, value in (("status.showUntrackedFiles", "no"), ("core.quotePath", "true"), ("core.fileMode", "false")):
        git("config", key, value)
    git("config", "i18n.commitEncoding", "ISO-8859-1")
    git("worktree", "add", "-q", "-b", "side", tmp_path / "tree")
    root = tmp_path / "tree" / "sub é [x]*"
    target = target_in(root, remote="origin")
    (root / "x").write_text("not ours")
    with open_repository(root) as repository:
        (found,) = preflight.problems(target, repository, STORE)
        assert "sub é [x]*/x" in found.message
        (root / "x").unlink()
        assert preflight.problems(target, repository, STORE) == []
        commit = released(target, repository)
        assert publish.push(target, repository, STORE, package_of(target)).status == release.DONE
        assert leftovers.find(root) == []
        for place in (repository.git_dir / "index.lock", repository.common_dir / "refs/heads/x.lock"):
            place.touch()
            os.utime(place, (1, 1))
        found_locks = leftovers.find(root)
        assert len(found_locks) == 2
        assert leftovers.mend(found_locks) == found_locks
    assert git("status", "--porcelain", "-uall", at="tree") == ""
    assert "≤" in git("log", "-1", "--format=%s", commit)
    assert "encoding" not in git("cat-file", "commit", commit)


def test_the_first_commit_of_all(git: Git, tmp_path: Path) -> None:
    git("init", "-q", tmp_path / "empty", at="")
    target = target_in(tmp_path / "empty")
    with open_repository(tmp_path / "empty") as repository:
        assert preflight.problems(target, repository, STORE) == []
        assert not preflight.begun(target, repository)
        released(target, repository)
        assert leftovers.find(tmp_path / "empty") == []
    assert git("rev-list", "--count", "HEAD", at="empty") == "1"
    assert git("status", "--porcelain", at="empty") == ""


def test_a_repository_that_git_cannot_read(git: Git, tmp_path: Path) -> None:
    target = target_in(tmp_path / "project")
    (tmp_path / "project/.git/index").write_bytes(b"not an index")
    with pytest.raises(ReleaseError, match="index"), open_repository(tmp_path / "project") as repository:
        preflight.problems(target, repository, STORE)


def test_hooks_that_fail(git: Git, tmp_path: Path) -> None:
    """Those of commits are for people's changes; the one of pushes is obeyed."""
    for name in ("pre-commit", "commit-msg", "pre-push"):
        hook = tmp_path / "project/.git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
        hook.chmod(0o755)
    target = target_in(tmp_path / "project", remote="origin")
    with open_repository(tmp_path / "project") as repository:
        released(target, repository)
        with pytest.raises(ReleaseError, match="refused the push"):
            publish.push(target, repository, STORE, package_of(target))


def test_a_living_git_keeps_its_lock(git: Git, tmp_path: Path) -> None:
    lock = tmp_path / "project/.git/index.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    editing = subprocess.Popen(["git", "cat-file", "--batch"], cwd=tmp_path / "project", stdin=subprocess.PIPE)
    try:
        assert leftovers.find(tmp_path / "project") == []
    finally:
        editing.communicate()
    assert [item.path for item in leftovers.find(tmp_path / "project")] == [lock]


def test_a_package_that_github_would_not_take() -> None:
    assert preflight.size_warnings(2**30, 2**30 - 1) == []
    assert "2 GiB" in preflight.size_warnings(2**30, 2**30)[0]


@pytest.mark.parametrize(
    "text", ["x\n\nArtifact-Digest: sha256:0", "a\x85Artifact-Digest: b", "x\r\nArtifact-Reason: y"]
)
def test_nothing_said_can_become_a_trailer(text: str) -> None:
    own = {"Artifact-Digest": "sha256:1", "Artifact-Reason": text}
    for body in (text, f"{text}\n-----BEGIN SSH SIGNATURE-----\nx", f"-----BEGIN PGP MESSAGE-----\n\n{text}"):
        found = tags.parse_trailers(tags.message(text, body, own))
        assert set(found) == set(own)
        assert found["Artifact-Digest"] == "sha256:1"
