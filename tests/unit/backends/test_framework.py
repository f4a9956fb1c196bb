from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

from artifactctl.backends import framework
from artifactctl.errors import SourceError

INPUTS = {"x": {"shape": ["batch", 3], "dtype": "float32", "values": None, "range": None}}


@pytest.mark.parametrize("opset", [17, 18])  # of one exporter and the other
def test_nothing_but_the_model_is_left(tmp_path: Path, opset: int) -> None:
    """The folder's digest is the reference's: what an exporter writes beside its model is not part of it."""
    torch.jit.script(torch.nn.Linear(3, 2).eval()).save(str(tmp_path / "net.pt"))
    (tmp_path / "net.py").write_text("import torch\ndef build():\n    return torch.nn.Linear(3, 2)\n")
    kind, target = ("torchscript", "net.pt") if opset == 17 else ("torch", "net.py:build")
    output = tmp_path / "reference" / "model.onnx"
    output.parent.mkdir()
    found = framework.export(kind, target, None, INPUTS, opset, str(tmp_path), str(output))
    assert found["opset"] == opset
    assert [file.name for file in output.parent.iterdir()] == ["model.onnx"]
    assert {tensor.data_location for tensor in onnx.load(output).graph.initializer} == {onnx.TensorProto.DEFAULT}


def test_an_opset_that_torch_does_not_write(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import torch\ndef build():\n    return torch.nn.Linear(3, 2)\n")
    with pytest.raises(SourceError, match=r"opset 99 was asked for, but torch writes \d+"):
        framework.export("torch", "net.py:build", None, INPUTS, 99, str(tmp_path), str(tmp_path / "model.onnx"))
