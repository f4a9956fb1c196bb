"""An artifact that somebody edited is damaged, whatever was edited."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from artifactctl import folder, metadata
from tests.conftest import MODELS, Finished
from tests.flow.refusal import contents, fails, leftovers

Cli = Callable[..., Finished]

pytestmark = pytest.mark.xdist_group("built")  # one process builds, once

FILES = (
    "README.md",
    "SHA256SUMS",
    "bom.cdx.json",
    "evidence/equivalence.json",
    "evidence/latency.cpu.json",
    "golden.npz",
    "metadata.yaml",
    "model_opt.onnx",
    "validate.py",
)


@pytest.fixture(params=["verify", "check"])
def command(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _damaged(cli: Cli, artifact: Path, command: str, *names: str) -> None:
    """Found by `command`, under the name that the user typed, and left as it is."""
    shown = artifact.relative_to(artifact.parent.parent)
    fails(cli, artifact.parent.parent, 10, command, shown, names=(str(shown), *names))


def test_these_are_all_the_files(artifact: Path) -> None:
    assert tuple(folder.listing(artifact)) == FILES


def test_an_artifact_that_nobody_edited_is_whole(cli: Cli, artifact: Path, command: str) -> None:
    done = cli(command, artifact, "--json")
    assert done.code == 0, done.err


@pytest.mark.parametrize("file", FILES)
def test_a_changed_byte(cli: Cli, artifact: Path, command: str, file: str) -> None:
    content = bytearray((artifact / file).read_bytes())
    content[len(content) // 2] ^= 1
    (artifact / file).write_bytes(content)
    _damaged(cli, artifact, command, *([file, "changed"] if file != "SHA256SUMS" else []))


@pytest.mark.parametrize("file", FILES)
def test_a_removed_file(cli: Cli, artifact: Path, command: str, file: str) -> None:
    (artifact / file).unlink()
    _damaged(cli, artifact, command, file, "missing")


@pytest.mark.parametrize("file", ["notes.txt", ".DS_Store", "evidence/more.json", "evidence/.hidden", "new/file"])
def test_an_added_file(cli: Cli, artifact: Path, command: str, file: str) -> None:
    (artifact / file).parent.mkdir(exist_ok=True)
    (artifact / file).write_text("added")
    _damaged(cli, artifact, command, file, "added")


@pytest.mark.parametrize("target", ["validate.py", "evidence", "gone"])
def test_an_added_link(cli: Cli, artifact: Path, command: str, target: str) -> None:
    (artifact / "link").symlink_to(target)
    _damaged(cli, artifact, command, "link", "added")


def test_a_link_in_the_place_of_a_file(cli: Cli, artifact: Path, command: str) -> None:
    """The same bytes, but whoever owns the target can change them later."""
    elsewhere = artifact.parent.parent / "elsewhere.onnx"
    (artifact / "model_opt.onnx").rename(elsewhere)
    (artifact / "model_opt.onnx").symlink_to(elsewhere)
    _damaged(cli, artifact, command, "model_opt.onnx")


def test_a_link_in_the_place_of_a_folder(cli: Cli, artifact: Path, command: str) -> None:
    elsewhere = artifact.parent.parent / "elsewhere"
    (artifact / "evidence").rename(elsewhere)
    (artifact / "evidence").symlink_to(elsewhere)
    _damaged(cli, artifact, command, "evidence")


def test_a_list_of_sums_that_leads_out_of_the_folder(cli: Cli, artifact: Path, command: str) -> None:
    outside = artifact.parent / "outside.txt"
    outside.write_text("not yours")
    with (artifact / "SHA256SUMS").open("a") as sums:
        sums.write(f"{folder.digest(outside)}  ../outside.txt\n")
    _damaged(cli, artifact, command, "../outside.txt")


def _sign_again(artifact: Path) -> None:
    """What somebody does who knows about SHA256SUMS."""
    (artifact / "SHA256SUMS").unlink()
    folder.write_sums(artifact)
    assert folder.damage(artifact) == []


SWAPPED = ("model_opt.onnx", "golden.npz", "bom.cdx.json", "evidence/latency.cpu.json", "validate.py")


@pytest.mark.parametrize("file", SWAPPED)
def test_a_file_swapped_with_its_sum(cli: Cli, artifact: Path, command: str, file: str) -> None:
    """metadata.yaml knows the files too."""
    if file == "model_opt.onnx":
        shutil.copy(MODELS / "constant.onnx", artifact / file)
    else:
        (artifact / file).write_bytes((artifact / file).read_bytes() + b"\n")
    _sign_again(artifact)
    _damaged(cli, artifact, command, file, "metadata.yaml")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"content": "', '"content": "0', "its hashes is another"),
        ('"name": "mlp"', '"name": "other"', "its name is another"),
        ('"bomFormat"', '"format"', "not a CycloneDX document"),
        ("{", "", "cannot be read"),
    ],
    ids=["digest", "name", "format", "no-json"],
)
def test_a_bill_of_another_model(cli: Cli, artifact: Path, command: str, old: str, new: str, reason: str) -> None:
    """Signed anew, and known to metadata.yaml: it still has to speak of this model."""
    bill = artifact / "bom.cdx.json"
    bill.write_text(bill.read_text().replace(old, new, 1))
    data = metadata.read(artifact)
    entry = next(entry for entry in data["files"] if entry["path"] == bill.name)
    entry |= {"sha256": folder.digest(bill), "size_bytes": bill.stat().st_size}
    (artifact / "metadata.yaml").write_text(metadata.dump(data), encoding="utf-8")
    _sign_again(artifact)
    _damaged(cli, artifact, command, "bom.cdx.json", reason)


def test_an_artifact_from_before_there_were_bills(cli: Cli, artifact: Path, command: str) -> None:
    """Nor does its metadata know of a licence, and it is whole."""
    (artifact / "bom.cdx.json").unlink()
    data = metadata.read(artifact)
    data["files"] = [entry for entry in data["files"] if entry["path"] != "bom.cdx.json"]
    del data["source"]["license"], data["source"]["data"]
    (artifact / "metadata.yaml").write_text(metadata.dump(data), encoding="utf-8")
    _sign_again(artifact)
    done = cli(command, artifact, "--json")
    assert done.code == 0, done.err


def test_edited_metadata_and_a_swapped_model(cli: Cli, artifact: Path, command: str) -> None:
    """A better number and another model, with new sums: the digest in metadata.yaml is still the old model's."""
    shutil.copy(MODELS / "constant.onnx", artifact / "model_opt.onnx")
    text = (artifact / "metadata.yaml").read_text()
    assert "precision: fp32" in text
    (artifact / "metadata.yaml").write_text(text.replace("precision: fp32", "precision: int8", 1))
    _sign_again(artifact)
    _damaged(cli, artifact, command, "model_opt.onnx", "metadata.yaml")


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("model_name: mlp\n", "", "model_name"),
        ("version: 1\n", "version: one\n", "version"),
        ("", "extra: 1\n", "extra"),
    ],
    ids=["key-removed", "type-changed", "key-added"],
)
def test_metadata_that_does_not_fit_its_schema(
    cli: Cli, artifact: Path, command: str, old: str, new: str, named: str
) -> None:
    text = (artifact / "metadata.yaml").read_text()
    (artifact / "metadata.yaml").write_text(text.replace(old, new, 1) if old else new + text)
    _sign_again(artifact)
    _damaged(cli, artifact, command, "metadata.yaml", named)


def test_a_version_under_another_number(cli: Cli, artifact: Path, command: str) -> None:
    renamed = artifact.rename(artifact.with_name("artifact_v7"))
    _damaged(cli, renamed, command, "version 1", "artifact_v7")


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_no_artifact_at_all(cli: Cli, tmp_path: Path, command: str, kind: str) -> None:
    place = tmp_path / "mlp" / "artifact_v1"
    (place if kind == "empty" else place.parent).mkdir(parents=True)
    fails(cli, tmp_path, 10, command, place.relative_to(tmp_path), names=("mlp/artifact_v1",))


def test_a_damaged_artifact_reports_its_integrity(cli: Cli, artifact: Path) -> None:
    (artifact / "README.md").unlink()
    data = cli("verify", artifact, "--json").json["data"]
    assert data["integrity"] == "damaged"


def test_a_damaged_artifact_is_never_called_unchanged(cli: Cli, artifact: Path, tmp_path: Path) -> None:
    shutil.copy(MODELS / "mlp.onnx", tmp_path)
    (tmp_path / "artifacts").mkdir()
    first = (artifact.parent).rename(tmp_path / "artifacts" / "mlp") / artifact.name
    same = cli("build", "mlp.onnx", "--json")
    assert [entry["status"] for entry in same.json["data"]["artifacts"]] == ["unchanged"], same.err

    (first / "README.md").write_text("mine now\n")
    before = contents(first)
    done = cli("build", "mlp.onnx", "--json")
    assert done.code == 0, done.err
    (built,) = done.json["data"]["artifacts"]
    assert (built["status"], built["version"]) == ("built", 2)
    assert "artifact_v1" in done.err
    assert "damaged" in done.err
    assert contents(first) == before, "a version is never changed, not even a damaged one"
    assert folder.damage(tmp_path / built["path"]) == []
    assert leftovers(tmp_path) == []
