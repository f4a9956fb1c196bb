"""What the build hands over, read again: nothing is deleted, overwritten or believed that should not be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from artifactctl import folder
from artifactctl.ci import stage
from artifactctl.errors import ArtifactDamaged, ConfigError, Conflict


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A version in the working directory, and its package; only its SHA256SUMS counts here."""
    monkeypatch.chdir(tmp_path)
    artifact = tmp_path / "artifacts" / "mlp" / "artifact_v2"
    (artifact / "evidence").mkdir(parents=True)
    (artifact / folder.SUMS).write_text("sums\n")
    (artifact / "evidence" / "x.json").write_text("{}")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "mlp-artifact_v2.zip").write_bytes(b"zip")
    return {
        "model": "mlp",
        "version": 2,
        "path": "artifacts/mlp/artifact_v2",
        "digest": folder.digest(artifact / folder.SUMS),
        "package": "dist/mlp-artifact_v2.zip",
        "package_sha256": folder.digest(tmp_path / "dist" / "mlp-artifact_v2.zip"),
    }


@pytest.fixture
def place(entry: dict[str, Any], tmp_path: Path) -> Path:
    stage.fill(tmp_path / "staged", [entry], None)
    return tmp_path / "staged"


def listed(place: Path) -> list[str]:
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())


def test_what_is_handed_over(place: Path, entry: dict[str, Any]) -> None:
    assert listed(place) == [
        "SHA256SUMS",
        "artifacts/mlp/artifact_v2/SHA256SUMS",
        "artifacts/mlp/artifact_v2/evidence/x.json",
        "build.json",
        "dist/mlp-artifact_v2.zip",
    ]
    assert stage.read(place) == {"artifacts": [entry], "error": None}
    assert (place / "SHA256SUMS").read_text() == f"{entry['package_sha256']}  mlp-artifact_v2.zip\n"


def test_filled_again(place: Path, entry: dict[str, Any]) -> None:
    (place / "artifacts" / "left").write_text("of a run before")
    before = [name for name in listed(place) if name != "artifacts/left"]
    stage.fill(place, [entry], None)
    assert listed(place) == before


def test_a_folder_of_others_is_not_deleted(entry: dict[str, Any], tmp_path: Path) -> None:
    before = listed(tmp_path)
    for name in (".", "artifacts"):
        with pytest.raises(ConfigError, match="would be deleted"):
            stage.fill(Path(name), [entry], None)
    assert listed(tmp_path) == before


def test_an_empty_folder_is_filled(entry: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    stage.fill(tmp_path / "empty", [entry], None)
    assert stage.read(tmp_path / "empty")


def test_nothing_was_handed_over(tmp_path: Path) -> None:
    assert stage.read(tmp_path) is None
    assert stage.read(tmp_path / "none") is None


ERROR = {"name": "SourceError", "message": "m", "hint": "h", "line": "artifactctl build", "exit_code": 4}


def test_a_failed_build_is_handed_over_too(tmp_path: Path) -> None:
    stage.fill(tmp_path / "staged", [], ERROR)
    assert stage.read(tmp_path / "staged") == {"artifacts": [], "error": ERROR}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "{}", '{"artifacts": []}', '{"artifacts": null, "error": null}', "[" * 100_000,
        '{"artifacts": [1], "error": null}', '{"artifacts": [], "error": "x"}', '{"artifacts": [], "error": {}}',
        json.dumps({"artifacts": [], "error": ERROR | {"exit_code": 0}}),
    ],
)  # fmt: skip
def test_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "build.json").write_text(text)
    with pytest.raises(ArtifactDamaged):
        stage.read(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "../../evil"}, {"model": "/evil"}, {"model": ""}, {"model": "a\nb"}, {"version": "2"},
        {"version": True}, {"version": 0}, {"digest": ""}, {"digest": "x" * 64}, {"digest": None},
    ],
)  # fmt: skip
def test_a_path_that_leads_elsewhere(place: Path, entry: dict[str, Any], change: dict[str, Any]) -> None:
    (place / "build.json").write_text(json.dumps({"artifacts": [entry | change], "error": None}))
    with pytest.raises(ArtifactDamaged):
        stage.read(place)


def test_unfolded(place: Path, entry: dict[str, Any], tmp_path: Path) -> None:
    found = stage.unfold(place, entry, tmp_path / "clone")
    assert listed(found) == ["SHA256SUMS", "evidence/x.json"]
    assert [path.name for path in found.parent.iterdir()] == ["artifact_v2"]


def test_unfolded_where_it_is_already(place: Path, entry: dict[str, Any], tmp_path: Path) -> None:
    shutil.rmtree(place / "artifacts")  # not even looked at
    assert stage.unfold(place, entry, tmp_path) == tmp_path / "artifacts" / "mlp" / "artifact_v2"


@pytest.mark.parametrize("here", ["other\n", None])
def test_another_one_is_there(place: Path, entry: dict[str, Any], tmp_path: Path, here: str | None) -> None:
    sums = tmp_path / "artifacts" / "mlp" / "artifact_v2" / folder.SUMS
    sums.unlink() if here is None else sums.write_text(here)
    with pytest.raises(Conflict) as caught:
        stage.unfold(place, entry, tmp_path)
    assert entry["digest"] in str(caught.value)
    assert listed(sums.parent) == [name for name in ("SHA256SUMS", "evidence/x.json") if here or "/" in name]


@pytest.mark.parametrize("handed", ["other\n", None])
def test_other_bytes_than_were_judged(place: Path, entry: dict[str, Any], tmp_path: Path, handed: str | None) -> None:
    """The evidence is of the digest in build.json: a folder with another one was proved by nobody."""
    sums = place / "artifacts" / "mlp" / "artifact_v2" / folder.SUMS
    sums.unlink() if handed is None else sums.write_text(handed)
    with pytest.raises(ArtifactDamaged):
        stage.unfold(place, entry, tmp_path / "clone")
    assert not (tmp_path / "clone" / "artifacts").exists()


def test_what_a_killed_run_left_is_replaced(place: Path, entry: dict[str, Any], tmp_path: Path) -> None:
    part = tmp_path / "clone" / "artifacts" / "mlp" / ".artifact_v2.part"
    part.mkdir(parents=True)
    (part / "half").write_text("")
    assert listed(stage.unfold(place, entry, tmp_path / "clone")) == ["SHA256SUMS", "evidence/x.json"]
    assert not part.exists()
