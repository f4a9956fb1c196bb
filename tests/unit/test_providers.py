from __future__ import annotations

import tomllib

import onnxruntime
import pytest

from artifactctl import schema
from artifactctl.providers import PROVIDERS, Provider
from tests.conftest import ROOT


def test_the_schema_knows_the_same_providers() -> None:
    model = schema.load("config")["$defs"]["model"]["properties"]
    assert model["providers"]["items"]["enum"] == list(PROVIDERS)


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=list(PROVIDERS))
def test_onnx_runtime_knows_the_name(provider: Provider) -> None:
    assert provider.execution_provider in onnxruntime.get_all_providers()


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=list(PROVIDERS))
def test_the_line_that_installs_it_names_an_extra_that_exists(provider: Provider) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if provider.extra is None:
        assert provider.execution_provider in provider.install
    else:
        assert provider.install == f"pip install 'artifactctl[{provider.extra}]'"
        assert any("onnxruntime" in line for line in extras[provider.extra])


def test_names_are_unique() -> None:
    assert all(name == provider.name for name, provider in PROVIDERS.items())
    assert len({provider.execution_provider for provider in PROVIDERS.values()}) == len(PROVIDERS)
