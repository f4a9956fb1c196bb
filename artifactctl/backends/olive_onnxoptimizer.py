"""An Olive pass for single onnxoptimizer rewrites: Olive's own peephole pass runs all of them or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxoptimizer
from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.passes import Pass
from olive.passes.onnx.common import get_external_data_config, model_proto_to_olive_model
from olive.passes.pass_config import PassConfigParam


class OnnxOptimizerPasses(Pass):  # type: ignore[misc]
    """Apply the named onnxoptimizer rewrites, and no others."""

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, Any]:
        names = PassConfigParam(type_=list[str], required=True, description="onnxoptimizer rewrites, in order")
        return {"rewrites": names, **get_external_data_config()}

    def _run_for_config(self, model: Any, config: Any, output_model_path: str) -> ONNXModelHandler:
        target = resolve_onnx_path(output_model_path, Path(model.model_path).name)
        rewritten = onnxoptimizer.optimize(model.load_model(), list(config.rewrites))
        return model_proto_to_olive_model(rewritten, target, config)
