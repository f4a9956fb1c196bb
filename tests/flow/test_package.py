"""package, in both formats: the same bytes anywhere, nothing of the machine inside, never another one's place."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from artifactctl import folder, schema
from artifactctl.backends.ortpackages import open_ort_package
from tests.conftest import Finished, clean_environment, run_cli
from tests.flow.refusal import contents, fails, finish, hear, refused, start, survivors

Cli = Callable[..., Finished]

pytestmark = pytest.mark.xdist_group("built")

FORMATS = ("zip", "ortpackage")
NAME = "mlp-artifact_v1"
SOMEBODY = "a-user-of-this-test"


@pytest.fixture(scope="module")
def packages(built: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """dist/ of the same artifact twice, with both formats in each: other folder, umask, time zone, locale, hashes."""
    place = tmp_path_factory.mktemp("packages")
    homes = (place / "a", place / "another place" / "deep")
    settings = ({"TZ": "UTC", "PYTHONHASHSEED": "1"}, {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "2", "LC_ALL": "C"})
    for home, umask, env in zip(homes, (0o022, 0o077), settings, strict=True):
        shutil.copytree(built, home / "artifacts" / "mlp" / built.name)
        for form in FORMATS:
            subprocess.run(
                [sys.executable, "-m", "artifactctl", "package", f"artifacts/mlp/{built.name}", "--format", form, "-q"],
                cwd=home,
                env=clean_environment(HOME=str(home), USER=SOMEBODY, LOGNAME=SOMEBODY, **env),
                check=True,
                umask=umask,
            )
    return homes[0] / "dist", homes[1] / "dist"


def test_the_same_bytes_anywhere(packages: tuple[Path, Path]) -> None:
    first, second = packages
    assert (first / f"{NAME}.zip").read_bytes() == (second / f"{NAME}.zip").read_bytes()
    assert contents(first) == contents(second)
    assert sorted(path.name for path in first.iterdir()) == [f"{NAME}.ortpackage", f"{NAME}.zip"]
    for place in (second / f"{NAME}.ortpackage").rglob("*"):
        assert place.stat().st_mode & 0o777 == (0o755 if place.is_dir() else 0o644), place


def test_nothing_of_the_machine_is_inside(packages: tuple[Path, Path]) -> None:
    dist = packages[1]
    files = {name: (dist / name).read_bytes() for name in folder.listing(dist) if not name.endswith(".zip")}
    with zipfile.ZipFile(dist / f"{NAME}.zip") as archive:
        files |= {name: archive.read(name) for name in archive.namelist()}
    assert any(name.endswith("BestCandidateModel_1/model_info.json") for name in files), files.keys()
    for name, content in files.items():
        for secret in (str(dist.parent), str(dist.parent.parent), str(Path.home()) + "/", SOMEBODY):
            assert secret.encode() not in content, (name, secret)
        if name.endswith((".json", ".yaml", ".md", ".py")):
            assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", content.decode()), name
        if name.endswith(".json"):
            assert not re.search(r'"(/|[A-Za-z]:\\|file:)', content.decode()), name


def test_onnx_runtime_opens_what_was_written(packages: tuple[Path, Path], built: Path) -> None:
    place = packages[1] / f"{NAME}.ortpackage"
    found = open_ort_package(str(place), session=True)
    assert found["components"] == {"mlp": {"cpu": "CPUExecutionProvider"}}
    assert found["loaded"] == {"mlp": {"inputs": 1, "outputs": 1}}
    assert folder.digest(place / "models/mlp/cpu/model_opt.onnx") == folder.digest(built / "model_opt.onnx")


@pytest.mark.parametrize("form", FORMATS)
def test_again_is_unchanged_and_what_was_killed_is_cleaned(
    cli: Cli, artifact: Path, packages: tuple[Path, Path], tmp_path: Path, form: str
) -> None:
    dist = Path(shutil.copytree(packages[0], tmp_path / "dist"))
    before = contents(dist)
    left = dist / f".{NAME}.{form}.part"
    if form == "zip":
        left.write_bytes(b"PK")
    else:
        (left / "models").mkdir(parents=True)
        (left / "models" / "half").write_bytes(b"half")
    done = cli("package", "mlp/artifact_v1", "--format", form, "--json")
    assert done.code == 0, done.err
    assert schema.problems(done.json, "report") == []
    target = dist / f"{NAME}.{form}"
    assert done.json["data"] == {
        "path": f"dist/{NAME}.{form}",
        "sha256": folder.content_digest(target),
        "size_bytes": folder.content_size(target),
        "status": "unchanged",
    }
    assert contents(dist) == before


@pytest.mark.parametrize("form", FORMATS)
def test_two_at_once_into_one_folder(cli: Cli, artifact: Path, tmp_path: Path, form: str) -> None:
    """The second begins and ends while the first is in the middle: neither takes the other's files away."""
    words = ("package", "mlp/artifact_v1", "--format", form, "--json")
    (tmp_path / "temporary").mkdir()
    first = start(*words, cwd=tmp_path)
    heard = hear(first, "opening it again")
    first.send_signal(signal.SIGSTOP)
    try:
        (half,) = (tmp_path / "dist").glob(".*.part")
        second = cli(*words)
        mended = cli("doctor", "--mend", "--json", env={"TMPDIR": str(tmp_path / "temporary")})
        assert half.is_dir()
    finally:
        first.send_signal(signal.SIGCONT)
    done = finish(first, heard)
    assert (second.code, done.code) == (0, 0), second.err + done.err
    assert mended.json["data"]["leftovers"] == []
    assert (second.json["data"]["status"], done.json["data"]["status"]) == ("written", "unchanged")
    assert second.json["data"]["sha256"] == done.json["data"]["sha256"]
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [f"{NAME}.{form}"]


@pytest.mark.parametrize("form", FORMATS)
def test_what_a_kill_leaves_is_named_and_mended(cli: Cli, artifact: Path, tmp_path: Path, form: str) -> None:
    (tmp_path / "temporary").mkdir()
    own = {"TMPDIR": str(tmp_path / "temporary")}  # the machine's may hold what others killed
    first = start("package", "mlp/artifact_v1", "--format", form, cwd=tmp_path)
    hear(first, "opening it again")
    first.kill()
    first.communicate()
    survivors(tmp_path)
    (half,) = (tmp_path / "dist").glob(".*.part")
    (found,) = cli("doctor", "--mend", "--json", env=own).json["data"]["leftovers"]
    assert (found["path"], found["removed"]) == (f"dist/{half.name}", True)
    assert list((tmp_path / "dist").iterdir()) == []


def test_the_digest_of_a_folder_is_that_of_its_list(packages: tuple[Path, Path]) -> None:
    place = packages[0] / f"{NAME}.ortpackage"
    names = ["manifest.json", "models/mlp/component.json", "models/mlp/cpu/model_opt.onnx"]
    listed = subprocess.run(["sha256sum", *names], cwd=place, capture_output=True, check=True).stdout
    summed = subprocess.run(["sha256sum"], input=listed, capture_output=True, check=True).stdout
    assert folder.content_digest(place) == summed.decode().split()[0]


@pytest.mark.parametrize("form", FORMATS)
def test_another_package_in_its_place_is_a_conflict(
    cli: Cli, artifact: Path, packages: tuple[Path, Path], tmp_path: Path, form: str
) -> None:
    dist = Path(shutil.copytree(packages[0], tmp_path / "dist"))
    target = dist / f"{NAME}.{form}"
    mine = folder.content_digest(target)
    with (target if form == "zip" else target / "manifest.json").open("ab") as file:
        file.write(b"\n")
    before = contents(tmp_path)
    done = cli("package", "mlp/artifact_v1", "--format", form, "--json")
    assert (done.code, done.json["error"]["name"]) == (11, "Conflict")
    assert mine in done.json["error"]["message"]
    assert folder.content_digest(target) in done.json["error"]["message"]
    assert contents(tmp_path) == before


def test_verify_says_what_to_do_with_a_package_of_onnx_runtime(cli: Cli, packages: tuple[Path, Path]) -> None:
    """It holds nothing to be checked by; the command that is named compares it with the artifact."""
    home = packages[0].parent
    error = refused(cli("verify", f"dist/{NAME}.ortpackage", "--json", cwd=home), 10, "a package of ONNX Runtime")
    command = error["hint"].rpartition(": artifactctl ")[2]
    assert command == "package artifacts/mlp/artifact_v1 --format ortpackage --output dist"
    assert cli(*command.split(), "--json", cwd=home).json["data"]["status"] == "unchanged"


@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_artifact_is_not_packaged(cli: Cli, artifact: Path, tmp_path: Path, form: str) -> None:
    with (artifact / "model_opt.onnx").open("r+b") as file:
        file.write(b"\xff")
    fails(cli, tmp_path, 10, "package", "mlp/artifact_v1", "--format", form, names=("model_opt.onnx was changed",))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("output", ["dist", "dist/deep"])
def test_a_place_that_cannot_be_written_to(cli: Cli, artifact: Path, tmp_path: Path, form: str, output: str) -> None:
    (tmp_path / "dist").write_text("a file")
    words = ("package", "mlp/artifact_v1", "--format", form, "--output", output)
    error = fails(cli, tmp_path, 9, *words, names=("dist is not a folder",))
    assert "--output DIR" in error["hint"]


def test_the_time_of_the_members_is_source_date_epoch(
    artifact: Path, packages: tuple[Path, Path], tmp_path: Path
) -> None:
    env = {"SOURCE_DATE_EPOCH": "1700000001", "TZ": "Asia/Tokyo"}
    done = run_cli("package", "mlp/artifact_v1", "--json", cwd=tmp_path, env=env)
    assert done.code == 0, done.err
    with zipfile.ZipFile(tmp_path / done.json["data"]["path"]) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        found = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(packages[0] / f"{NAME}.zip") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert found == {name: archive.read(name) for name in archive.namelist()}
    assert run_cli("verify", done.json["data"]["path"], cwd=tmp_path).code == 0


def test_a_source_date_epoch_that_is_no_time(cli: Cli, artifact: Path, tmp_path: Path) -> None:
    done = cli("package", "mlp/artifact_v1", "--json", env={"SOURCE_DATE_EPOCH": "yesterday"})
    assert (done.code, done.json["error"]["name"]) == (3, "ConfigError")
    assert not list(tmp_path.glob("dist/*"))


def test_build_and_package_in_one_command(built: Path, packages: tuple[Path, Path], tmp_path: Path) -> None:
    """Also of a version that is there already, to the same bytes; --check packages nothing."""
    home = built.parents[2]
    place = tmp_path / "dist"
    done = run_cli("build", "mlp.onnx", "--package", place, "--json", cwd=home)
    assert done.code == 0, done.err
    (entry,) = done.json["data"]["artifacts"]
    assert (entry["status"], entry["package"]["status"]) == ("unchanged", "written")
    assert (place / f"{NAME}.zip").read_bytes() == (packages[0] / f"{NAME}.zip").read_bytes()
    assert schema.problems(done.json, "report") == []
    refused = run_cli("build", "mlp.onnx", "--check", "--package", place, cwd=home)
    assert (refused.code, "--package" in refused.err) == (2, True)
