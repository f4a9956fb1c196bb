"""A pass that does not end costs the child, and not the build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from artifactctl.crew import Crew
from artifactctl.project import Limits
from artifactctl.steps.olive import DIED, attempt
from tests.conftest import MODELS

AT_ONCE, LONG = 0.001, 300.0


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    with Crew(limits=Limits(time_s=LONG)) as made, made.working_in(tmp_path, tmp_path, None):
        yield made


def asked(place: Path) -> dict[str, Any]:
    config = {"per_channel": True, "op_types_to_quantize": ["MatMul", "Gemm"]}
    source = str(MODELS / "mlp.onnx")
    return {"name": "OnnxDynamicQuantization", "config": config, "source": source, "folder": str(place)}


def test_a_pass_is_ended_with_its_time_and_the_next_has_a_new_process(crew: Crew, tmp_path: Path) -> None:
    found = attempt(crew, "olive_pass", AT_ONCE, calibration=None, **asked(tmp_path / "late"))
    assert isinstance(found, str)
    assert found.startswith(f"{DIED} ")
    assert "0.001 s" in found
    again = attempt(crew, "olive_pass", LONG, calibration=None, **asked(tmp_path / "again"))
    assert isinstance(again, dict), again
    assert again["changed"]
