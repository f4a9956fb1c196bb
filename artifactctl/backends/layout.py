"""For which CPUs a graph is laid out that ONNX Runtime saved with convolutions in blocks of channels (nchwc).

Blocks have 16 channels where the CPU that it was saved on has AVX-512, or is an ARM one, and 8 on other x86. Only
counts of channels that had to be filled up tell the two apart.
"""

from __future__ import annotations

from onnx import ModelProto, NodeProto

from artifactctl.portability import ANY_ISA, BLOCKS_OF_8, BLOCKS_OF_16

DOMAIN = "com.microsoft.nchwc"


def isas_of(model: ModelProto) -> tuple[str, ...]:
    """Those that may have saved it."""
    rows = {tensor.name: tensor.dims[0] for tensor in model.graph.initializer if tensor.dims}
    makers = {output: node for node in model.graph.node for output in node.output}
    filled = {node.output[0]: rows[node.input[1]] for node in _convolutions(model) if node.input[1] in rows}
    if any(count % 16 for count in filled.values()):
        return BLOCKS_OF_8
    for node in model.graph.node:
        if node.domain == DOMAIN and node.op_type == "ReorderOutput" and node.input:
            made = node.input[0]
            while made not in filled and made in makers and makers[made].domain == DOMAIN and makers[made].input:
                made = makers[made].input[0]
            channels = next((item.i for item in node.attribute if item.name == "channels"), 0)
            if channels and filled.get(made, 0) - channels >= 8:
                return BLOCKS_OF_16
    return ANY_ISA


def _convolutions(model: ModelProto) -> list[NodeProto]:
    return [node for node in model.graph.node if node.domain == DOMAIN and node.op_type == "Conv" and node.input[1:]]
