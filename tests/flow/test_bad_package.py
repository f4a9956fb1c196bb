"""verify, check and inspect of a package: as of a folder, or refused; nothing is written and no code of it is run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from artifactctl import archive, folder
from tests.conftest import MODELS, Finished
from tests.flow.refusal import contents, fails
from tests.models import hostile
from tests.unit.test_genuine import EVIL, edit, replaced, seal

Cli = Callable[..., Finished]

pytestmark = pytest.mark.xdist_group("built")

SOME = ("name '../evil'", "link out of the target", "the same name twice", "ratio bomb", "bytes in front", "no bytes")


def inside(artifact: Path) -> dict[str, bytes]:
    return {f"{artifact.name}/{name}": (artifact / name).read_bytes() for name in folder.listing(artifact)}


@pytest.fixture
def package(built: Path, tmp_path: Path) -> Path:
    path = tmp_path / "dist" / "mlp-artifact_v1.zip"
    path.parent.mkdir()
    archive.write(path, inside(built))
    return path


def test_a_package_is_verified_like_its_folder(cli: Cli, package: Path, built: Path, tmp_path: Path) -> None:
    before = contents(tmp_path)
    of_folder = cli("verify", built, "--json").json["data"]
    done = cli("verify", "dist/mlp-artifact_v1.zip", "--json")
    assert done.code == 0, done.err
    assert done.json["data"] == of_folder
    assert (of_folder["verdict"], of_folder["integrity"]) == ("equivalent", "ok")
    assert "dist/mlp-artifact_v1.zip: whole, equivalent" in done.err
    assert contents(tmp_path) == before


def test_its_options_work(cli: Cli, package: Path, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)  # the source, which --search finds beside dist/
    options = ("--reference", "mlp.onnx", "--samples", 3, "--provider", "cpu", "--search", 1)
    done = cli("verify", package, *options, "--json")
    assert done.code == 0, done.err
    found = cli("verify", package, "--search", 1, "--json", cwd=package.parent)
    assert found.code == 0, found.err
    assert found.json["data"]["search"]["evaluations"] > 0


def test_check_and_inspect_read_it_too(cli: Cli, package: Path) -> None:
    checked = cli("check", "dist/mlp-artifact_v1.zip", "--json")
    assert checked.code == 0, checked.err
    (entry,) = checked.json["data"]["checked"]
    assert entry == {"path": "dist/mlp-artifact_v1.zip", "kind": "package", "ok": True, "problems": [], "warnings": []}
    inspected = cli("inspect", package, "--json")
    assert inspected.code == 0, inspected.err
    assert inspected.json["data"]["artifact"]["model_name"] == "mlp"


@pytest.mark.parametrize("kind", SOME)
def test_a_hostile_package(cli: Cli, built: Path, tmp_path: Path, kind: str) -> None:
    make, word = hostile.MAKERS[kind]
    (tmp_path / "temporary").mkdir()
    (tmp_path / "package.zip").write_bytes(make(inside(built)))
    before = contents(tmp_path)
    done = cli("verify", "package.zip", "--json", env={"TMPDIR": str(tmp_path / "temporary")})
    assert done.code == 10, done.err
    assert done.json["data"]["integrity"] == "damaged"
    assert "package.zip" in done.json["error"]["message"]
    assert word in done.json["error"]["message"]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("command", ["verify", "check"])
def test_a_hand_edited_validate_in_a_package(cli: Cli, artifact: Path, tmp_path: Path, command: str) -> None:
    """Every digest was written anew; the file is read, and never run."""
    edit(artifact, replaced("# <data>\n", f"{EVIL}# <data>\n"))
    seal(artifact)
    archive.write(tmp_path / "package.zip", inside(artifact))
    fails(cli, tmp_path, 10, command, "package.zip", names=("package.zip: artifact_v1", "validate.py was edited"))
    fails(cli, tmp_path, 10, command, "mlp/artifact_v1", names=("mlp/artifact_v1", "validate.py was edited"))


def test_a_folder_named_like_a_package(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "folder.zip").mkdir()
    fails(cli, tmp_path, 10, "verify", "folder.zip", names=("folder.zip is not an artifact",))


def test_a_file_that_is_no_package(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    fails(cli, tmp_path, 10, "verify", "notes.txt", names=("notes.txt is not a folder and not a package",))
    fails(cli, tmp_path, 10, "verify", "missing.zip", names=("missing.zip does not exist",))


def test_commands_that_take_no_package_say_so(cli: Cli, package: Path, tmp_path: Path) -> None:
    fails(cli, tmp_path, 4, "profile", "dist/mlp-artifact_v1.zip", names=("dist/mlp-artifact_v1.zip is a package",))
