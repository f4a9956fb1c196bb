from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from artifactctl.report.names import code, markdown_table, visible

HOSTILE = [
    "a|b", "a\\|b", "\\", "`", "``x``", "a`b|c", "<script>alert(1)</script>", "</code></td>", "<!-- x", "a\nb",
    "a\r\n| b |",
    "\x1b[31mred", "\u202egnp.exe", "\u2028", "[x](http://e.example)", "![x](y)", "@someone", "#1", "**bold**",
    "&lt;b&gt;", "http://e.example", " ", "", "x\0y", "a" * 500, "|", "\t", "~~~", "---", "\U000e0041",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_in_its_cell(name: str) -> None:
    table = markdown_table(("one", "two", "three"), [(code(name), "second", "third")])
    html = MarkdownIt("commonmark").enable("table").render(table)
    assert html.count("<td>") == 3
    assert "<td>second</td>\n<td>third</td>" in html
    first = html.split("<td>")[1].split("</td>")[0]
    inside = first.removeprefix("<code>").removesuffix("</code>")
    assert "<" not in inside
    assert inside.isprintable()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_in_its_line(name: str) -> None:
    html = MarkdownIt("commonmark").render(f"Proved: {code(name)} on 3 samples.")
    assert html.startswith("<p>Proved: ")
    assert html.endswith(" on 3 samples.</p>\n")
    assert html.count("<p>") == 1
    assert html.count("<") <= 4


@pytest.mark.parametrize("name", HOSTILE)
def test_a_terminal_has_nothing_to_obey(name: str) -> None:
    assert visible(name).isprintable()
    assert len(visible(name)) <= 100


def test_plain_names_stay_as_they_are() -> None:
    for name in ("w1", "/model/layers.0/MatMul_output_0", "onnx::MatMul_12", "größe"):
        assert visible(name) == name
        assert code(name) == f"`{name}`"


def test_the_ends_of_long_names_are_kept() -> None:
    assert visible("begin" + "x" * 500 + "end", 20) == "beginx…xxxxxxxxxxend"
