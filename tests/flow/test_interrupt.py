"""Killed, interrupted, crowded or out of space: an artifact is whole or it is not there."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from artifactctl import folder
from tests.conftest import MODELS, Finished, run_cli
from tests.flow.refusal import finish, hear, leftovers, refused, start, survivors, versions, workers

Cli = Callable[..., Finished]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    yield tmp_path
    for left in workers(tmp_path):  # only after a failed test
        left.kill()


def _whole(project: Path) -> int:
    """How many versions there are; each is whole."""
    found = versions(project)
    for path in found:
        assert folder.damage(path) == [], path
    return len(found)


@pytest.mark.parametrize(
    ("moment", "whom"),
    [("reading", "process"), ("asking the source", "group"), ("fp32: optimizing", "process"), ("timing", "group")],
)
def test_ctrl_c_leaves_nothing(project: Path, moment: str, whom: str) -> None:
    process = start("build", "mlp.onnx", "--json", cwd=project)
    heard = hear(process, moment)
    if whom == "group":  # what a terminal does
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    refused(finish(process, heard), 130, "interrupted")
    assert versions(project) == []
    assert leftovers(project) == []
    assert survivors(project) == []


def test_ctrl_c_while_the_artifact_is_written(project: Path) -> None:
    """At the last moment it may be there already; then it is whole."""
    process = start("build", "mlp.onnx", "--json", cwd=project)
    heard = hear(process, "writing")
    process.send_signal(signal.SIGINT)
    done = finish(process, heard)
    assert done.code in (0, 130), done.err
    assert _whole(project) in ([1] if done.code == 0 else [0, 1])
    assert (leftovers(project), survivors(project)) == ([], [])


def test_ctrl_c_again_and_again(project: Path) -> None:
    """Impatience while the first one is cleaning up."""
    process = start("build", "mlp.onnx", "--json", cwd=project)
    heard = hear(process, "asking the source")
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
    refused(finish(process, heard), 130, "interrupted")
    assert (versions(project), leftovers(project), survivors(project)) == ([], [], [])


def test_sigterm_is_an_interruption_too(project: Path) -> None:
    process = start("build", "mlp.onnx", "--json", cwd=project)
    heard = hear(process, "asking the source")
    process.terminate()
    refused(finish(process, heard), 130, "interrupted")
    assert (versions(project), leftovers(project), survivors(project)) == ([], [], [])


def test_kill_9_at_any_moment(cli: Cli, project: Path) -> None:
    moments = random.Random(20)
    killed = 0
    for _ in range(8):
        process = start("build", "mlp.onnx", "--force", cwd=project)
        try:
            process.communicate(timeout=moments.uniform(0.2, 10))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            killed += 1
        assert survivors(project) == [], "children die with their parent"
        _whole(project)
    assert killed, "no build was killed, so this test would show nothing"
    before = _whole(project)
    done = cli("build", "mlp.onnx", "--force", "--json")
    assert done.code == 0, done.err
    assert _whole(project) == before + 1
    assert leftovers(project) == [], "what killed builds left is cleaned by the next"
    assert survivors(project) == []


@pytest.mark.parametrize(
    ("options", "statuses", "count"), [((), ["built", "unchanged"], 1), (("--force",), ["built", "built"], 2)]
)
def test_two_builds_at_once(project: Path, options: tuple[str, ...], statuses: list[str], count: int) -> None:
    both = [start("build", "mlp.onnx", "--json", *options, cwd=project) for _ in range(2)]
    done = [finish(process) for process in both]
    assert [item.code for item in done] == [0, 0], [item.err for item in done]
    found = [item.json["data"]["artifacts"][0] for item in done]
    assert sorted(entry["status"] for entry in found) == statuses
    assert sorted({entry["version"] for entry in found}) == list(range(1, count + 1))
    assert _whole(project) == count
    assert leftovers(project) == []


def _kill_worker(process: subprocess.Popen[str], name: str, times: int = 1) -> None:
    """SIGKILL to a child as soon as it is there, and to those that take its place: to its parent that is a crash."""
    parent, dead = psutil.Process(process.pid), set[int]()
    while process.poll() is None:
        for child in parent.children():
            try:
                if child.pid not in dead and child.cwd().endswith(f"worker-{name}"):
                    child.kill()
                    dead.add(child.pid)
                if len(dead) == times:
                    return
            except psutil.Error:
                continue
    raise AssertionError(f"there was no {name}: {process.communicate()[1]}")


def test_a_crash_while_the_source_is_read(project: Path) -> None:
    process = start("build", "mlp.onnx", "--json", cwd=project)
    _kill_worker(process, "runner")
    refused(finish(process), 4, "mlp", "crashed with SIGKILL")
    assert (versions(project), leftovers(project), survivors(project)) == ([], [], [])


def test_one_crash_of_a_recipe_is_none(project: Path) -> None:
    process = start("build", "mlp.onnx", "--recipe", "fp32", "--json", cwd=project)
    _kill_worker(process, "olive")
    done = finish(process)
    assert done.code == 0, done.err
    assert done.json["data"]["artifacts"][0]["candidates"][0]["equivalence"]


def test_two_crashes_in_the_only_recipe(project: Path) -> None:
    process = start("build", "mlp.onnx", "--recipe", "fp16", "--json", cwd=project)
    _kill_worker(process, "olive", times=2)
    refused(finish(process), 5, "fp16", "crashed with SIGKILL")
    assert (versions(project), leftovers(project), survivors(project)) == ([], [], [])


def test_a_crash_in_one_recipe_of_three(project: Path) -> None:
    words = [word for name in ("fp32", "fp16", "int8-dynamic") for word in ("--recipe", name)]
    process = start("build", "mlp.onnx", *words, "--json", cwd=project)
    heard = hear(process, "recipe fp16: optimizing")
    _kill_worker(process, "olive", times=2)
    done = finish(process, heard)
    assert done.code == 0, done.err
    found = {item["recipe"]: item for item in done.json["data"]["artifacts"][0]["candidates"]}
    assert found["fp32"]["equivalence"]
    dead = [name for name, item in found.items() if "crashed with SIGKILL" in item["reason"]]
    assert len(dead) == 1, "the others have a process of Olive too, before and after"
    assert dead[0] in ("fp16", "int8-dynamic")
    assert (leftovers(project), survivors(project)) == ([], [])


@pytest.mark.parametrize("moment", ["asking the source", "recipe fp32: optimizing", "recipe fp16: proving", "timing"])
def test_a_crash_of_the_runtime_is_never_the_death_of_the_tool(project: Path, moment: str) -> None:
    """What was lost is an error with a name, or a recipe that is rejected; either way nothing half-made is left."""
    process = start("build", "mlp.onnx", "--json", cwd=project)
    heard = hear(process, moment)
    _kill_worker(process, "runner")
    done = finish(process, heard)
    assert done.code in (0, 4, 5), done.err
    if done.code:
        refused(done, done.code, "mlp", "crashed with SIGKILL")
    assert _whole(project) == (done.code == 0)
    assert (leftovers(project), survivors(project)) == ([], [])


@pytest.fixture
def full_disk(tmp_path: Path, built: Path) -> Iterator[Callable[[str], tuple[Path, Finished, bool]]]:
    """Builds onto a disk that is too small: a tiny tmpfs, or where mounting is not allowed a limit on file sizes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    pages = sum(-(-(built / name).stat().st_size // 4096) for name in folder.listing(built))
    mounted = False

    def build(size: str) -> tuple[Path, Finished, bool]:
        nonlocal mounted
        bytes_ = {"no room for samples": 5 * 4096, "no room for the artifact": pages * 4096}[size]
        mount = ["mount", "-t", "tmpfs", "-o", f"size={bytes_}", "tmpfs", str(disk)]
        mounted = subprocess.run(mount, check=False, capture_output=True).returncode == 0
        shutil.copy(MODELS / "mlp.onnx", tmp_path)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if not mounted:
            largest = max((built / name).stat().st_size for name in folder.listing(built))
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2 if "artifact" in size else 512, limits[1]))
        try:
            return disk, run_cli("build", "mlp.onnx", "--output", disk, "--json", cwd=tmp_path), mounted
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    yield build
    if mounted:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.xdist_group("built")
@pytest.mark.parametrize("size", ["no room for samples", "no room for the artifact"])
def test_a_full_disk(full_disk: Callable[[str], tuple[Path, Finished, bool]], size: str) -> None:
    disk, done, mounted = full_disk(size)
    refused(done, 9, *(["no space left"] if mounted else []))
    assert list(disk.glob("mlp/artifact_v*")) == []
    assert leftovers(disk) == []
    assert survivors(disk) == []


def test_a_file_larger_than_the_limit(project: Path) -> None:
    """ulimit -f, or a quota: the same as a full disk to the user."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limits[1]))
    try:
        done = run_cli("build", "mlp.onnx", "--json", cwd=project)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    refused(done, 9)
    assert (versions(project), leftovers(project), survivors(project)) == ([], [], [])
