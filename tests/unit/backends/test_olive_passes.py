from __future__ import annotations

from pathlib import Path

import pytest

from artifactctl.backends.olive_passes import _single
from artifactctl.errors import OptimizeError


def test_passes_that_give_no_onnx_model_are_told_by_what_they_wrote(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    assert _single(str(tmp_path)) == _single(str(tmp_path / "model.onnx")) == tmp_path / "model.onnx"
    (tmp_path / "model.onnx").rename(tmp_path / "model.xml")
    for given in (tmp_path, tmp_path / "model.xml"):
        with pytest.raises(OptimizeError, match=r"give no ONNX model: model\.xml"):
            _single(str(given))
    for given in (None, str(tmp_path / "nothing")):
        with pytest.raises(OptimizeError, match=r"give no ONNX model$"):
            _single(given)
