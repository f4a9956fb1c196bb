"""A pass that does not end costs the child, and not the build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from artifactctl.crew import Crew
from artifactctl.project import Limits
from artifactctl.steps.olive import DIED, ENDLESS, UNFINISHED, attempt, is_no_answer
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
    """It was the search that had no more of it."""
    found = attempt(crew, "olive_pass", AT_ONCE, calibration=None, **asked(tmp_path / "late"))
    assert found == UNFINISHED
    assert not found.startswith(DIED)
    assert is_no_answer(found)
    again = attempt(crew, "olive_pass", LONG, calibration=None, **asked(tmp_path / "again"))
    assert isinstance(again, dict), again
    assert again["changed"]


def test_a_pass_that_runs_into_the_time_limit_may_not_another_time(tmp_path: Path) -> None:
    with Crew(limits=Limits(time_s=AT_ONCE)) as crew, crew.working_in(tmp_path, tmp_path, None):
        found = attempt(crew, "olive_pass", AT_ONCE, calibration=None, **asked(tmp_path / "late"))
    assert found == ENDLESS
    assert found.startswith(DIED)
    assert "--time-limit" in found
