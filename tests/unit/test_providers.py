from __future__ import annotations

import re
import tomllib
from typing import Any

import onnxruntime
import pytest

from artifactctl import schema
from artifactctl.providers import PROVIDERS, Provider, read_table, this_machine
from tests.conftest import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TABLE = tomllib.loads((ROOT / "artifactctl" / "providers.toml").read_text())
EACH = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=list(PROVIDERS))


def test_the_schema_knows_the_same_providers() -> None:
    model = schema.load("config")["$defs"]["model"]["properties"]
    assert model["providers"]["items"]["enum"] == list(PROVIDERS)
    assert list(model["providers"]["properties"]) == list(PROVIDERS)


@EACH
def test_onnx_runtime_knows_the_name(provider: Provider) -> None:
    assert provider.execution_provider in onnxruntime.get_all_providers()


@EACH
def test_the_line_that_installs_it_names_an_extra_that_exists(provider: Provider) -> None:
    if not provider.extra:
        assert provider.execution_provider in provider.install
        assert provider.packages == ()
        return
    assert provider.install == f"pip install 'artifactctl[{provider.extra}]'"
    assert tuple(re.split("[<>=]", line)[0] for line in EXTRAS[provider.extra]) == provider.packages


@EACH
def test_every_row_has_every_key(provider: Provider) -> None:
    assert set(TABLE[provider.name]) == set(TABLE["cpu"])
    assert all(isinstance(value, str) for value in provider.options.values())
    assert provider.system in ("", "linux", "windows", "macos")
    assert provider.machine in ("", "x64", "arm64")
    assert provider.device in ("cpu", "gpu", "npu")
    assert provider.remark


def test_names_are_files_and_schema_keys() -> None:
    assert all(name == provider.name for name, provider in PROVIDERS.items())
    assert all(re.fullmatch("[a-z][a-z0-9-]*", name) for name in PROVIDERS)


def test_what_shares_an_execution_provider_is_told_apart_by_the_machine() -> None:
    shared = [name for name, row in PROVIDERS.items() if row.execution_provider == PROVIDERS["qnn"].execution_provider]
    assert shared == ["qnn", "qnn-device"]
    assert [PROVIDERS[name].emulated for name in shared] == [True, False]
    for system in ("linux", "windows"):
        for machine in ("x64", "arm64"):
            assert sum(PROVIDERS[name].why_not_on(system, machine) is None for name in shared) <= 1


@pytest.mark.parametrize(
    ("name", "system", "machine", "why"),
    [
        ("cpu", "linux", "x64", None),
        ("cpu", "freebsd", "riscv64", None),
        ("cpu-arm64", "linux", "arm64", None),
        ("cpu-arm64", "linux", "x64", "cpu-arm64 stands for arm64 processors, and this one is x64"),
        ("cpu-arm64", "macos", "arm64", "cpu-arm64 stands for Linux, and this is macOS"),
        ("cpu-windows", "linux", "x64", "cpu-windows stands for Windows, and this is Linux"),
        ("qnn", "linux", "x64", None),
        ("qnn-device", "linux", "x64", "qnn-device stands for arm64 processors, and this one is x64"),
        ("coreml", "freebsd", "x64", "coreml stands for macOS, and this is freebsd"),
    ],
)
def test_the_device_check(name: str, system: str, machine: str, why: str | None) -> None:
    assert PROVIDERS[name].why_not_on(system, machine) == why


def test_this_machine_is_in_the_words_of_the_table() -> None:
    system, machine = this_machine()
    assert system in ("linux", "windows", "macos")
    assert machine in ("x64", "arm64")


def test_a_row_with_a_key_that_nothing_reads_is_refused() -> None:
    text = (ROOT / "artifactctl" / "providers.toml").read_text()
    with pytest.raises(TypeError):
        read_table(text.replace("emulated = true", "emulatd = true"))


@pytest.mark.parametrize(
    "options",
    [
        {"backend_path": "x"},
        {"profiling_file_path": "x"},
        {"op_packages": "x"},
        {"trt_extra_plugin_lib_paths": "x"},
        {"load_config": "x"},
        {"cache_dir": "x"},
        {"a b": "x"},
        {"backend_type": "../evil.so"},
        {"backend_type": "C:\\evil.dll"},
        {"backend_type": "a\nb"},
        {"backend_type": 1},
    ],
    ids=str,
)
def test_options_that_could_load_or_write_a_file_are_refused(options: dict[str, Any]) -> None:
    """An artifact's metadata may come from anyone, and `verify` runs no code of it."""
    session = {"provider": "qnn", "execution_provider": "QNNExecutionProvider", "intra_op_threads": 1}
    session |= {"inter_op_threads": 1, "graph_level": "all", "allow_spinning": False, "options": {}, "placement": None}
    assert schema.session_problems(session) == []
    assert schema.session_problems(session | {"options": dict(PROVIDERS["qnn"].options)}) == []
    assert schema.session_problems(session | {"options": options})
