"""The reusable workflow, run by act from a consumer's repository: real jobs, real providers, a real bare remote."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from filelock import FileLock

from artifactctl import schema, tags
from tests import act
from tests.act import Ran, Runner, git
from tests.conftest import MODELS, ROOT, run_cli
from tests.flow.test_bench import dense
from tests.hub import ReleasesServer
from tests.programs import CACHE

HEAVY = ("torch", "olive-ai", "onnxruntime-gpu")
FAST = {"latency": {"budget_s": 1}, "optimize": {"recipes": ["fp32"]}}
QDQ = {"source": {"onnx": "models/qdq.onnx"}, **FAST}
OWN_BOUNDS = {"cpu": {}, "openvino": {"max_abs": 0.05}, "qnn": {"max_abs": 0.2}}


def workflow(**inputs: Any) -> str:
    """What `init --workflow` writes, pinned to the copy under test."""
    document = yaml.safe_load((ROOT / "templates/workflow.yml").read_text(encoding="utf-8").replace("PIN", act.REF))
    document = {
        "name": document["name"],
        "on": {"push": {}, "pull_request": {}},
        "permissions": {},
        "jobs": document["jobs"],
    }
    document["jobs"]["artifact"]["with"] = inputs
    return yaml.safe_dump(document, sort_keys=False)


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Environments are made by the actions' own installer, and kept; that of the build is the tests' own."""
    made = Runner(tmp_path_factory.mktemp("act"), Path(sys.executable).with_name("act"), CACHE)
    install = act.installer(made.shipped)
    kept = CACHE / "artifactctl-environments"
    kept.mkdir(parents=True, exist_ok=True)
    wanted = {
        (provider, extras): install.key(install.requirements(provider, extras, ""))
        for provider, extras in (("", ""), ("", "cpu"), ("", "build,cpu"), ("cpu", ""), ("openvino", ""), ("qnn", ""))
    }
    (kept / wanted["", "build,cpu"]).write_text(sys.prefix, encoding="utf-8")
    with FileLock(CACHE / "environments.lock"):
        for found in kept.iterdir():  # of older states of the source
            if not found.name.startswith(tuple(wanted.values())):
                shutil.rmtree(found) if found.is_dir() else found.unlink()
        for (provider, extras), key in wanted.items():
            if install.found(kept / key) is None:
                install.install(kept / key, install.requirements(provider, extras, ""))
    return made


@pytest.fixture(scope="session")
def past(runner: Runner) -> Path:
    """artifacts/ with a version of each model, as an earlier commit brings it; kept, as environments are."""
    install = act.installer(runner.shipped)
    place = CACHE / "past" / install.key([json.dumps(trouble()), (MODELS / "qdq.onnx").read_bytes().hex()])
    with FileLock(CACHE / "past.lock"):
        if not (place / "artifacts").is_dir():
            shutil.rmtree(CACHE / "past", ignore_errors=True)
            part = place.with_name("part")
            _build_past(part)
            part.rename(place)
    return place


def _build_past(place: Path) -> None:
    (place / "models").mkdir(parents=True)
    shutil.copyfile(MODELS / "qdq.onnx", place / "models/qdq.onnx")
    dense(place / "models/dense.onnx", 1)
    (place / "artifactctl.yaml").write_text(yaml.safe_dump(trouble(), sort_keys=False), encoding="utf-8")
    done = run_cli("build", "--json", cwd=place)
    assert done.code == 0, done.err


def trouble(budget_s: float = 1) -> Any:
    """qnn without a bound of its own; a machine that is not the one that it is said to be."""
    own = {"cpu": {}, "openvino": {"max_abs": 0.05}, "qnn": {}, "cpu-arm64": {}}
    dense = {"source": {"onnx": "models/dense.onnx"}, **FAST, "latency": {"budget_s": budget_s}}
    models = {"qdq": QDQ | {"providers": own}, "dense": dense}
    return json.loads(json.dumps({"schema_version": 1, "models": models}))  # no two places are one object: no aliases


def with_past(place: Path, past: Path, text: str, budget_s: float = 1) -> Path:
    files = {path.relative_to(past).as_posix(): path for path in past.rglob("*") if path.is_file()}
    kept = {name: path for name, path in files.items() if "/.work/" not in name and name != "artifactctl.yaml"}
    return act.consumer(place, trouble(budget_s), kept, text)


def results(ran: Ran) -> dict[str, str]:
    return {name.removeprefix("artifact/"): result for name, result in ran.jobs.items()}


@pytest.mark.xdist_group("act release")
def test_from_a_push_to_a_release(runner: Runner, tmp_path: Path) -> None:
    """The first run fails in the middle of its release; run again from the same commit, it completes just that one."""
    configuration = {"schema_version": 1, "models": {"qdq": QDQ | {"providers": OWN_BOUNDS}}}
    files = {"models/qdq.onnx": MODELS / "qdq.onnx"}
    place = act.consumer(tmp_path / "consumer", configuration, files, workflow(release=True))
    bare = tmp_path / "consumer.git"
    cells = {f"verify qdq · {name}-{number}": "success" for number, name in enumerate(OWN_BOUNDS, 1)}
    green = {"plan": "success", "build": "success", **cells, "gate": "success"}
    with ReleasesServer("team/consumer", token="of-the-test") as server:
        env = {"GITHUB_REPOSITORY": "team/consumer", "GITHUB_API_URL": server.api}
        server.fail(4, "before")
        first = runner.run(place, env=env)
        assert results(first) == green | {"release": "failure"}, first.log
        assert any("ReleaseError" in each["title"] for each in first.annotations)
        tag = git(bare, "rev-parse", "refs/tags/qdq/artifact_v1")
        assert not [release for release in server.releases if not release.draft]

        git(place, "fetch", "--quiet", "--tags")  # as a full checkout on GitHub does
        second = runner.run(place, env=env)
        assert results(second) == green | {"release": "success"}, second.log
        assert git(bare, "rev-parse", "refs/tags/qdq/artifact_v1") == tag
        published = server.published("qdq/artifact_v1")
    message = git(bare, "cat-file", "tag", "qdq/artifact_v1").partition("\n\n")[2]
    package = tags.parse_trailers(message)["Artifact-Package-Digest"]
    assert published["qdq-artifact_v1.zip"] == package
    assert "qdq-artifact_v1.SHA256SUMS" in published
    attested = (runner.home / "store" / place.name / "attested").read_text()
    assert attested == f"{package.removeprefix('sha256:')}  qdq-artifact_v1.zip\n"
    for provider in ("openvino", "qnn"):
        text = git(bare, "show", f"main:artifacts/qdq/artifact_v1.cells/{provider}.json")
        cell = json.loads(text)
        assert schema.problems(cell, "cell") == []
        assert (cell["provider"], cell["verdict"], cell["emulated"]) == (provider, "equivalent", provider == "qnn")
    assert "✅ artifactctl: every cell is proved" in second.page
    assert "emulated" in second.page
    assert "`qdq` artifact_v1: unchanged" in second.page


@pytest.mark.xdist_group("act trouble")
def test_red_missing_and_stale_cells(runner: Runner, past: Path, tmp_path: Path) -> None:
    given = workflow(release=True, runners="cpu-arm64=ubuntu-24.04", models="qdq")
    place = with_past(tmp_path / "consumer", past, given)
    ran = runner.run(place, env={"ACTIONS_STALE": "artifactctl-cell-qdq-openvino"})
    assert results(ran) == {
        "plan": "success", "build": "success", "verify qdq · cpu-1": "success", "verify qdq · openvino-2": "success",
        "verify qdq · qnn-3": "failure", "verify qdq · cpu-arm64-4": "failure", "gate": "failure",
    }, ran.log  # fmt: skip
    lines = (place / "artifactctl.yaml").read_text().splitlines()
    told = {each["message"].partition(":")[0]: each for each in ran.annotations if "line" in each}
    assert set(told) == {"qdq on qnn", "qdq on cpu-arm64", "qdq on openvino"}, ran.annotations
    assert "different" in told["qdq on qnn"]["message"]
    assert "missing" in told["qdq on cpu-arm64"]["message"]
    assert "stale" in told["qdq on openvino"]["message"]
    assert lines[int(told["qdq on openvino"]["line"]) - 1].strip() == "openvino:"
    assert all(each["file"] == "artifactctl.yaml" for each in told.values())
    assert "artifactctl verify artifacts/qdq/artifact_v1 --provider qnn" in told["qdq on qnn"]["message"]
    assert "❌ artifactctl: 3 of 4 cells are not proved" in ran.page
    assert git(tmp_path / "consumer.git", "tag") == ""


@pytest.mark.xdist_group("act trouble")
def test_a_slower_model(runner: Runner, past: Path, tmp_path: Path) -> None:
    place = with_past(tmp_path / "consumer", past, workflow(release=True, models="dense"), budget_s=60)
    dense(place / "models/dense.onnx", 20)
    git(place, "commit", "--quiet", "-am", "slower")
    ran = runner.run(place)
    assert results(ran) == {"plan": "success", "build": "failure", "gate": "failure"}, ran.log
    slower = next(each for each in ran.annotations if each["title"] == "artifactctl LatencyRegression")
    lines = (place / "artifactctl.yaml").read_text().splitlines()
    assert (slower["file"], lines[int(slower["line"]) - 1].strip()) == ("artifactctl.yaml", "latency:")
    assert "artifactctl build" in slower["message"]
    assert git(tmp_path / "consumer.git", "tag") == ""


HOSTILE = "$(touch pwned)`touch pwned`'\"; touch pwned\n::error::pwned"


@pytest.mark.xdist_group("act release")
@pytest.mark.parametrize("where", ["configuration", "input"])
def test_a_hostile_name_of_a_model(runner: Runner, tmp_path: Path, where: str) -> None:
    """Nothing is run, nothing is published; the message shows it as text."""
    model = {"source": {"onnx": "models/qdq.onnx"}}
    names = {HOSTILE: model} if where == "configuration" else {"qdq": model}
    given = workflow(release=True, **({"models": HOSTILE} if where == "input" else {}))
    files = {"models/qdq.onnx": MODELS / "qdq.onnx"}
    place = act.consumer(tmp_path / "consumer", {"schema_version": 1, "models": names}, files, given)
    ran = runner.run(place)
    assert results(ran) == {"plan": "failure", "gate": "failure"}, ran.log
    assert not [*tmp_path.rglob("pwned"), *runner.home.rglob("pwned")]
    assert not [each for each in ran.annotations if each["message"] == "pwned"]
    assert any(each["title"] == "artifactctl ConfigError" for each in ran.annotations)


@pytest.mark.xdist_group("act trouble")
def test_a_pull_request_from_a_fork(runner: Runner, tmp_path: Path) -> None:
    """From a branch with a hostile name: it is built and proved, nothing is released, and the page says so."""
    configuration = {"schema_version": 1, "models": {"qdq": QDQ}}
    files = {"models/qdq.onnx": MODELS / "qdq.onnx"}
    place = act.consumer(tmp_path / "consumer", configuration, files, workflow(release=True))
    branch = "x$(touch${IFS}pwned)`touch${IFS}pwned`';touch${IFS}pwned;\""
    git(place, "switch", "--quiet", "-c", branch)
    repository = {"full_name": "stranger/consumer", "fork": True}
    payload = {"pull_request": {"head": {"ref": branch, "repo": repository}, "base": {"ref": "main"}}}
    ran = runner.run(place, "pull_request", payload)
    green = ("plan", "build", "verify qdq · cpu", "gate")
    assert results(ran) == dict.fromkeys(green, "success"), ran.log
    assert "nothing is released" in ran.page
    assert not [*tmp_path.rglob("pwned"), *runner.home.rglob("pwned")]
    assert git(tmp_path / "consumer.git", "tag") == ""


@pytest.mark.xdist_group("act trouble")
def test_a_cell_installs_neither_torch_nor_olive(runner: Runner) -> None:
    """Of all environments that the actions made, only that of the build has them."""
    kept = CACHE / "artifactctl-environments"
    made = [path for path in kept.iterdir() if path.is_dir()]
    assert len(made) == 4
    for place in made:
        words = [place / "bin/python", "-m", "pip", "list", "--format=json"]
        listed = subprocess.run(words, capture_output=True, check=True)
        names = {entry["name"].lower() for entry in json.loads(listed.stdout)}
        assert "artifactctl" in names
        assert not names & set(HEAVY)
