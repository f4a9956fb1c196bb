"""The table of ONNX Runtime's releases, and which of them take a model."""

from __future__ import annotations

from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from onnx import TensorProto, helper

from artifactctl import releases
from artifactctl.releases import Need


def model(ir: int = 8, *operators: str, functions: tuple[str, ...] = (), **opsets: int) -> dict[str, Any]:
    named = [dict(zip(("domain", "operator"), name.split(":"), strict=True)) for name in operators]
    kinds = {"ai.onnx": opsets.get("onnx", 17)} | ({"ai.onnx.ml": opsets["ml"]} if "ml" in opsets else {})
    return {"ir_version": ir, "opsets": kinds, "operators": named, "functions": list(functions)}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (model(), Need("1.15", "")),
        (model(10), Need("1.18", "IR 10")),
        (model(8, onnx=22), Need("1.21", "opset 22")),
        (model(10, onnx=23), Need("1.23", "opset 23")),
        (model(8, ml=5), Need("1.18", "opset ai.onnx.ml 5")),
        (model(99), Need(None, "IR 99")),
        (model(8, "com.microsoft:FusedConv"), Need("1.15", "")),
        (model(8, "com.microsoft:MatMulNBits"), Need("1.16", "com.microsoft:MatMulNBits")),
        (model(8, "com.microsoft:Nonesuch"), Need(None, "com.microsoft:Nonesuch")),
        (model(8, "my.ops:Magic"), Need(None, "my.ops:Magic")),
        (model(8, "my.ops:Magic", functions=("my.ops",)), Need("1.15", "")),
        (model(8, "com.microsoft.nchwc:Conv"), Need(None, "com.microsoft.nchwc:Conv")),
    ],
)
def test_the_oldest_release_that_takes_it(asked: dict[str, Any], expected: Need) -> None:
    assert releases.need_of(asked) == expected


def test_promises() -> None:
    assert releases.broken_promise(model(99), None) is None
    assert releases.broken_promise(model(10), "1.18.1") is None
    assert releases.broken_promise(model(10), "1.20") is None  # 1.20 is after 1.18, not before it
    broken = releases.broken_promise(model(10), "1.17")
    assert broken == "needs ONNX Runtime 1.18 for IR 10, and optimize.min_runtime is 1.17"
    assert "my.ops:Magic" in (releases.broken_promise(model(8, "my.ops:Magic"), "1.30") or "")


def test_releases_only_learn() -> None:
    rows = releases.table()
    assert [releases.number(row.version) for row in rows] == [(1, 15 + place) for place in range(len(rows))]
    for before, after in pairwise(rows):
        assert (before.opset, before.ml, before.ir) <= (after.opset, after.ml, after.ir)
        assert not before.operators & after.operators


def loads(path: Path, ir: int, opset: int) -> bool:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    try:
        onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return False
    return True


def test_the_row_of_the_release_that_is_here(tmp_path: Path) -> None:
    here = version("onnxruntime")
    row = [row for row in releases.table() if releases.number(row.version) <= releases.number(here)][-1]
    assert loads(tmp_path, row.ir, row.opset)
    if releases.number(row.version) == releases.number(here):
        assert not loads(tmp_path, row.ir + 1, row.opset)
        assert not loads(tmp_path, row.ir, row.opset + 1)
