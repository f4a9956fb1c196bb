from __future__ import annotations

import pytest

from artifactctl import membernames
from tests.models import hostile


@pytest.mark.parametrize(
    "name",
    ["SHA256SUMS", "artifact_v1/evidence/latency.cpu.json", "CandidateModels/cpu-cpu/BestCandidateModel_1/model.onnx",
     "a b", "caf\u00e9/模型.onnx", "console.txt", "a..b", "x" * 120],
)  # fmt: skip
def test_good_names(name: str) -> None:
    assert membernames.problem(name) is None
    assert membernames.clashes([name, "other"]) == []


@pytest.mark.parametrize("name", ["", "/", "..", "a/..", "a/../b", "~\u0000", "\ud800", "a/ b", "a/b /c", "a/.b/c"])
def test_bad_names(name: str) -> None:
    assert membernames.problem(name)


@pytest.mark.parametrize("names", [["a", "a"], ["a", "A"], ["Straße", "STRASSE"], ["ﬁle", "file"], ["a", "a/b"],
                                   ["A", "a/b"], ["x/a", "X/b"], ["x/y/a", "x/Y/b"]])  # fmt: skip
def test_clashes(names: list[str]) -> None:
    assert len(membernames.clashes(names)) == 1
    assert len(membernames.clashes(names[::-1])) == 1


def test_a_name_cannot_write_on_a_terminal() -> None:
    assert membernames.shown("a\x1b[2Jb") == "'a\\x1b[2Jb'"
    assert len(membernames.shown("x" * 500)) == 120
    assert all(membernames.shown(name).isprintable() for name in hostile.NAMES)
