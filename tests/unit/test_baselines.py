"""Which machines may be compared by absolute numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl import baselines, jsontext
from artifactctl.errors import ArtifactctlError, ConfigError, LatencyRegression, NotAvailable
from artifactctl.project import Budgets, Latency
from artifactctl.records import LatencyReport, Session, Timing
from artifactctl.steps.bench import Standard, budget_problems, noise_warnings

MACHINE: dict[str, Any] = {
    "system": "linux", "machine": "x86_64", "cpu": "A", "flags": "avx avx2", "cores": 2, "memory_gb": 8,
    "onnxruntime": "1.31.1",
}  # fmt: skip
SESSION = Session("cpu", "CPUExecutionProvider", 2)
TIMING = Timing(2_000_000, p50_ms=5.0, peak_rss_mb=30.0)


def report(timing: Timing = TIMING) -> LatencyReport:
    return LatencyReport("cpu", "not-slower", 1.0, 0.9, 1.1, 0.1, 0.1, 0.99, 100, 5, 1.0, timing, timing)


def problems(root: Path, latency: Latency, budgets: Budgets, **machine: Any) -> list[ArtifactctlError]:
    return budget_problems(report(), Standard(latency, budgets, MACHINE | machine, SESSION, root, "m"))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    content = baselines.content("m", {"version": 1, "sha256": "0" * 64}, TIMING, MACHINE, SESSION)
    jsontext.write(baselines.path_of(tmp_path, "m", "cpu"), content)
    return tmp_path


@pytest.mark.parametrize(
    "change",
    [
        {"system": "darwin"}, {"machine": "aarch64"}, {"cpu": "B"}, {"flags": "avx"}, {"cores": 4}, {"memory_gb": 16},
        {"onnxruntime": "1.30.0"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_another_machine_is_not_comparable(saved: Path, change: dict[str, Any]) -> None:
    found = problems(saved, Latency(max_ms=1e9), Budgets(), **change)
    assert [type(problem) for problem in found] == [NotAvailable]
    assert "another machine" in str(found[0])


@pytest.mark.parametrize("session", [replace(SESSION, intra_op_threads=1), replace(SESSION, options={"a": "b"})])
def test_other_threads_or_options_are_another_fingerprint(session: Session) -> None:
    assert baselines.fingerprint(MACHINE, session) != baselines.fingerprint(MACHINE, SESSION)


def test_the_same_machine_is_judged(saved: Path) -> None:
    assert problems(saved, Latency(max_ms=5.0), Budgets(memory_mb=30.0, size_mb=2.0)) == []
    found = problems(saved, Latency(max_ms=4.9), Budgets(memory_mb=29.0, size_mb=1.9))
    assert [type(problem) for problem in found] == [LatencyRegression] * 3
    assert [key in str(problem) for key, problem in zip(("size", "latency", "memory"), found, strict=True)] == [
        True
    ] * 3


def test_what_was_not_measured_is_over_its_budget(saved: Path) -> None:
    found = budget_problems(report(Timing(1)), Standard(Latency(max_ms=1e9), Budgets(), MACHINE, SESSION, saved, "m"))
    assert [type(problem) for problem in found] == [LatencyRegression]


def test_no_budget_needs_no_baseline(tmp_path: Path) -> None:
    assert problems(tmp_path, Latency(), Budgets(size_mb=10.0)) == []
    assert [type(problem) for problem in problems(tmp_path, Latency(max_ms=1.0), Budgets())] == [NotAvailable]


def test_a_damaged_baseline_is_no_baseline_at_all(saved: Path) -> None:
    path = baselines.path_of(saved, "m", "cpu")
    for text in ("{", "[]", '{"schema_version": 1}'):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"m\.cpu\.json"):
            problems(saved, Latency(max_ms=1.0), Budgets())


def test_noise_is_told() -> None:
    quiet = {"load": 0.1, "governor": "performance", "quota_cores": None, "steal": [10, 1000]}
    assert noise_warnings(quiet, quiet | {"steal": [10, 2000]}) == []
    loud = {"load": 3.5, "governor": "powersave", "quota_cores": 1.5, "steal": [10, 1000]}
    found = noise_warnings(loud, loud | {"steal": [110, 2000]})
    assert len(found) == 4
    for word in ("powersave", "1.5 cores", "10%", "3.5"):
        assert any(word in text for text in found)
