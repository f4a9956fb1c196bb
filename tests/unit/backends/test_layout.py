"""Graphs that ONNX Runtime itself saved on this machine, and what others would have saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from artifactctl.backends import graph, layout
from artifactctl.backends.timing import describe_machine
from artifactctl.portability import EITHER_ISA, ISAS, TIED, on_this_cpu


def convolution(channels: int) -> onnx.ModelProto:
    weights = numpy_helper.from_array(np.ones((channels, 16, 3, 3), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_graph(nodes, "g", [x], [y], [weights])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def laid_out(channels: int, place: Path) -> onnx.ModelProto:
    """As ONNX Runtime saves it here."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(place / "tied.onnx")
    onnxruntime.InferenceSession(convolution(channels).SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = onnx.load(place / "tied.onnx")
    assert any(node.domain == layout.DOMAIN and node.op_type == "Conv" for node in found.graph.node)
    return found


def elsewhere(model: onnx.ModelProto, filled: int) -> onnx.ModelProto:
    """As a machine would have saved it that fills channels up to another count."""
    tensor = next(tensor for tensor in model.graph.initializer if len(tensor.dims) == 4)
    tensor.CopyFrom(numpy_helper.from_array(np.ones((filled, *tensor.dims[1:]), np.float32), tensor.name))
    return model


def flags_here() -> str:
    return str(describe_machine()["machine"]["flags"])


def isa_here() -> str:
    return "avx512f" if "avx512f" in flags_here().split() else "avx2"


def test_channels_that_are_filled_up_tell_the_cpu(tmp_path: Path) -> None:
    assert layout.isa_of(laid_out(20, tmp_path)) == isa_here()
    assert layout.isa_of(elsewhere(laid_out(20, tmp_path), 24)) == ISAS[8]
    assert layout.isa_of(elsewhere(laid_out(20, tmp_path), 32)) == ISAS[16]


def test_others_do_not_and_the_proof_on_a_machine_does(tmp_path: Path) -> None:
    found = graph.portability(laid_out(32, tmp_path))
    assert found == TIED + EITHER_ISA
    assert on_this_cpu(found, flags_here()) == TIED + isa_here()


@pytest.mark.parametrize(
    ("portability", "flags", "expected"),
    [
        ("cpu:avx2-or-avx512f", "avx avx2 avx512f", "cpu:avx512f"),
        ("cpu:avx2-or-avx512f", "avx avx2", "cpu:avx2"),
        ("cpu:avx2-or-avx512f", "", "cpu:avx2-or-avx512f"),
        ("cpu:avx2", "avx avx2 avx512f", "cpu:avx2"),
        ("any", "avx avx2 avx512f", "any"),
    ],
)
def test_only_what_the_file_leaves_open_is_told_by_the_machine(portability: str, flags: str, expected: str) -> None:
    assert on_this_cpu(portability, flags) == expected
