"""The files of a model package are what ONNX Runtime itself reads, by its own C interface."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from artifactctl import folder, metadata, ortpackage
from artifactctl.backends import ortpackages
from artifactctl.errors import NotAvailable
from tests.conftest import MODELS

pytestmark = pytest.mark.xdist_group("built")

DIGEST = "ab" * 32


@pytest.fixture
def about(built: Path) -> dict[str, Any]:
    return metadata.read(built)


@pytest.fixture
def write(about: dict[str, Any], tmp_path: Path) -> Callable[..., Path]:
    """A package of the small dense model, of this metadata with some of it changed."""

    def written(model: Path = MODELS / "mlp.onnx", **changes: Any) -> Path:
        meta = about | changes
        place = tmp_path / "a package"
        models = place / ortpackage.model_folder(meta)
        models.mkdir(parents=True)
        shutil.copy(model, models / folder.MODEL)
        for name, text in ortpackage.texts(meta, DIGEST).items():
            (place / name).write_text(text, encoding="utf-8")
        return place

    return written


def edit(file: Path, *change: tuple[tuple[str, ...], Any]) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    for (*way, last), value in change:
        inside = data
        for key in way:
            inside = inside[key]
        inside[last] = value
    file.write_text(json.dumps(data), encoding="utf-8")


def test_the_manifest_and_the_component(about: dict[str, Any]) -> None:
    texts = ortpackage.texts(about, DIGEST)
    manifest = json.loads(texts.pop("manifest.json"))
    assert manifest["schema_version"] == "1.0"
    assert manifest["layout"] == "portable"
    assert manifest["components"] == {"mlp": "models/mlp"}
    ours = manifest["additional_metadata"]["artifactctl"]
    assert ours["artifact_digest"] == f"sha256:{DIGEST}"
    assert ours["equivalence"] == about["equivalence"]["statement"]
    assert ours["version"] == about["environment"]["artifactctl"]
    component = json.loads(texts.pop("models/mlp/component.json"))
    assert not texts
    assert list(component["variants"]) == ["cpu"]
    variant = component["variants"]["cpu"]
    assert (variant["ep"], variant["variant_directory"]) == ("CPUExecutionProvider", "cpu")
    runtime = variant["executor_info"]["ort"]
    assert runtime["model_file"] == "model_opt.onnx"
    assert runtime["session_options"]["session.intra_op_num_threads"] == str(about["session"]["intra_op_threads"])
    assert "provider_options" not in runtime


def test_options_of_the_provider_have_an_order_of_their_own(about: dict[str, Any]) -> None:
    def of(options: dict[str, str]) -> dict[str, str]:
        session = about["session"] | {"provider": "qnn", "execution_provider": "QNNExecutionProvider"}
        return ortpackage.texts(about | {"session": session | {"options": options}}, DIGEST)

    found = of({"b": "2", "a": "1"})
    assert found == of({"a": "1", "b": "2"})
    variants = json.loads(found["models/mlp/component.json"])["variants"]
    assert variants["qnn"]["executor_info"]["ort"]["provider_options"] == {"a": "1", "b": "2"}


def test_onnx_runtime_opens_it_and_loads_the_model(write: Callable[..., Path]) -> None:
    assert onnxruntime_version() >= (1, 31)
    found = ortpackages.open_ort_package(str(write()), session=True)
    assert found["components"] == {"mlp": {"cpu": "CPUExecutionProvider"}}
    assert found["loaded"] == {"mlp": {"inputs": 1, "outputs": 1}}


@pytest.mark.parametrize("name", ["shared_assets", "manifest.json", "a-b.c_1", "model" * 20])
def test_any_name_of_a_model(write: Callable[..., Path], name: str) -> None:
    found = ortpackages.open_ort_package(str(write(model_name=name)), session=True)
    assert found["components"] == {name: {"cpu": "CPUExecutionProvider"}}


@pytest.mark.parametrize("level", ["all", "extended", "basic", "disabled"])
def test_every_graph_level_is_one_of_onnx_runtimes(
    about: dict[str, Any], write: Callable[..., Path], level: str
) -> None:
    session = about["session"] | {"graph_level": level, "intra_op_threads": 0, "inter_op_threads": 0}
    assert ortpackages.open_ort_package(str(write(session=session)), session=True)["loaded"]


def test_session_options_are_heard(write: Callable[..., Path]) -> None:
    """A value that cannot be is refused, so the others were read."""
    place = write()
    options = ("variants", "cpu", "executor_info", "ort", "session_options")
    for key in ("session.intra_op_num_threads", "session.inter_op_num_threads", "session.graph_optimization_level"):
        content = (place / "models/mlp/component.json").read_text()
        edit(place / "models/mlp/component.json", ((*options, key), "many"))
        with pytest.raises(NotAvailable, match="many"):
            ortpackages.open_ort_package(str(place), session=True)
        (place / "models/mlp/component.json").write_text(content)


def test_a_model_with_external_data(write: Callable[..., Path], tmp_path: Path) -> None:
    data = f"{folder.MODEL}.data"
    onnx.save(onnx.load(MODELS / "mlp.onnx"), tmp_path / folder.MODEL, save_as_external_data=True, location=data,
              size_threshold=0)  # fmt: skip
    place = write(tmp_path / folder.MODEL)
    with pytest.raises(NotAvailable, match=r"model_opt\.onnx\.data"):
        ortpackages.open_ort_package(str(place), session=True)
    shutil.copy(tmp_path / data, place / "models/mlp/cpu")
    assert ortpackages.open_ort_package(str(place), session=True)["loaded"] == {"mlp": {"inputs": 1, "outputs": 1}}


def test_what_onnx_runtime_refuses(write: Callable[..., Path], tmp_path: Path) -> None:
    place = write()
    with pytest.raises(NotAvailable, match="does not open the package"):
        ortpackages.open_ort_package(str(tmp_path / "nowhere"), session=False)
    edit(place / "manifest.json", (("producer",), "ours"))
    with pytest.raises(NotAvailable, match="unknown field 'producer'"):
        ortpackages.open_ort_package(str(place), session=False)


def test_a_variant_for_another_provider_is_read_and_not_loaded(
    about: dict[str, Any], write: Callable[..., Path]
) -> None:
    session = about["session"] | {"provider": "cuda", "execution_provider": "CUDAExecutionProvider"}
    place = write(session=session)
    found = ortpackages.open_ort_package(str(place), session=False)
    assert found == {"components": {"mlp": {"cuda": "CUDAExecutionProvider"}}, "loaded": {}}
    with pytest.raises(NotAvailable, match="No suitable model variant"):
        ortpackages.open_ort_package(str(place), session=True)


def onnxruntime_version() -> tuple[int, ...]:
    import onnxruntime

    return tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
