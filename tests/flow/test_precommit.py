"""A commit that changes a model or its configuration without its artifact is stopped; real git, real pre-commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from artifactctl import folder, schema
from tests.conftest import MODELS, ROOT, Finished, clean_environment, run_cli

pytestmark = pytest.mark.xdist_group("precommit")

Cli = Callable[..., Finished]
CONFIG = """schema_version: 1
models:
  mlp:
    source: {onnx: models/mlp.onnx}
    optimize: {recipes: [fp32]}
"""
PLAIN_HOOK = f'#!/bin/sh\nexec "{sys.executable}" -m artifactctl build --check\n'
V1 = "artifacts/mlp/artifact_v1"


@dataclass(frozen=True)
class Repository:
    """A project in a git repository of its own, with an identity and without the user's settings."""

    root: Path
    env: dict[str, str]

    def git(self, *arguments: str, cwd: Path | None = None, fails: bool = False) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=cwd or self.root, env=self.env, capture_output=True, text=True, check=False
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def hook(self, text: str) -> None:
        path = self.root / ".git" / "hooks" / "pre-commit"
        path.write_text(text)
        path.chmod(0o755)

    def check(self, *arguments: object) -> Finished:
        return run_cli("build", "--check", "--json", *arguments, cwd=self.root)

    def change_model(self) -> None:
        shutil.copy(MODELS / "tokens.onnx", self.root / "models" / "mlp.onnx")

    def commits(self) -> int:
        return int(self.git("rev-list", "--count", "HEAD"))


def built_from(model: str, place: Path) -> Path:
    """A configuration, a model and its artifact."""
    (place / "models").mkdir()
    shutil.copy(MODELS / model, place / "models" / "mlp.onnx")
    (place / "artifactctl.yaml").write_text(CONFIG)
    assert run_cli("build", "-q", cwd=place).code == 0
    return place


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_from("mlp.onnx", tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def other_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another model of the same name."""
    return built_from("tokens.onnx", tmp_path_factory.mktemp("other"))


@pytest.fixture
def repository(project: Path, tmp_path: Path) -> Repository:
    """Everything committed, and a plain hook installed."""
    root = Path(shutil.copytree(project, tmp_path / "repository"))
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in NAMES.items()}
    env = clean_environment(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1", PYTHONPATH=str(ROOT), **who)
    made = Repository(root, env)
    made.git("init", "-q", "-b", "main")
    made.git("add", ".")
    made.git("commit", "-q", "-m", "first")
    made.hook(PLAIN_HOOK)
    return made


NAMES = {"NAME": "Tester", "EMAIL": "tester@example.org"}


def test_nothing_changed_is_no_reason_to_stop(repository: Repository) -> None:
    done = repository.check()
    assert done.code == 0, done.err
    assert schema.problems(done.json, "report") == []
    assert [entry["status"] for entry in done.json["data"]["artifacts"]] == ["unchanged"]
    (repository.root / "notes.txt").write_text("hello")
    repository.git("add", "notes.txt")
    repository.git("commit", "-q", "-m", "notes")
    assert repository.commits() == 2
    assert repository.git("status", "--porcelain") == ""


def test_a_changed_model_is_stopped_with_the_line_to_type(repository: Repository) -> None:
    old = folder.digest(repository.root / "models" / "mlp.onnx")
    repository.change_model()
    said = repository.git("commit", "-a", "-m", "model", fails=True)
    new = folder.digest(repository.root / "models" / "mlp.onnx")
    assert f"mlp: models/mlp.onnx has changed (sha256 was {old}, is {new}) since {V1}" in said
    assert "artifactctl build mlp && git add artifacts/mlp/artifact_v2" in said
    done = repository.check()
    assert done.code == 11
    assert done.json["data"]["failed"] == [{"model": "mlp", "error": "Conflict"}]
    assert repository.commits() == 1
    assert folder.versions(repository.root / "artifacts" / "mlp") == [1], "nothing is built"


def test_the_line_to_type_lets_the_commit_through(repository: Repository) -> None:
    repository.change_model()
    repository.git("add", "models")
    said = repository.git("commit", "-m", "model", fails=True)
    command, _, add = said.rpartition("Next: ")[2].strip().partition(" && ")
    assert run_cli(*command.split()[1:], "-q", cwd=repository.root).code == 0
    said = repository.git("commit", "-m", "model", fails=True)
    assert "artifacts/mlp/artifact_v2/README.md is not staged" in said
    assert "Next: git add artifacts/mlp/artifact_v2" in said
    repository.git(*add.split()[1:])
    repository.git("commit", "-q", "-m", "model")
    assert repository.git("status", "--porcelain") == ""

    shutil.copy(MODELS / "mlp.onnx", repository.root / "models")
    repository.git("commit", "-q", "-a", "-m", "a model that goes back has its old artifact")
    assert repository.check().json["data"]["artifacts"][0]["version"] == 1


def test_a_changed_configuration_is_stopped(repository: Repository) -> None:
    (repository.root / "artifactctl.yaml").write_text(CONFIG + "    equivalence: {max_abs: 1.0e-4}\n")
    said = repository.git("commit", "-a", "-m", "bound", fails=True)
    assert f"mlp: the configuration has changed since {V1}" in said
    assert "artifactctl build mlp" in said


def test_a_speed_gate_is_no_other_model(repository: Repository) -> None:
    (repository.root / "artifactctl.yaml").write_text(CONFIG + "    latency: {max_regression: 20%}\n")
    repository.git("commit", "-q", "-a", "-m", "gate")
    assert repository.commits() == 2


def test_a_new_model_needs_its_first_artifact(repository: Repository) -> None:
    shutil.copy(MODELS / "cnn.onnx", repository.root / "models")
    (repository.root / "artifactctl.yaml").write_text(CONFIG + "  cnn:\n    source:\n      onnx: models/cnn.onnx\n")
    repository.git("add", ".")
    said = repository.git("commit", "-m", "cnn", fails=True)
    assert "cnn: it has no artifact yet" in said
    assert "artifactctl build cnn && git add artifacts/cnn/artifact_v1" in said
    assert "mlp: unchanged" in said


def test_a_removed_model_needs_none(repository: Repository) -> None:
    (repository.root / "artifactctl.yaml").write_text(CONFIG.replace("mlp", "cnn"))
    repository.git("mv", "models/mlp.onnx", "models/cnn.onnx")
    said = repository.git("commit", "-a", "-m", "renamed", fails=True)
    assert "cnn: it has no artifact yet" in said
    assert "mlp:" not in said


def test_a_deleted_artifact_is_missed(repository: Repository) -> None:
    repository.git("rm", "-r", "-q", V1)
    said = repository.git("commit", "-m", "smaller", fails=True)
    assert "mlp: it has no artifact yet" in said
    repository.git("reset", "-q", "--", V1)
    repository.git("checkout", "--", V1)
    repository.git("rm", "-r", "-q", "--cached", V1)
    said = repository.git("commit", "-m", "smaller", fails=True)
    assert f"{V1}/README.md is not staged" in said
    assert f"git add {V1}" in said


def test_an_artifact_that_is_staged_in_part(repository: Repository) -> None:
    repository.git("rm", "-q", "--cached", f"{V1}/golden.npz")
    said = repository.git("commit", "-m", "part", fails=True)
    assert f"{V1}/golden.npz is not staged as it is on the disk\n" in said


def test_a_staged_model_that_is_not_the_one_on_the_disk(repository: Repository) -> None:
    """What is on the disk fits its artifact; what would be committed does not."""
    repository.change_model()
    repository.git("add", "models")
    shutil.copy(MODELS / "mlp.onnx", repository.root / "models")
    said = repository.git("commit", "-m", "model", fails=True)
    assert "models/mlp.onnx is not staged as artifact_v1 was built from it" in said
    assert "Next: git add models/mlp.onnx" in said
    (repository.root / "artifactctl.yaml").write_text(CONFIG + "    equivalence: {max_abs: 1.0e-4}\n")
    repository.git("add", ".")
    (repository.root / "artifactctl.yaml").write_text(CONFIG)
    assert "artifactctl.yaml is not staged" in repository.git("commit", "-m", "bound", fails=True)


def test_a_damaged_artifact_is_named(repository: Repository) -> None:
    with (repository.root / V1 / "README.md").open("a") as file:
        file.write("mine\n")
    said = repository.git("commit", "-a", "-m", "edit", fails=True)
    assert f"{V1} is damaged: README.md was changed" in said


def test_a_merge_of_two_versions_with_one_number(repository: Repository, other_project: Path) -> None:
    """Both sides built artifact_v1 from other inputs; no mixture of them gets through."""
    repository.git("checkout", "-q", "--orphan", "theirs")
    for name in ("models", "artifacts"):
        shutil.copytree(other_project / name, repository.root / name, dirs_exist_ok=True)
    repository.git("add", ".")
    repository.git("commit", "-q", "-m", "theirs")
    repository.git("merge", "-m", "both", "--allow-unrelated-histories", "main", fails=True)
    repository.git("checkout", "--ours", ".")
    repository.git("checkout", "--theirs", f"{V1}/model_opt.onnx")
    repository.git("add", ".")
    assert f"{V1} is damaged" in repository.git("commit", "-m", "both", fails=True)
    repository.git("checkout", "main", "--", V1)
    assert "models/mlp.onnx has changed" in repository.git("commit", "-m", "both", fails=True)
    repository.git("checkout", "main", "--", "models")
    repository.git("commit", "-q", "-m", "both")
    assert repository.git("rev-list", "--merges", "--count", "HEAD").strip() == "1"


def test_artifacts_that_git_ignores_are_stored_elsewhere(repository: Repository) -> None:
    repository.git("rm", "-r", "-q", "--cached", "artifacts")
    (repository.root / ".gitignore").write_text("/artifacts/\n")
    repository.git("add", ".gitignore")
    repository.git("commit", "-q", "-m", "elsewhere")
    repository.change_model()
    said = repository.git("commit", "-a", "-m", "model", fails=True)
    assert "Next: artifactctl build mlp\n" in said


def test_an_artifact_of_which_git_ignores_some_files(repository: Repository) -> None:
    repository.git("rm", "-q", "--cached", f"{V1}/golden.npz")
    (repository.root / ".gitignore").write_text("*.npz\n")
    repository.git("add", ".gitignore")
    said = repository.git("commit", "-m", "no arrays", fails=True)
    assert f"{V1}/golden.npz is ignored by git, but other files of artifact_v1 are not" in said
    repository.git("add", "--force", V1)
    repository.git("commit", "-q", "-m", "all of it")


def test_the_pointer_of_dvc_counts(repository: Repository) -> None:
    repository.git("rm", "-r", "-q", "--cached", V1)
    home = repository.root / "artifacts" / "mlp"
    (home / ".gitignore").write_text("/artifact_v1\n")
    (home / "artifact_v1.dvc").write_text("outs:\n- path: artifact_v1\n")
    repository.git("add", "artifacts/mlp/.gitignore")
    said = repository.git("commit", "-m", "dvc", fails=True)
    assert "artifacts/mlp/artifact_v1.dvc is not staged" in said
    repository.git("add", "artifacts")
    repository.git("commit", "-q", "-m", "dvc")
    shutil.rmtree(home / "artifact_v1")
    done = repository.check()
    assert (done.code, done.json["error"]["hint"]) == (11, "dvc pull artifacts/mlp/artifact_v1.dvc")


def test_a_linked_working_tree_and_a_folder_below(repository: Repository, tmp_path: Path) -> None:
    """git tells hooks where the index is, in words that hold at the top of the working tree only."""
    deep = repository.root / "deep er"
    deep.mkdir()
    for name in ("artifactctl.yaml", "models", "artifacts"):
        repository.git("mv", name, f"deep er/{name}")
    repository.hook(PLAIN_HOOK.replace(" build", ' -C "deep er" build'))
    repository.git("commit", "-q", "-m", "deeper")
    other = tmp_path / "other tree"
    repository.git("worktree", "add", "-q", str(other), "-b", "other")
    shutil.copy(MODELS / "tokens.onnx", other / "deep er" / "models" / "mlp.onnx")
    said = repository.git("commit", "-a", "-m", "model", cwd=other, fails=True)
    assert "models/mlp.onnx has changed" in said
    repository.git("checkout", "--", ".", cwd=other)
    repository.git("rm", "-q", "--cached", f"deep er/{V1}/golden.npz", cwd=other)
    assert f"{V1}/golden.npz is not staged" in repository.git("commit", "-m", "part", cwd=other, fails=True)
    repository.git("add", ".", cwd=other)
    repository.git("commit", "-q", "--allow-empty", "-m", "fine", cwd=other)


def test_without_git(cli: Cli, project: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(project, tmp_path / "plain"))
    assert cli("build", "--check", cwd=place).code == 0
    shutil.copy(MODELS / "tokens.onnx", place / "models" / "mlp.onnx")
    done = cli("build", "--check", "--json", cwd=place)
    assert (done.code, done.json["error"]["hint"]) == (11, "artifactctl build mlp")


def test_a_repository_that_git_refuses_is_not_passed(repository: Repository) -> None:
    (repository.root / ".git" / "HEAD").write_text("nonsense\n")
    done = repository.check()
    assert done.code == 9
    assert "is not in a git repository" in done.json["error"]["message"]


def test_without_a_configuration_there_is_nothing_to_check(cli: Cli, tmp_path: Path) -> None:
    done = cli("build", "--check", "--json")
    assert (done.code, done.json["data"]["artifacts"]) == (0, [])
    assert "nothing to check" in done.err
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    named = cli("build", "--check", "mlp.onnx", "--json")
    assert (named.code, named.json["error"]["hint"]) == (11, "artifactctl build mlp.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlp.onnx"]
    assert cli("build", "--check", "--force").code == 2


def test_a_check_loads_nothing_heavy(project: Path) -> None:
    assert run_cli("build", "--check", "-q", cwd=project).code == 0  # remembers that the configuration is valid
    code = (
        "from artifactctl.cli import run; assert run(['-q', 'build', '--check']) == 0; import sys; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert not {"numpy", "onnx", "onnxruntime", "torch", "olive", "jsonschema", "rich"} & set(done.stdout.split())


@pytest.fixture(scope="session")
def pre_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real program, in a venv of its own."""
    place = tmp_path_factory.mktemp("pre-commit") / "venv"
    subprocess.run([sys.executable, "-m", "venv", place], check=True, capture_output=True)
    scripts = place / ("Scripts" if os.name == "nt" else "bin")
    pip = [scripts / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", ROOT / "constraints.txt", "pre-commit"], check=True, capture_output=True)
    return scripts / "pre-commit"


def test_the_hooks_are_as_pre_commit_wants_them(pre_commit: Path) -> None:
    for kind, name in (("manifest", ".pre-commit-hooks.yaml"), ("config", "templates/pre-commit.yaml")):
        done = subprocess.run(
            [pre_commit, f"validate-{kind}", ROOT / name], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_init_writes_the_hooks_of_the_manifest() -> None:
    manifest = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    [local] = yaml.safe_load((ROOT / "templates" / "pre-commit.yaml").read_text())["repos"]
    bare = [{key: value for key, value in hook.items() if key not in ("description", "language")} for hook in manifest]
    assert [{key: value for key, value in hook.items() if key != "language"} for hook in local["hooks"]] == bare
    assert [hook["id"] for hook in manifest] == ["artifactctl-check", "artifactctl-build"]


def test_pre_commit_itself(repository: Repository, pre_commit: Path, tmp_path: Path) -> None:
    """What `init` writes, installed by pre-commit; it sets aside what is not staged, so that does not count."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "artifactctl").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m artifactctl "$@"\n')
    (scripts / "artifactctl").chmod(0o755)
    path = f"{scripts}{os.pathsep}{repository.env['PATH']}"
    repository = Repository(repository.root, repository.env | {"PATH": path, "PRE_COMMIT_HOME": str(tmp_path / "home")})
    (repository.root / ".git" / "hooks" / "pre-commit").unlink()
    assert run_cli("init", "--pre-commit", "-q", cwd=repository.root).code == 0
    subprocess.run([pre_commit, "install"], cwd=repository.root, env=repository.env, check=True, capture_output=True)
    repository.git("add", ".")
    said = repository.git("commit", "-m", "hooks")
    assert "artifactctl build --check" in said
    assert "Passed" in said

    repository.change_model()
    (repository.root / "notes.txt").write_text("hello")
    repository.git("add", "notes.txt")
    repository.git("commit", "-m", "notes, and a model that is not staged")
    said = repository.git("commit", "-a", "-m", "model", fails=True)
    assert "artifactctl build mlp && git add artifacts/mlp/artifact_v2" in said
    repository.git("checkout", "-q", "HEAD", "--", ".")
    repository.git("rm", "-r", "-q", V1)
    assert "it has no artifact yet" in repository.git("commit", "-m", "only a deletion", fails=True)


def test_init_extends_nothing(cli: Cli, tmp_path: Path) -> None:
    own = "repos:\n  - repo: local\n    hooks: []\n"
    path = tmp_path / ".pre-commit-config.yaml"
    path.write_text(own)
    done = cli("init", "--pre-commit", "--json")
    entry = done.json["data"]["files"][1]
    assert (done.code, entry["status"], path.read_text()) == (0, "kept", own)
    assert entry["add"] in done.err
    path.write_text(own + entry["add"])
    assert len(yaml.safe_load(path.read_text())["repos"][1]["hooks"]) == 2
    assert "add" not in cli("init", "--pre-commit", "--json").json["data"]["files"][1]
    path.write_text(own + entry["add"].split("      - id: artifactctl-build")[0])
    again = cli("init", "--pre-commit", "--json").json["data"]["files"][1]["add"]
    assert "artifactctl-build" in again
    assert "artifactctl-check" not in again
