"""An Olive pass for onnxslim, which Olive has none for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxslim
from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.passes import Pass
from olive.passes.onnx.common import get_external_data_config, model_proto_to_olive_model


class OnnxSlimPass(Pass):  # type: ignore[misc]
    """Fold constants and shapes, drop what is computed twice or not used."""

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, Any]:
        return dict(get_external_data_config())

    def _run_for_config(self, model: Any, config: Any, output_model_path: str) -> ONNXModelHandler:
        target = resolve_onnx_path(output_model_path, Path(model.model_path).name)
        return model_proto_to_olive_model(onnxslim.slim(model.load_model()), target, config)
