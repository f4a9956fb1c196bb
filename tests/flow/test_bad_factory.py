"""PyTorch sources whose code fails, whose weights do not fit, or whose files want to run code."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.conftest import Finished
from tests.flow.refusal import fails

Cli = Callable[..., Finished]

CONFIG = """\
schema_version: 1
models:
  net:
    source:
      {source}
      inputs: {{x: {{shape: [batch, 8], dtype: float32}}}}
"""

FACTORY = """\
import torch


def build():
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())


def broken():
    width = "eight"
    return torch.nn.Linear(width, 4)


def leaves():
    raise SystemExit("no weights here")


def nothing():
    return {"weights": torch.zeros(3)}


class Fails(torch.nn.Module):
    def forward(self, x):
        return x @ torch.zeros(5, 2)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(FACTORY)
    return tmp_path


def _configure(project: Path, *source: str) -> None:
    (project / "artifactctl.yaml").write_text(CONFIG.format(source="\n      ".join(source)))


def test_a_factory_that_raises_shows_the_users_own_line(cli: Cli, project: Path) -> None:
    _configure(project, "torch: net.py:broken")
    line = FACTORY.splitlines().index("    return torch.nn.Linear(width, 4)") + 1
    error = fails(
        cli, project, 4, "build", names=("net.py:broken", "TypeError", f"net.py:{line}", "torch.nn.Linear(width, 4)")
    )
    assert "site-packages" not in error["message"]
    assert "torch/nn" not in error["message"]
    assert "factory.py" not in error["message"], "our own frames are not the user's"


def test_a_factory_that_ends_the_program(cli: Cli, project: Path) -> None:
    _configure(project, "torch: net.py:leaves")
    fails(cli, project, 4, "build", names=("net.py:leaves", "SystemExit", "no weights here"))


def test_a_factory_with_a_typing_error(cli: Cli, project: Path) -> None:
    (project / "net.py").write_text("import torch\n\ndef build(:\n    return torch.nn.ReLU()\n")
    _configure(project, "torch: net.py:build")
    fails(cli, project, 4, "build", names=("net.py:build", "SyntaxError", "net.py:3", "def build(:"))


def test_a_factory_that_is_not_there(cli: Cli, project: Path) -> None:
    _configure(project, "torch: net.py:biuld")
    error = fails(cli, project, 4, "build", names=("net.py", "'biuld'"))
    assert "def biuld()" in error["hint"]


def test_a_factory_file_that_is_not_there(cli: Cli, project: Path) -> None:
    _configure(project, "torch: nets.py:build")
    fails(cli, project, 4, "build", names=("nets.py", "does not exist"))


def test_a_factory_that_returns_something_else(cli: Cli, project: Path) -> None:
    _configure(project, "torch: net.py:nothing")
    fails(cli, project, 4, "build", names=("net.py:nothing", "dict", "torch.nn.Module"))


def test_a_forward_that_raises(cli: Cli, project: Path) -> None:
    _configure(project, "torch: net.py:Fails")
    fails(cli, project, 4, "build", names=("forward", "x [2, 8]", "RuntimeError"))


_FITTING = {"0.weight": torch.zeros(4, 8), "0.bias": torch.zeros(4)}


@pytest.mark.parametrize(
    ("file", "state", "names"),
    [
        ("w.safetensors", {"0.weight": _FITTING["0.weight"]}, ("missing", "0.bias")),
        ("w.safetensors", _FITTING | {"2.weight": torch.zeros(1)}, ("not in the model", "2.weight")),
        ("w.safetensors", _FITTING | {"0.bias": torch.zeros(5)}, ("shape", "0.bias", "[5]", "[4]")),
        ("w.pt", {"0.weight": _FITTING["0.weight"], "0.bais": torch.zeros(4)}, ("missing", "0.bias", "0.bais")),
    ],
    ids=["missing", "unexpected", "other-shape", "misspelt"],
)
def test_weights_that_do_not_fit(
    cli: Cli, project: Path, file: str, state: dict[str, torch.Tensor], names: tuple[str, ...]
) -> None:
    if file.endswith(".pt"):
        torch.save(state, project / file)
    else:
        save_file(state, project / file)
    _configure(project, "torch: net.py:build", f"weights: {file}")
    fails(cli, project, 4, "build", names=(file, *names))


def test_weights_that_are_truncated(cli: Cli, project: Path) -> None:
    save_file(_FITTING, project / "weights.safetensors")
    whole = (project / "weights.safetensors").read_bytes()
    (project / "weights.safetensors").write_bytes(whole[:-7])
    _configure(project, "torch: net.py:build", "weights: weights.safetensors")
    fails(cli, project, 4, "build", names=("weights.safetensors",))


def test_a_pickled_module_is_refused_as_weights(cli: Cli, project: Path) -> None:
    torch.save(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), project / "whole.pt")
    _configure(project, "torch: net.py:build", "weights: whole.pt")
    error = fails(cli, project, 4, "build", names=("whole.pt", "code"))
    assert "safetensors" in error["hint"]


class Trap:
    """Unpickled, it creates a file."""

    def __init__(self, target: Path) -> None:
        self._target = str(target)

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self._target,)


@pytest.mark.parametrize("kind", ["torch-zip", "plain-pickle", "torch-legacy"])
def test_code_in_a_pickle_is_not_run(cli: Cli, project: Path, kind: str) -> None:
    target, file = project / "owned", project / "weights.pt"
    content = {**_FITTING, "trap": Trap(target)}
    if kind == "plain-pickle":
        file.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=kind == "torch-zip")
    _configure(project, "torch: net.py:build", "weights: weights.pt")
    error = fails(cli, project, 4, "build", names=("weights.pt", "code"))
    assert "safetensors" in error["hint"]
    assert not target.exists()
    torch.load(file, weights_only=False) if kind != "plain-pickle" else pickle.loads(file.read_bytes())
    assert target.is_dir(), "the trap does not work, so this test would show nothing"


@pytest.mark.parametrize(("key", "file"), [("torchscript", "net.pt"), ("exported_program", "net.pt2")])
def test_a_state_dict_is_not_a_program(cli: Cli, project: Path, key: str, file: str) -> None:
    torch.save(_FITTING, project / file)
    _configure(project, f"{key}: {file}")
    error = fails(cli, project, 4, "build", names=(file, "state dict"))
    assert "weights" in error["hint"]


@pytest.mark.parametrize(("key", "file"), [("torchscript", "net.pt"), ("exported_program", "net.pt2")])
def test_a_damaged_program(cli: Cli, project: Path, key: str, file: str) -> None:
    model = torch.nn.Linear(8, 4)
    if key == "torchscript":
        torch.jit.save(torch.jit.script(model), project / file)
    else:
        torch.export.save(torch.export.export(model, (torch.zeros(2, 8),)), project / file)
    names = zipfile.ZipFile(project / file).namelist()
    with zipfile.ZipFile(project / file) as whole, zipfile.ZipFile(project / "less", "w") as less:
        for name in names[: len(names) // 2 + 1]:
            less.writestr(name, whole.read(name))
    (project / "less").replace(project / file)
    _configure(project, f"{key}: {file}")
    error = fails(cli, project, 4, "build", names=(file,))
    assert "pytorch/" not in error["message"], "torch's own C++ frames do not help"


@pytest.mark.parametrize("file", ["net.py", "weights.pt", "weights.safetensors"])
def test_a_torch_file_alone_needs_a_configuration(cli: Cli, project: Path, file: str) -> None:
    (project / file).touch()
    error = fails(cli, project, 4, "build", file, names=(file, "configuration"))
    assert "artifactctl init" in error["hint"]
