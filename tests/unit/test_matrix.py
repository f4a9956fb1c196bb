from __future__ import annotations

from typing import Any

import pytest

from artifactctl.errors import ConfigError
from artifactctl.matrix import MOST_CELLS, cells, parse_runners
from artifactctl.project import ModelConfig, Source


def models(**providers: tuple[str, ...]) -> dict[str, ModelConfig]:
    return {name: ModelConfig(name, Source("onnx", "m.onnx"), providers=names) for name, names in providers.items()}


TWO = models(mlp=("cpu", "openvino"), cnn=("cpu", "qnn"))


def names(found: dict[str, ModelConfig], wanted: Any = (), providers: Any = ()) -> list[str]:
    return [cell.name for cell in cells(found, wanted, providers, {})]


def refusal(*arguments: Any) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        cells(*arguments)
    assert caught.value.exit_code == 3
    return str(caught.value), caught.value.hint


def test_a_cell_has_what_a_job_needs() -> None:
    [first, second] = cells(models(mlp=("cpu", "qnn")), (), (), {})
    assert first.as_json() == {
        "model": "mlp",
        "provider": "cpu",
        "runs_on": ["ubuntu-24.04"],
        "extra": "cpu",
        "emulated": False,
        "name": "mlp · cpu",
    }
    assert second.emulated


def test_all_models_on_all_their_providers_in_order() -> None:
    assert names(TWO) == ["mlp · cpu", "mlp · openvino", "cnn · cpu", "cnn · qnn"]


def test_models_and_providers_narrow_it_down() -> None:
    assert names(TWO, ("cnn", "cnn")) == ["cnn · cpu", "cnn · qnn"]
    assert names(TWO, (), ("qnn", "cpu", "cpu")) == ["mlp · cpu", "cnn · cpu", "cnn · qnn"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TWO, ("mpl",), (), {}), "no model is named 'mpl', perhaps you meant 'mlp'"),
        ((TWO, (), ("opnvino",), {}), "no provider is named 'opnvino', perhaps you meant 'openvino'"),
        ((TWO, (), (), {"cudaa": ("x",)}), "no provider is named 'cudaa', perhaps you meant 'cuda'"),
        ((TWO, ("$(touch x)",), (), {}), "no model is named '$(touch x)'"),
    ],
)
def test_unknown_names(arguments: Any, message: str) -> None:
    found, hint = refusal(*arguments)
    assert found == message
    assert hint.startswith("Known are: ")


def test_no_cell_is_left() -> None:
    message, hint = refusal(TWO, ("mlp",), ("cpu", "qnn"), {})
    assert message == "no cell is left: none of the models (mlp) names the provider 'qnn'"
    assert "providers: [cpu, qnn]" in hint
    assert refusal({}, (), (), {})[0] == "no cell is left: there is no model"


def test_the_limit_of_github() -> None:
    fits = models(**{f"m{number}": ("cpu",) for number in range(MOST_CELLS)})
    assert len(cells(fits, (), (), {})) == MOST_CELLS
    message, hint = refusal(fits | models(one_more=("cpu",)), (), (), {})
    assert message == "257 cells are more than the 256 that GitHub takes"
    assert "--provider" in hint


def test_a_provider_without_a_runner_is_an_error_at_plan_time() -> None:
    message, hint = refusal(models(m=("cpu", "cuda", "qnn-device", "tensorrt")), (), (), {})
    assert message == "GitHub has no runner of its own for cuda, qnn-device, tensorrt"
    assert "--runner qnn-device=LABEL --gpu-runner LABEL" in hint
    assert "gpu-runner" in hint


def test_labels_of_runners() -> None:
    asked = parse_runners(["qnn-device=self-hosted, snapdragon", "cuda=mine"], "a,b")
    assert asked == {"cuda": ("mine",), "tensorrt": ("a", "b"), "qnn-device": ("self-hosted", "snapdragon")}
    found = cells(models(m=("cuda", "tensorrt", "qnn-device", "cpu")), (), (), asked | {"cpu": ("big",)})
    assert [cell.runs_on for cell in found] == [("mine",), ("a", "b"), ("self-hosted", "snapdragon"), ("big",)]


@pytest.mark.parametrize("text", ["cuda", "cuda=", "cuda= , ", ""])
def test_a_runner_without_a_label(text: str) -> None:
    with pytest.raises(ConfigError, match="names no runner"):
        parse_runners([text], None)


def test_no_gpu_runner_is_no_label() -> None:
    assert parse_runners([], None) == parse_runners([], " , ") == {}
