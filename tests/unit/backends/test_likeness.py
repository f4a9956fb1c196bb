from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from artifactctl.backends.likeness import graph_differences
from artifactctl.errors import SourceError
from tests.conftest import MODELS


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return tmp_path / "other.onnx"


def test_names_and_order_are_no_difference(other: Path) -> None:
    model = onnx.load(MODELS / "mlp.onnx")
    model.graph.name = "another"
    weights = list(model.graph.initializer)
    del model.graph.initializer[:]
    model.graph.initializer.extend(reversed(weights))
    onnx.save(model, other)
    found = graph_differences(str(MODELS / "mlp.onnx"), str(other))
    assert found == {"same": True, "operators": [], "weights": {"recorded": 0, "rebuilt": 0, "names": []}}


def test_a_weight_is_named(other: Path) -> None:
    model = onnx.load(MODELS / "mlp.onnx")
    weight = model.graph.initializer[1]
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) + 1, weight.name))
    onnx.save(model, other)
    found = graph_differences(str(MODELS / "mlp.onnx"), str(other))
    assert (found["same"], found["operators"]) == (False, [])
    assert found["weights"] == {"recorded": 1, "rebuilt": 1, "names": [weight.name]}


def test_operators_are_counted(other: Path) -> None:
    model = onnx.load(MODELS / "mlp.onnx")
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    relu.op_type = "Sigmoid"
    onnx.save(model, other)
    assert graph_differences(str(MODELS / "mlp.onnx"), str(other))["operators"] == [
        {"operator": "ai.onnx:Relu", "recorded": 1, "rebuilt": 0},
        {"operator": "ai.onnx:Sigmoid", "recorded": 0, "rebuilt": 1},
    ]


def test_what_is_no_model_cannot_be_compared(other: Path) -> None:
    other.write_bytes(b"not a model")
    with pytest.raises(SourceError, match=r"other\.onnx is not a whole ONNX file"):
        graph_differences(str(other), str(MODELS / "mlp.onnx"))
