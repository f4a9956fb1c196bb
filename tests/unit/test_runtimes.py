"""ONNX Runtime packages as pip leaves them: real dist-info folders in a folder of their own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from artifactctl import runtimes
from artifactctl.errors import NotAvailable
from artifactctl.providers import PROVIDERS, this_machine
from artifactctl.runtimes import Installed, install_line, installed, why_unavailable

CPU_EP, QNN_EP = "CPUExecutionProvider", "QNNExecutionProvider"
QNN, OPENVINO = (replace(PROVIDERS[name], system="", machine="") for name in ("qnn", "openvino"))  # on any machine


def put(place: Path, name: str, *files: str) -> None:
    """What pip writes; the name of the folder has '_' where the package's has '-'."""
    folder = place / f"{name.replace('-', '_')}-1.2.3.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.3\n")
    if files:
        (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    put(tmp_path, "onnxruntime", "onnxruntime/__init__.py")
    return tmp_path


def test_one_package_and_its_plugins_live_together(place: Path) -> None:
    put(place, "onnxruntime-qnn", "onnxruntime_qnn/__init__.py")
    put(place, "onnxruntime-genai", "onnxruntime_genai/__init__.py")
    found = installed([str(place)])
    assert found == Installed(("onnxruntime",), ("onnxruntime-genai", "onnxruntime-qnn"))
    assert not found.collide


@pytest.mark.parametrize("other", ["onnxruntime-openvino", "onnxruntime-gpu", "onnxruntime-of-my-own"])
def test_two_packages_with_the_same_files_collide(place: Path, other: str) -> None:
    put(place, other, "onnxruntime/__init__.py")
    found = installed([str(place)])
    assert found.whole == ("onnxruntime", other)
    why, line = why_unavailable(PROVIDERS["cpu"], [CPU_EP], found) or ("", "")
    assert why == f"onnxruntime and {other} are both installed and overwrite one another"
    assert line == f"pip uninstall -y onnxruntime {other} && pip install 'artifactctl[cpu]'"


def test_packages_in_two_places_collide_too(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    second = tmp_path_factory.mktemp("second")
    put(second, "onnxruntime-gpu", "onnxruntime/__init__.py")
    assert installed([str(place), str(second)]).collide
    assert not installed([str(place), str(place)]).collide


def test_without_a_record_the_name_decides(tmp_path: Path) -> None:
    put(tmp_path, "onnxruntime-gpu")
    put(tmp_path, "onnxruntime-qnn")
    assert installed([str(tmp_path)]) == Installed(("onnxruntime-gpu",), ("onnxruntime-qnn",))


def test_nothing_is_installed(tmp_path: Path) -> None:
    found = installed([str(tmp_path), str(tmp_path / "missing"), ""])
    assert not found.collide
    why, line = why_unavailable(PROVIDERS["cpu"], [], Installed((), ())) or ("", "")
    assert why == "provider cpu is not available here: onnxruntime is not installed"
    assert line == "pip install 'artifactctl[cpu]'"


def test_this_environment_has_one() -> None:
    assert installed().whole == ("onnxruntime",)
    assert installed(sys.path) == installed()


def test_a_plugin_needs_no_uninstall(place: Path) -> None:
    why, line = why_unavailable(QNN, [CPU_EP], installed([str(place)])) or ("", "")
    assert why == "provider qnn is not available here: onnxruntime-qnn is not installed"
    assert line == "pip install 'artifactctl[qnn]'"


def test_a_package_that_would_be_overwritten_goes_first(place: Path) -> None:
    why, line = why_unavailable(OPENVINO, [CPU_EP], installed([str(place)])) or ("", "")
    assert why == "provider openvino is not available here: onnxruntime-openvino is not installed"
    assert line == "pip uninstall -y onnxruntime && pip install 'artifactctl[openvino]'"


def test_the_package_is_there_but_the_device_is_not(place: Path) -> None:
    put(place, "onnxruntime-qnn", "onnxruntime_qnn/__init__.py")
    found = installed([str(place)])
    assert why_unavailable(QNN, [CPU_EP, QNN_EP], found) is None
    why, line = why_unavailable(QNN, [CPU_EP], found) or ("", "")
    assert why == "onnxruntime and onnxruntime-qnn is installed, but finds no device for qnn"
    assert "driver" in line


def test_another_machine_goes_before_all_else(place: Path) -> None:
    put(place, "onnxruntime-gpu", "onnxruntime/__init__.py")
    elsewhere = replace(PROVIDERS["cpu-arm64"], system="", machine="riscv64")
    why, line = why_unavailable(elsewhere, [CPU_EP], installed([str(place)])) or ("", "")
    assert why == f"cpu-arm64 stands for riscv64 processors, and this one is {this_machine()[1]}"
    assert "or here: --provider cpu." in line


def test_a_demand_is_an_error() -> None:
    runtimes.demand_sound("cpu")
    other = next(row.name for row in PROVIDERS.values() if row.why_not_here())
    with pytest.raises(NotAvailable, match=f"{other} stands for"):
        runtimes.demand_sound(other)


def test_bring_your_own_wheel(place: Path) -> None:
    found = installed([str(place)])
    assert why_unavailable(PROVIDERS["xnnpack"], ["XnnpackExecutionProvider"], found) is None
    why, line = why_unavailable(PROVIDERS["xnnpack"], [CPU_EP], found) or ("", "")
    assert why == "provider xnnpack is not available here"
    assert line == install_line(PROVIDERS["xnnpack"], found)
    assert "XnnpackExecutionProvider" in line


def test_what_is_available_is_named_by_rows_that_fit_this_machine() -> None:
    with pytest.raises(NotAvailable, match=r"this machine has cpu\)") as caught:
        runtimes.demand_available("dnnl", [CPU_EP])
    assert "DnnlExecutionProvider" in caught.value.hint
