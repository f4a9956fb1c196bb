"""Annotations and the summary page cannot be broken by what a model or a message says."""

from __future__ import annotations

from pathlib import Path

import pytest

from artifactctl.report import github


def test_nothing_outside_of_actions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    github.annotate("NotEquivalent", "text")
    github.summarize("title", "text")
    assert capsys.readouterr() == ("", "")


def test_an_annotation_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    github.annotate("NotEquivalent", "first\n::warning::second, 100%")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "::error title=artifactctl NotEquivalent::first%0A::warning::second, 100%25\n"


def test_the_summary_cannot_leave_its_fence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    github.summarize("artifactctl build", "a\n````\n<script>\n")
    github.summarize("artifactctl verify", "b")
    lines = page.read_text().splitlines()
    assert lines.count("`````") == 2
    assert lines.count("```") == 2
    assert lines[0] == "### artifactctl build"
