"""Small graphs for the tests of this folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from artifactctl.records import Session

SETTINGS = asdict(Session("cpu", "CPUExecutionProvider", 1, graph_level="disabled"))

node = helper.make_node


def floats(name: str, *shape: int | str | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def ints(name: str, *shape: int | str | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, list(shape))


def model(
    nodes: list[NodeProto],
    inputs: list[ValueInfoProto],
    outputs: list[ValueInfoProto],
    weights: dict[str, np.ndarray] | None = None,
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    stored = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "small", inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 18), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def write(made: onnx.ModelProto, path: Path) -> str:
    path.write_bytes(made.SerializeToString(deterministic=True))
    return str(path)
