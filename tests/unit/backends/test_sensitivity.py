"""A layer behind a switch is the layer that ONNX Runtime's quantizer makes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from artifactctl.backends import core
from artifactctl.backends.layers import SLOW_POOL, weighted_layers
from artifactctl.backends.npz import sample_arrays, write_npz
from artifactctl.backends.sensitivity import SWITCHES, Switched, layer_errors, worst_layers
from artifactctl.passes import CARRIERS, LAYERS
from tests.conftest import MODELS
from tests.unit.backends.small import SETTINGS, write

Array = np.ndarray[Any, Any]
BOUNDS = {"default": {"max_abs": 1e-3}, "outputs": {}}


class Once(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: dict[str, Array]) -> None:
        self._left = [feeds]

    def get_next(self) -> dict[str, Array] | None:
        return self._left.pop() if self._left else None


@pytest.fixture
def feeds() -> dict[str, Array]:
    return {"x": np.random.default_rng(1).standard_normal((2, 16, 8, 8)).astype(np.float32)}


@pytest.fixture
def plain(tmp_path: Path) -> str:
    return str(shutil.copy(MODELS / "fragile.onnx", tmp_path / "m.onnx"))


def quantized(plain: str, feeds: dict[str, Array], layers: list[dict[str, Any]]) -> onnx.ModelProto:
    target = Path(plain).with_name("q.onnx")
    names = [name for layer in layers for name in (layer["name"], *layer["carries"])]
    extra = {"WeightSymmetric": True, "OpTypesToExcludeOutputQuantization": ["MatMul", "Gemm"]}
    quantize_static(
        plain, str(target), Once(feeds), QuantFormat.QDQ, [*LAYERS, *CARRIERS], per_channel=True, extra_options=extra,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, nodes_to_quantize=names,
    )  # fmt: skip
    return onnx.load(target)


def sampled(folder: Path, feeds: dict[str, Array]) -> str:
    sample = {"inputs": feeds, "outputs": {}, "labels": None, "follows": False}
    write_npz(folder / "s.npz", sample_arrays("0", sample))
    return str(folder / "s.npz")


def answer(proto: onnx.ModelProto, path: Path, feeds: dict[str, Array]) -> Array:
    write(proto, path)
    found: Array = core.run(core.open_session(path, SETTINGS), feeds)["y"]
    return found


def found_layers(plain: str, tmp_path: Path, feeds: dict[str, Array]) -> list[dict[str, Any]]:
    return weighted_layers(plain, sampled(tmp_path, feeds), SETTINGS, [])


def test_layers_and_what_carries_them_on(plain: str, tmp_path: Path, feeds: dict[str, Array]) -> None:
    first, fragile, last = found_layers(plain, tmp_path, feeds)
    wide, narrow, work = 2 * 32 * 64, 2 * 16 * 64, 2 * 32 * 64 * 16 * 9
    assert first == {"name": "first", "operator": "Conv", "multiplications": work, "reads": narrow, "writes": wide} | {
        "carries": ["relu"], "behind": None, "followers": [None],
    }  # fmt: skip
    assert fragile == {"name": "fragile", "operator": "Conv", "multiplications": work, "reads": wide} | {
        "writes": narrow, "carries": ["pool", "flatten"], "behind": None, "followers": ["last"],
    }  # fmt: skip
    assert last == {"name": "last", "operator": "MatMul", "multiplications": 2 * 5 * 16, "writes": 0} | {
        "reads": 32 + SLOW_POOL * narrow, "carries": [], "behind": "fragile", "followers": [],
    }  # fmt: skip
    spared = weighted_layers(plain, sampled(tmp_path, feeds), SETTINGS, ["last", "relu"])
    assert [(layer["name"], layer["carries"], layer["followers"]) for layer in spared] == [
        ("first", [], [None]),
        ("fragile", ["pool", "flatten"], [None]),
    ]


@pytest.mark.parametrize("names", [["first"], ["fragile"], ["fragile", "last"], ["first", "fragile", "last"]])
def test_a_switched_layer_is_the_quantized_one(
    plain: str, tmp_path: Path, feeds: dict[str, Array], names: list[str]
) -> None:
    """But for one without the layer that its input is carried from, whose scale it has where both are quantized."""
    layers = found_layers(plain, tmp_path, feeds)
    switched = Switched(onnx.load(plain), quantized(plain, feeds, layers), layers)
    asked = {switched.renamed.get(name, name): value for name, value in feeds.items()}
    given = answer(switched.proto, tmp_path / "s.onnx", asked | {SWITCHES: switched.switches(names)})
    real = quantized(plain, feeds, [layer for layer in layers if layer["name"] in names])
    untouched = answer(onnx.load(plain), tmp_path / "p.onnx", feeds)
    expected = answer(real, tmp_path / "r.onnx", feeds)
    assert np.abs(expected - untouched).max() > 1e-4
    assert np.abs(given - expected).max() <= 0.01 * np.abs(expected - untouched).max()


def test_with_every_switch_off_it_is_the_float_model(plain: str, tmp_path: Path, feeds: dict[str, Array]) -> None:
    layers = found_layers(plain, tmp_path, feeds)
    switched = Switched(onnx.load(plain), quantized(plain, feeds, layers), layers)
    asked = {switched.renamed.get(name, name): value for name, value in feeds.items()}
    given = answer(switched.proto, tmp_path / "s.onnx", asked | {SWITCHES: switched.switches([])})
    assert np.array_equal(given, answer(onnx.load(plain), tmp_path / "p.onnx", feeds))


def asked_of(plain: str, tmp_path: Path, feeds: dict[str, Array]) -> dict[str, Any]:
    layers = found_layers(plain, tmp_path, feeds)
    total = sum(layer["multiplications"] for layer in layers)
    free = {"reads": 0.0, "writes": 0.0}
    shared = [layer | free | {"share": layer["multiplications"] / total} for layer in layers]
    quantized(plain, feeds, layers)
    asked = {"plain": plain, "quantized": str(tmp_path / "q.onnx"), "layers": shared, "bounds": BOUNDS}
    return asked | {"samples": [sampled(tmp_path, feeds)], "settings": SETTINGS}


def test_weights_that_lie_beside_the_model(plain: str, tmp_path: Path, feeds: dict[str, Array]) -> None:
    """Of either form; nothing of the search is left there."""
    asked = asked_of(plain, tmp_path, feeds)
    beside = dict.fromkeys(("plain", "quantized"), "")
    for form in beside:
        place = tmp_path / form
        place.mkdir()
        beside[form] = str(place / "model.onnx")
        onnx.save_model(
            onnx.load(asked[form]), beside[form], save_as_external_data=True, location="model.onnx.data",
            size_threshold=0,
        )  # fmt: skip
    assert layer_errors(**asked | beside) == layer_errors(**asked)
    for form in beside:
        assert {file.name for file in (tmp_path / form).iterdir()} == {"model.onnx", "model.onnx.data"}


def test_the_fragile_layer_comes_last(plain: str, tmp_path: Path, feeds: dict[str, Array]) -> None:
    asked = asked_of(plain, tmp_path, feeds)
    found = layer_errors(**asked)
    assert found[-1]["name"] == "fragile"
    assert found[-1]["error"] > 5 * max(entry["error"] for entry in found[:-1])
    assert [entry["strain"] for entry in found] == [pytest.approx(entry["error"] / 1e-3) for entry in found]
    assert found[-1]["total_error"] >= found[-1]["error"]
    everything, error = [layer["name"] for layer in asked["layers"]], found[-1]["total_error"]
    wide = asked | {"bounds": {"default": {"max_abs": 2 * max(entry["error"] for entry in found[:-1])}, "outputs": {}}}
    assert worst_layers(failed=everything, strain=error / wide["bounds"]["default"]["max_abs"], **wide) == ["fragile"]
    assert worst_layers(failed=everything, strain=error / 1e-9, **asked) == []
