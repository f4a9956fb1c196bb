"""Graphs that ONNX Runtime itself saved on this machine, and what others would have saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from artifactctl.backends import graph, layout
from artifactctl.backends.timing import describe_machine
from artifactctl.portability import ANY_ISA, BLOCKS_OF_8, BLOCKS_OF_16, on_this_cpu, tied_to


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


def here() -> dict[str, Any]:
    found: dict[str, Any] = describe_machine()["machine"]
    return found


def test_channels_that_are_filled_up_tell_the_cpu(tmp_path: Path) -> None:
    own = BLOCKS_OF_8 if here()["machine"] == "x86_64" and "avx512f" not in here()["flags"].split() else BLOCKS_OF_16
    assert layout.isas_of(laid_out(20, tmp_path)) == own
    assert layout.isas_of(elsewhere(laid_out(20, tmp_path), 24)) == BLOCKS_OF_8
    assert layout.isas_of(elsewhere(laid_out(20, tmp_path), 32)) == BLOCKS_OF_16


def test_others_do_not_and_the_proof_on_a_machine_does(tmp_path: Path) -> None:
    found = graph.portability(laid_out(32, tmp_path))
    assert found == tied_to(ANY_ISA)
    assert on_this_cpu(found, here()) in ("cpu:avx2", "cpu:avx512f", "cpu:neon")


@pytest.mark.parametrize(
    ("portability", "machine", "flags", "expected"),
    [
        ("cpu:avx2-or-avx512f-or-neon", "x86_64", "avx avx2 avx512f", "cpu:avx512f"),
        ("cpu:avx2-or-avx512f-or-neon", "AMD64", "avx avx2", "cpu:avx2"),
        ("cpu:avx2-or-avx512f-or-neon", "aarch64", "asimd", "cpu:neon"),
        ("cpu:avx2-or-avx512f-or-neon", "AMD64", "", "cpu:avx2-or-avx512f-or-neon"),
        ("cpu:avx512f-or-neon", "arm64", "", "cpu:neon"),
        ("cpu:avx2", "x86_64", "avx avx2 avx512f", "cpu:avx2"),
        ("any", "x86_64", "avx avx2 avx512f", "any"),
    ],
)
def test_only_what_the_file_leaves_open_is_told_by_the_machine(
    portability: str, machine: str, flags: str, expected: str
) -> None:
    assert on_this_cpu(portability, {"machine": machine, "flags": flags}) == expected
