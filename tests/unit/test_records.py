from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from artifactctl.records import AccuracyReport, EquivalenceReport, OutputReport


def output(name: str = "y", **changes: Any) -> OutputReport:
    values = {
        "name": name, "dtype": "float32", "max_abs": 1e-6, "max_error": 1e-6, "mean_abs": 1e-7, "rel_l2": 1e-6,
        "cosine": 1.0, "top1": None, "bound": 1e-3, "vacuous": False, "passed": True, "reason": None,
    }  # fmt: skip
    return OutputReport(**(values | changes))


def test_a_report_passes_when_every_output_does() -> None:
    report = EquivalenceReport("cpu", 4, (output(), output("z", max_abs=2e-6)))
    assert (report.passed, report.reason, report.vacuous) == (True, None, False)
    assert report.summary() == {"max_abs": 2e-6, "max_error": 1e-6, "mean_abs": 1e-7, "rel_l2": 1e-6, "samples": 4}


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (EquivalenceReport("cpu", 0, ()), "no output was compared"),
        (EquivalenceReport("cpu", 0, (), failure="it crashed"), "it crashed"),
        (EquivalenceReport("cpu", 1, (output(),), failure="it crashed"), "it crashed"),
        (EquivalenceReport("cpu", 1, (output(), output("z", passed=False, reason="far off"))), "output 'z': far off"),
        (EquivalenceReport("cpu", 1, (output(),), accuracy=AccuracyReport(False, "fell")), "fell"),
    ],
)
def test_anything_else_is_no_pass(report: EquivalenceReport, reason: str) -> None:
    assert not report.passed
    assert report.reason == reason


def test_a_failure_without_a_reason_is_no_pass() -> None:
    assert not EquivalenceReport("cpu", 1, (output(passed=False),)).passed
    assert not EquivalenceReport("cpu", 1, (output(),), accuracy=AccuracyReport(False)).passed


def test_vacuous_means_that_no_output_tells_samples_apart() -> None:
    assert EquivalenceReport("cpu", 1, (output(vacuous=True),)).vacuous
    assert not EquivalenceReport("cpu", 1, (output(vacuous=True), output("z"))).vacuous
    assert not EquivalenceReport("cpu", 1, ()).vacuous


def test_a_report_is_read_back_from_json() -> None:
    report = EquivalenceReport("cpu", 3, (output(),), ({"set": "0"},), AccuracyReport(True, None, 0.9, 0.9, 0.0, 3))
    assert EquivalenceReport.from_dict(json.loads(json.dumps(asdict(report)))) == report
