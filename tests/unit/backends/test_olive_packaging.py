"""Olive lays out stand-ins of the model's files; the archiver puts the artifact's own bytes in their place."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from artifactctl import archive, folder
from artifactctl.backends import olive_packaging
from artifactctl.errors import ArtifactDamaged, OptimizeError
from tests.flow.refusal import contents

pytestmark = pytest.mark.xdist_group("built")

DATA = "model_opt.onnx.data"
TIME = [1980, 1, 1, 0, 0, 0]
BEST = "CandidateModels/cpu-cpu/BestCandidateModel_1"


@pytest.fixture
def large(artifact: Path) -> Path:
    """An artifact with a data file beside its model."""
    (artifact / DATA).write_bytes(bytes(range(256)) * 100)
    folder.write_sums(artifact)
    return artifact


def pack(artifact: Path, place: Path, laid_out: dict[str, bytes]) -> Path:
    """As Olive does, with this layout."""
    for name, content in laid_out.items():
        (place / "layout" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "layout" / name).write_bytes(content)
    target = place / "package.zip"
    with olive_packaging._archiver(artifact, target, TIME, olive_packaging._stand_ins(artifact)):
        shutil.make_archive(str(place / "olive"), "zip", place / "layout")
    return target


def test_the_model_is_in_it_twice_and_was_not_copied(large: Path, tmp_path: Path) -> None:
    stand_ins = olive_packaging._stand_ins(large)
    assert all(len(content) < 100 for content in stand_ins.values())
    described = olive_packaging._staged_model(stand_ins, tmp_path / "model")
    assert described == {"model_path": str(tmp_path / "model"), "onnx_file_name": "model_opt.onnx"}
    assert {name: (tmp_path / "model" / name).read_bytes() for name in stand_ins} == stand_ins
    layout = {f"{BEST}/model.onnx": stand_ins["model_opt.onnx"], f"{BEST}/{DATA}": stand_ins[DATA]}
    package = pack(large, tmp_path, {**layout, "models_rank.json": b'{"b": 1, "a": 2}'})
    with zipfile.ZipFile(package) as found:
        for name, twin in ((f"{BEST}/model.onnx", "model_opt.onnx"), (f"{BEST}/{DATA}", DATA)):
            assert found.read(name) == found.read(f"artifact_v1/{twin}") == (large / twin).read_bytes()
        assert found.read("models_rank.json") == b'{\n "a": 2,\n "b": 1\n}\n'
    assert contents(archive.extract(package, tmp_path / "target")) == contents(large)


@pytest.mark.parametrize("times", [0, 2])
def test_a_layout_without_the_model_or_with_two_of_them_is_refused(large: Path, tmp_path: Path, times: int) -> None:
    stand_ins = olive_packaging._stand_ins(large)
    layout = {f"{BEST}/{number}.onnx": stand_ins["model_opt.onnx"] for number in range(times)}
    with pytest.raises(OptimizeError, match="lost the model"):
        pack(large, tmp_path, {**layout, f"{BEST}/{DATA}": stand_ins[DATA]})
    assert not (tmp_path / "package.zip").exists()


def test_what_changes_while_it_is_packed_is_found_when_it_is_opened(large: Path, tmp_path: Path) -> None:
    stand_ins = olive_packaging._stand_ins(large)
    (large / DATA).write_bytes(b"another")
    layout = {f"{BEST}/model.onnx": stand_ins["model_opt.onnx"], f"{BEST}/{DATA}": stand_ins[DATA]}
    package = pack(large, tmp_path, layout)
    with pytest.raises(ArtifactDamaged, match="was changed"):
        archive.extract(package, tmp_path / "target")
