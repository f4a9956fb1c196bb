"""An Olive pass for our own exact rewrites, which neither Olive nor ONNX Runtime has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.passes import Pass
from olive.passes.onnx.common import get_external_data_config
from olive.passes.pass_config import PassConfigParam

from artifactctl.backends import graph
from artifactctl.backends.algebra import rewrite


class OnnxAlgebra(Pass):  # type: ignore[misc]
    """Apply the named rewrites of artifactctl.backends.algebra."""

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, Any]:
        names = PassConfigParam(type_=list[str], required=True, description="rewrites, in order")
        return {"rewrites": names, **get_external_data_config()}

    def _run_for_config(self, model: Any, config: Any, output_model_path: str) -> ONNXModelHandler:
        source = Path(model.model_path)
        target = Path(resolve_onnx_path(output_model_path, source.name))
        proto = graph.load_light(source)
        if not any(rewrite(proto, config.rewrites, source.parent).values()):
            return model
        graph.save_light(proto, source, target)
        return ONNXModelHandler(model_path=str(target))
