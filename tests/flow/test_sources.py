"""PyTorch sources of every kind, proved against PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import yaml
from torch import nn

from tests.conftest import Finished

FACTORY = """
import torch
from torch import nn
from helper import SCALE


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids):
        hidden = self.layer(self.table(ids)) * SCALE
        return {"hidden": hidden, "pooled": hidden.mean(1)}


def build():
    torch.manual_seed(0)
    model = Encoder()
    assert model.training
    return model
"""


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.mean() > 0.6):
            return self.large(x)
        return self.small(x) * 2


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.conv(image).relu().mean((2, 3))


def configure(place: Path, source: dict[str, Any]) -> None:
    config = {"schema_version": 1, "models": {"net": {"source": source, "optimize": {"recipes": ["fp32"]}}}}
    (place / "artifactctl.yaml").write_text(yaml.safe_dump(config))


def build(cli: Callable[..., Finished], place: Path) -> tuple[Path, dict[str, Any]]:
    done = cli("build", "--json")
    assert done.code == 0, done.err
    path = place / done.json["data"]["artifacts"][0]["path"]
    return path, yaml.safe_load((path / "metadata.yaml").read_text())


def golden(path: Path) -> dict[str, np.ndarray]:
    with np.load(path / "golden.npz", allow_pickle=False) as stored:
        return dict(stored)


@pytest.mark.parametrize("opset", [18, 21])
def test_factory_with_dynamic_sizes(cli: Callable[..., Finished], tmp_path: Path, opset: int) -> None:
    (tmp_path / "net.py").write_text(FACTORY)
    (tmp_path / "helper.py").write_text("SCALE = 2.0\n")
    inputs = {"ids": {"shape": ["batch", "length"], "dtype": "int64"}}
    configure(tmp_path, {"torch": "net.py:build", "inputs": inputs, "opset": opset})
    path, metadata = build(cli, tmp_path)
    assert metadata["opset"] == opset
    assert [output["name"] for output in metadata["model"]["outputs"]] == ["hidden", "pooled"]
    assert metadata["model"]["inputs"] == [{"name": "ids", "dtype": "int64", "shape": ["batch", "length"]}]
    lengths = {entry["dims"]["length"] for entry in metadata["reference"]["samples"]["sets"]}
    assert len(lengths) >= 2, "a second size of every free dimension is proved"
    assert {entry["path"] for entry in metadata["source"]["files"]} == {"net.py", "helper.py"}
    text = (path / "model_opt.onnx").read_bytes()
    assert str(tmp_path).encode() not in text, "stack traces carry absolute paths"
    (tmp_path / "helper.py").write_text("SCALE = 3.0\n")
    changed = cli("build", "--json")
    assert changed.json["data"]["artifacts"][0]["version"] == 2, "an imported file is part of the source"


def test_golden_holds_the_framework_s_own_outputs(cli: Callable[..., Finished], tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "net.py").write_text(
        "import torch\nfrom torch import nn\ndef make():\n    torch.manual_seed(1)\n"
        "    return nn.Sequential(nn.Linear(8, 3), nn.Tanh())\n"
    )
    configure(tmp_path, {"torch": "pkg.net:make", "inputs": {"x": {"shape": ["batch", 8]}}})
    path, _ = build(cli, tmp_path)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 3), nn.Tanh()).eval()
    stored = golden(path)
    with torch.no_grad():
        for key in [key for key in stored if "/inputs/" in key]:
            expected = model(torch.from_numpy(stored[key])).numpy()
            np.testing.assert_array_equal(stored[key.replace("/inputs/x", "/outputs/output")], expected)


def test_scripted_branch_becomes_an_if_and_is_proved_on_both_sides(
    cli: Callable[..., Finished], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    torch.jit.script(Branch().eval()).save(str(tmp_path / "net.pt"))
    configure(tmp_path, {"torchscript": "net.pt", "inputs": {"x": {"shape": ["batch", 8]}}})
    path, metadata = build(cli, tmp_path)
    assert "If" in {node.op_type for node in onnx.load(path / "model_opt.onnx").graph.node}
    assert [branch["taken"] for branch in metadata["reference"]["samples"]["branches"]] == [[False, True]]
    sides = {bool(array.mean() > 0.6) for key, array in golden(path).items() if "/inputs/" in key}
    assert sides == {True, False}


def test_traced_module(cli: Callable[..., Finished], tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.jit.trace(Pooled().eval(), torch.rand(1, 3, 16, 16)).save(str(tmp_path / "net.pt"))
    inputs = {"image": {"shape": ["batch", 3, "height", "width"]}}
    configure(tmp_path, {"torchscript": "net.pt", "inputs": inputs, "opset": 17})
    _, metadata = build(cli, tmp_path)
    assert metadata["opset"] == 17
    assert metadata["equivalence"]["max_error"] <= 1e-3


def test_exported_program(cli: Callable[..., Finished], tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"image": {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(Pooled().eval(), (torch.rand(2, 3, 16, 17),), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "net.pt2")
    done = cli("build", "net.pt2", "--recipe", "fp32", "--json")
    assert done.code == 0, done.err
    path = tmp_path / done.json["data"]["artifacts"][0]["path"]
    metadata = yaml.safe_load((path / "metadata.yaml").read_text())
    assert metadata["model"]["inputs"][0]["shape"] == ["batch", 3, "image_dim2", "image_dim3"]


def test_a_length_that_the_exporter_bakes_in_is_found(cli: Callable[..., Finished], tmp_path: Path) -> None:
    """The exporter of old opsets fixes the sequence length without a word; the second size shows it."""
    (tmp_path / "net.py").write_text(FACTORY)
    (tmp_path / "helper.py").write_text("SCALE = 2.0\n")
    inputs = {"ids": {"shape": ["batch", "length"], "dtype": "int64"}}
    configure(tmp_path, {"torch": "net.py:build", "inputs": inputs, "opset": 14})
    done = cli("build", "--json")
    assert done.code == 6
    assert done.json["error"]["name"] == "NotEquivalent"
    assert not (tmp_path / "artifacts" / "net").exists()


def test_weights_of_both_kinds(cli: Callable[..., Finished], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    (tmp_path / "net.py").write_text("import torch\ndef build():\n    return torch.nn.Linear(4, 2)\n")
    torch.manual_seed(7)
    state = nn.Linear(4, 2).state_dict()
    save_file(state, tmp_path / "w.safetensors")
    torch.save(state, tmp_path / "w.pt")
    digests = []
    for name in ("w.safetensors", "w.pt"):
        configure(tmp_path, {"torch": "net.py:build", "weights": name, "inputs": {"x": {"shape": ["batch", 4]}}})
        _, metadata = build(cli, tmp_path)
        digests.append(metadata["reference"]["sha256"])
    assert digests[0] == digests[1]
