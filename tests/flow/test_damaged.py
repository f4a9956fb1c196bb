"""A fixed sample of benchmarks/damaged.py: every kind of damage ends in a verdict and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from artifactctl.project import Limits
from benchmarks.damaged import Cage, Outcome
from tests.conftest import MODELS
from tests.models.damage import MAKERS, Case, plan

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the traps are pipes and links")

FILES = [MODELS / f"{name}.onnx" for name in ("mlp", "cnn", "branch", "tokens")]
CASES = plan(60, 1, FILES)
BY_COMMAND_LINE = ("external: parent folder", "truncated", "cyclic graph")  # all refused, hence quick


@pytest.fixture(scope="module")
def cage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cage]:
    cage = Cage(tmp_path_factory.mktemp("cage") / "outer", Limits(time_s=20, memory_mb=4096))
    with cage.entered():
        yield cage
        assert cage.left_behind() == []


def test_every_kind_is_in_the_sample() -> None:
    assert {case.kind for case in CASES} == set(MAKERS)
    assert plan(60, 1, FILES) == CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}-{case.kind}-{case.model.stem}")
def test_damage_ends_in_a_verdict(cage: Cage, case: Case) -> None:
    outcome = cage.run(case, command_line=case.kind in BY_COMMAND_LINE)
    assert outcome.faults == [], f"{outcome.note}: {outcome.message}"
    assert outcome.verdict


class Careless(Cage):
    """Does what no build may do."""

    def _build(self, place: Path, outcome: Outcome) -> None:
        self.outside.canary.read_bytes()
        (self.place / "secret" / "new").touch()
        (place / "artifacts" / ".work" / "model@build-1").mkdir(parents=True)
        (self.place / "home" / ".cache").mkdir()


def test_the_cage_sees_what_it_should(tmp_path: Path) -> None:
    cage = Careless(tmp_path / "outer", Limits())
    if not cage.sees_reads:
        pytest.skip("this file system does not note reads")
    outcome = cage.run(CASES[0])
    assert outcome.marks == ["leftover", "outside", "outside"]
    assert "was read: ['canary.bin']" in outcome.faults[1]
    assert "secret/new" in outcome.faults[2]
    assert cage.left_behind() == ["home/.cache"]
