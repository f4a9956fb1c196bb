"""Types that numpy lacks, as inputs and as outputs of real models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from artifactctl.backends import core

from .small import SETTINGS, node

ODD = ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "INT4", "UINT4", "INT2", "UINT2"]
BOUNDS: dict[str, Any] = {"default": {"max_abs": 1e-3}, "outputs": {}}


def session(folder: Path, kind: str, shape: list[int]) -> Any:
    """x as float32, and from there back."""
    element = getattr(TensorProto, kind)
    nodes = [node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT), node("Cast", ["wide"], ["same"], to=element)]
    values = [helper.make_tensor_value_info("x", element, shape), helper.make_tensor_value_info("same", element, shape)]
    outputs = [values[1], helper.make_tensor_value_info("wide", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "odd", values[:1], outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    path = folder / "odd.onnx"
    onnx.save_model(made, str(path))
    return core.open_session(path, SETTINGS)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("shape", [[2, 3], [5], [0, 4], []])
def test_values_come_back_as_they_went_in(kind: str, shape: list[int], tmp_path: Path) -> None:
    name = kind.lower()
    spec = {"name": "x", "shape": shape, "dtype": name} | (
        {"fill": "range", "range": [-2 if name in ("int2", "int4") else 0, 3]} if "INT" in kind else {"fill": "float"}
    )
    plan = {"inputs": [spec], "sets": [{"kind": "normal", "dims": {}, "draw": 3}]}
    feeds = core.make_inputs(plan, [1], 0)
    found = core.run(session(tmp_path, kind, shape), feeds)
    assert set(found) == {f"same.{name}", "wide"}
    assert found["wide"].shape == tuple(shape)
    np.testing.assert_array_equal(found["wide"], feeds["x"].astype(np.float32))
    np.testing.assert_array_equal(found[f"same.{name}"], feeds["x"])


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind.startswith("FLOAT8")])
def test_every_code_of_a_small_float_means_what_onnx_says(kind: str, tmp_path: Path) -> None:
    import onnxruntime as ort

    raw = np.arange(256, dtype=np.uint8)
    element = getattr(TensorProto, kind)
    stored = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, element)
    answer = session(tmp_path, kind, [256]).run(["wide"], {"x": stored})[0]
    np.testing.assert_array_equal(answer, core.decode(kind.lower(), raw.tobytes(), (256,)))


def test_another_type_with_the_same_values_is_different() -> None:
    values = np.ones(3, np.float32)
    comparison = core.Comparison()
    comparison.add({"y.bfloat16": values}, {"y": values})
    assert not any(output["passed"] for output in comparison.outputs(BOUNDS))


def test_the_bound_of_an_output_holds_for_its_odd_type() -> None:
    comparison = core.Comparison()
    comparison.add({"y.float8e5m2": np.ones(3, np.float32)}, {"y.float8e5m2": np.full(3, 1.25, np.float32)})
    assert not comparison.outputs(BOUNDS)[0]["passed"]
    assert comparison.outputs(BOUNDS | {"outputs": {"y": {"max_abs": 0.3}}})[0]["passed"]
