"""A pass that does not end costs the child, and not the build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from artifactctl.crew import Crew
from artifactctl.process import Worker
from artifactctl.project import Limits
from artifactctl.steps.olive import DIED, ENDLESS, UNFINISHED, attempt, is_late, is_no_answer
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


class Falling(Crew):
    """Olive's process ends so many times when it is asked for."""

    left = 99

    def olive_ready(self) -> Worker:
        worker = super().olive_ready()
        if self.left:
            self.left -= 1
            worker.close()
        return worker


@pytest.mark.parametrize("times", [1, 2])
def test_a_crash_is_tried_once_more(tmp_path: Path, times: int) -> None:
    """What it had written is gone by then."""
    (tmp_path / "made").mkdir()
    with Falling() as crew, crew.working_in(tmp_path, tmp_path, None):
        crew.left = times
        found = attempt(crew, "olive_pass", LONG, calibration=None, **asked(tmp_path / "made"))
    if times == 1:
        assert isinstance(found, dict), found
        assert found["changed"]
    else:
        assert found == f"{DIED} crashed with SIGKILL, twice"
        assert is_no_answer(found)
        assert not is_late(found)


def test_a_pass_that_runs_into_the_time_limit_may_not_another_time(tmp_path: Path) -> None:
    with Crew(limits=Limits(time_s=AT_ONCE)) as crew, crew.working_in(tmp_path, tmp_path, None):
        found = attempt(crew, "olive_pass", AT_ONCE, calibration=None, **asked(tmp_path / "late"))
    assert found == ENDLESS
    assert found.startswith(DIED)
    assert "--time-limit" in found
