from __future__ import annotations

from pathlib import Path

import pytest

from artifactctl.records import AccuracyReport, EquivalenceReport, OutputReport
from artifactctl.report.text import number, shown, table, verify_data, verify_text


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    text = table(("name", "n"), [("a", "100"), ("longer", "2")])
    assert text.splitlines() == ["name    n", "------  ---", "a       100", "longer  2"]


def test_a_table_without_rows_has_its_head() -> None:
    assert table(("a", "bcd"), []).splitlines() == ["a  bcd", "-  ---"]


def test_no_line_ends_in_blanks() -> None:
    assert not [line for line in table(("a", "b"), [("x", ""), ("", "")]).splitlines() if line != line.rstrip()]


def test_a_row_of_another_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        table(("a",), [("x", "y")])


def test_numbers() -> None:
    assert (number(None), number(0.0), number(0.00123), number(2.5, ".1f")) == ("–", "0.00e+00", "1.23e-03", "2.5")


def test_paths_are_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    assert shown(tmp_path / "inside" / "a" / "b") == "a/b"
    assert shown(tmp_path / "beside") == "../beside"


def report(passed: bool) -> EquivalenceReport:
    reason = None if passed else "error 0.5 is over the bound 0.001"
    output = OutputReport("y", "float32", 0.5, 0.5, 0.1, 0.2, 0.9, None, 1e-3, False, passed, reason)
    return EquivalenceReport("cpu", 7, (output,), accuracy=AccuracyReport(True, None, 0.9, 0.8, 0.1, 7))


def test_a_verdict_for_people_and_for_machines() -> None:
    good, bad = report(True), report(False)
    assert "equivalent on 7 samples, provider cpu" in verify_text(Path("x"), good)
    assert "DIFFERENT on 7 samples" in verify_text(Path("x"), bad)
    assert "over the bound" in verify_text(Path("x"), bad)
    assert "accuracy  drop +0.1000 on 7 labelled samples" in verify_text(Path("x"), good)
    assert (verify_data(good)["verdict"], verify_data(bad)["verdict"]) == ("equivalent", "different")
    keys = {"name", "max_abs", "max_error", "mean_abs", "rel_l2", "cosine", "bound", "passed"}
    assert keys <= verify_data(good)["outputs"][0].keys()
