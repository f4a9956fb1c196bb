from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl import folder
from artifactctl.errors import ArtifactctlError, ConfigError, SourceError
from artifactctl.inputs import check_files, config_digest, data_files, declared_files, differences, is_unchanged
from artifactctl.project import Bound, Budgets, Data, Equivalence, InputSpec, Latency, ModelConfig, OwnTerms, Source

TORCH = ModelConfig(
    "m",
    Source("torch", "net.py:build", "./net.safetensors", {"x": InputSpec(("batch", 4), "float32")}),
    Data("data/s.npz", "data/l.npy"),
    ("auto", "olive:q.json"),
)
OLDER_DIGEST = "9275cb5bda14d5649c6fe7eb61fc59d65be6c9595f797e55557f8c9a8eb40cfd"
NAMES = ["net.py", "net.safetensors", "data/s.npz", "data/l.npy", "q.json"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def recorded(config: ModelConfig, root: Path) -> dict[str, Any]:
    files = [asdict(folder.file_digest(path, name)) for name, path in declared_files(config, root).items()]
    return {"source": {"config_sha256": config_digest(config), "files": files}}


def test_the_files_of_a_configuration(root: Path) -> None:
    assert declared_files(TORCH, root) == {name: root / name for name in NAMES}
    module = ModelConfig("m", Source("torch", "package.module:build"))
    assert declared_files(module, root) == {}


def test_what_the_data_is_for(root: Path) -> None:
    assert data_files(TORCH, root) == {"samples": "data/s.npz", "labels": "data/l.npy"}
    assert data_files(ModelConfig("m", TORCH.source), root) == {}
    twice = replace(TORCH, data=Data("data/s.npz", calibration=str(root / "data/s.npz")))
    assert set(data_files(twice, root)) == {"samples", "calibration"}


def test_no_licence_is_the_digest_of_before_there_was_one() -> None:
    """Artifacts that were built before the key existed stay unchanged."""
    config = ModelConfig("m", Source("onnx", "m.onnx"))
    assert config_digest(config) == "ddb5686517bbb9c899aa3c80240206e326684b63c1eab26bdea11228ab70c901"


def test_an_absolute_path_is_not_recorded(root: Path) -> None:
    config = ModelConfig("m", Source("onnx", str(root / "net.py")))
    assert declared_files(config, root) == {"net.py": root / "net.py"}


def test_all_files_are_there(root: Path) -> None:
    check_files(TORCH, root)


@pytest.mark.parametrize(
    ("name", "error"),
    [("net.py", SourceError), ("net.safetensors", SourceError), ("data/s.npz", ConfigError), ("q.json", ConfigError)],
)
def test_a_missing_file_is_named(root: Path, name: str, error: type[ArtifactctlError]) -> None:
    (root / name).unlink()
    with pytest.raises(ArtifactctlError, match=rf"{name} does not exist") as caught:
        check_files(TORCH, root)
    assert type(caught.value) is error


def test_a_folder_is_not_a_file(root: Path) -> None:
    with pytest.raises(SourceError, match="data is a folder"):
        check_files(ModelConfig("m", Source("onnx", "data")), root)


def test_the_same_configuration_and_files_are_unchanged(root: Path) -> None:
    assert is_unchanged(TORCH, root, recorded(TORCH, root))


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_or_missing_file_is_seen(root: Path, name: str) -> None:
    before = recorded(TORCH, root)
    (root / name).write_text(name.upper())
    assert not is_unchanged(TORCH, root, before)
    (root / name).unlink()
    assert not is_unchanged(TORCH, root, before)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"recipes": ("fp16",)},
        {"providers": ("cuda",)},
        {"equivalence": Equivalence(Bound(1e-2))},
        {"equivalence": Equivalence(outputs={"y": Bound(1e-2)})},
        {"source": replace(TORCH.source, opset=19)},
        {"license": "MIT"},
        {"budgets": Budgets(load=None)},
        {"budgets": Budgets(size_mb=5)},
        {"budgets": Budgets(memory_mb=50)},
        {"budget_s": 600.0},
    ],
)
def test_a_changed_configuration_is_seen(root: Path, changes: dict[str, Any]) -> None:
    other = replace(TORCH, **changes)
    assert config_digest(other) != config_digest(TORCH)
    assert not is_unchanged(other, root, recorded(TORCH, root))


def test_a_speed_gate_judges_a_version_and_makes_no_other(root: Path) -> None:
    assert is_unchanged(replace(TORCH, latency=Latency(0.2)), root, recorded(TORCH, root))


def test_every_difference_is_told_with_both_digests(root: Path) -> None:
    before = recorded(TORCH, root)
    old = folder.digest(root / "net.py")
    (root / "net.py").write_text("other")
    (root / "q.json").unlink()
    found = {item.path: item.describe() for item in differences(replace(TORCH, name="other"), root, before)}
    assert list(found) == [None, "net.py", "q.json"]
    assert found[None] == "the configuration has changed"
    assert found["net.py"] == f"net.py has changed (sha256 was {old}, is {folder.digest(root / 'net.py')})"
    assert found["q.json"].startswith("q.json is missing (its sha256 was ")


def test_a_file_that_was_not_there_is_a_difference(root: Path) -> None:
    before = recorded(TORCH, root)
    before["source"]["files"].pop()
    assert [(item.path, item.recorded) for item in differences(TORCH, root, before)] == [("q.json", None)]


def test_keys_that_came_later_leave_older_digests_alone() -> None:
    """Written down: the artifacts of a version before these keys are still unchanged."""
    plain = ModelConfig("m", Source("onnx", "m.onnx"), providers=("cpu", "qnn"))
    assert config_digest(plain) == OLDER_DIGEST
    assert config_digest(replace(plain, own={"qnn": OwnTerms(Bound(0.05))})) != OLDER_DIGEST
    assert config_digest(replace(plain, own={"qnn": OwnTerms(options={"a": "b"})})) != OLDER_DIGEST
