"""Where candidates are tried, where the answers of providers are given."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl.errors import SourceError
from artifactctl.providers import PROVIDERS
from artifactctl.records import Session
from artifactctl.steps.places import everywhere
from tests.unit.steps.test_choose import proof, tried
from tests.unit.steps.test_reuse import reference

PLAN = {"inputs": [], "entries": {}, "batched": False, "states": [], "batch_axes": {}, "branches": []}


class Machine:
    """Answers as the crew does; `runs` are the files that OpenVINO takes whole."""

    def __init__(self, *runs: str) -> None:
        self.runs = runs

    def ask(self, name: str, operation: str, **arguments: Any) -> dict[str, Any]:
        if operation == "describe_runtime":
            return {"providers": ["CPUExecutionProvider", "OpenVINOExecutionProvider"], "threads": 2}
        if Path(arguments["path"]).name not in self.runs:
            raise SourceError("it does not run there")
        report = asdict(proof(provider=arguments["settings"]["provider"]))
        return {"graph_level": "all", "levels": [], "report": report} if operation == "noise" else report


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), [("fp32", "cpu"), ("source", "openvino"), ("slim", "cpu")]),
        (("slim.onnx",), [("fp32", "cpu"), ("source", "openvino"), ("slim", "cpu"), ("slim", "openvino")]),
        (
            ("m.onnx", "slim.onnx"),
            [("fp32", "cpu"), ("fp32", "openvino"), ("source", "openvino"), ("slim", "cpu"), ("slim", "openvino")],
        ),
    ],
)
def test_a_candidate_may_run_where_its_source_does_not(
    runs: tuple[str, ...], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    """What does not run there either is not worth a line; that a provider is missing here is, with what to type."""
    base = reference(tmp_path, plan=PLAN, session=Session("cpu", "CPUExecutionProvider", 2))
    elsewhere = [name for name, row in PROVIDERS.items() if row.why_not_here()]  # the cells of a matrix are for them
    config = replace(base.source.config, providers=("cpu", *elsewhere, "qnn", "openvino", "cuda"))
    base = replace(base, source=replace(base.source, config=config))
    items = [
        replace(item, candidate=replace(item.candidate, path=tmp_path / f"{item.candidate.recipe}.onnx"))
        for item in (tried("fp32"), tried("slim"))
    ]
    found = everywhere(base, items, Machine(*runs), lambda line: None)  # type: ignore[arg-type]
    assert [(item.candidate.recipe, item.provider) for item in found] == [*expected, ("source", "cuda")]
    assert found[-1].candidate.path is None
    assert (found[-1].candidate.failure or "").startswith("not tried: provider cuda is not available here")
    assert "onnxruntime-gpu" in (found[-1].candidate.failure or "")
    source = next(item for item in found if item.candidate.recipe == "source")
    assert (source.candidate.failure is None) is ("m.onnx" in runs)
