"""Annotations and the summary page cannot be broken by what a model or a message says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    assert err == "::error title=artifactctl NotEquivalent::first%0A: :warning: :second, 100%25\n"


def test_the_summary_cannot_leave_its_fence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    github.summarize("artifactctl build", "a\n````\n<script>\n")
    github.summarize("artifactctl verify", "b")
    lines = page.read_text().splitlines()
    assert lines.count("`````") == 2
    assert lines.count("```") == 2
    assert lines[0] == "### artifactctl build"


def parsed(path: Path) -> dict[str, str]:
    """As the runner reads GITHUB_OUTPUT: `name<<mark`, lines, `mark`."""
    found: dict[str, str] = {}
    lines = iter(re.split(r"\r\n|\n|\r", path.read_bytes().decode().removesuffix("\n")))
    for line in lines:
        name, sign, mark = line.partition("<<")
        assert sign, line
        value = []
        for each in lines:
            if each == mark:
                break
            value.append(each)
        else:
            raise AssertionError(f"{name} has no end")
        assert name not in found
        found[name] = "\n".join(value)
    return found


HOSTILE = [
    "",
    "plain",
    "two\nlines",
    "dos\r\nlines\rx",
    "x\nversion<<EOF\n9\nEOF",
    "x\nartifactctl_0000\ndigest<<artifactctl_0000\nevil\nartifactctl_0000\n",
    "::set-output name=version::9",
    "$(touch x) `y` ; ' \" %0A ü 😀",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_cannot_become_another_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    github.output({"version": value, "digest": "d"})
    github.output({"path": value})
    as_read = re.sub(r"\r\n|\r", "\n", value)
    assert parsed(tmp_path / "output") == {"version": as_read, "digest": "d", "path": as_read}


@given(value=st.text(alphabet="a<=:_%\r\n ü"))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_one_output(tmp_path: Path, value: str) -> None:
    place = tmp_path / "output"
    place.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_OUTPUT", str(place))
        github.output({"a": value, "b": "end"})
    assert parsed(place) == {"a": re.sub(r"\r\n|\r", "\n", value + "\n")[:-1], "b": "end"}


def test_each_value_has_a_mark_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    github.output({"a": "1", "b": "2"})
    github.output({"c": "3"})
    marks = re.findall(r"<<(\S+)", (tmp_path / "output").read_text())
    assert len(set(marks)) == 3
    assert all(len(mark) > 32 for mark in marks)


def test_names_that_are_not_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = b"m\xff.onnx".decode(errors="surrogateescape")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    github.output({"path": name})
    github.summarize("title", name)
    assert parsed(tmp_path / "output") == {"path": "m\\udcff.onnx"}
    assert "m\\udcff.onnx" in (tmp_path / "summary").read_text()


def test_an_annotation_at_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    github.annotate("Not,Equivalent", "a: 1, 2", "sub/a,b:c%\n::error::.yaml", 7)
    place = "file=sub/a%2Cb%3Ac%25%0A%3A%3Aerror%3A%3A.yaml,line=7"
    assert capsys.readouterr().err == f"::error {place},title=artifactctl Not%2CEquivalent::a: 1, 2\n"


def test_a_line_without_a_file_is_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    github.annotate("ConfigError", "text", None, 7)
    assert "line=" not in capsys.readouterr().err


@pytest.mark.parametrize("letter", ["a", "ü", "😀"])
def test_a_page_is_cut_at_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, letter: str) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    line = f"- `{letter * 331}`"
    github.append_page(f"{line}\n" * (2 * github.SUMMARY_BYTES // len(line.encode())))
    data = page.read_bytes()
    assert github.SUMMARY_BYTES - 2000 < len(data) <= github.SUMMARY_BYTES
    body, _, rest = data.decode().partition(github.CUT)
    assert rest == ""
    assert set(body.split("\n")) == {line}


def test_a_page_within_the_limit_is_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    github.append_page("ü" * (github.SUMMARY_BYTES // 2))
    assert page.read_text() == "ü" * (github.SUMMARY_BYTES // 2)


def test_the_limit_is_of_the_whole_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of several commands in one step appends; over 1 MiB GitHub would show none of it."""
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    for _ in range(4):
        github.append_page("- a line\n" * 60_000)
    assert page.stat().st_size <= github.SUMMARY_BYTES
    assert page.read_text().count(github.CUT.strip()) == 1


def test_the_runner_is_told_to_obey_nothing_meanwhile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with pytest.raises(KeyError), github.commands_off():
        sys.stderr.write("::error::x\n")
        raise KeyError
    with github.commands_off():
        pass
    first, inside, last, second, _ = capsys.readouterr().err.splitlines()
    mark = first.removeprefix("::stop-commands::")
    assert (inside, last) == ("::error::x", f"::{mark}::")
    assert mark not in second
    monkeypatch.delenv("GITHUB_ACTIONS")
    with github.commands_off():
        pass
    assert capsys.readouterr().err == ""
