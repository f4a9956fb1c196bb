"""Pages as a real Markdown parser reads them: names of others are code, whatever they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from artifactctl.ci import page
from artifactctl.ci.judging import CellResult

HOSTILE = [
    "EVIL<script>alert(1)</script>",
    "EVIL | more | cells",
    "EVIL \\| more \\\\| cells",
    "EVIL`code` ``two`` ```\nfence\n```",
    "`EVIL`",
    "EVIL @team #1 GH-1",
    "EVIL\n\n# head\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    "EVIL\r\n<!-- \r\n::error::x\r\n",
    "[EVIL](https://example.com) ![EVIL](https://example.com/x.png) <https://example.com> www.example.com",
    "::error::EVIL",
    "- EVIL\n1. EVIL\n> EVIL\n***",
    "EVIL \u202e\u2028\u2029\x0b\x0c\x85 \x1b[31m",
    " EVIL ",
    "EVIL\\",
    "EVIL&lt;b&gt;&#96;",
    "EVIL" * 500,
    b"EVIL\xff".decode(errors="surrogateescape"),
]
SPEED = {"verdict": "not-slower", "against": "EVIL", "limit": 0.1, "ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6}


@pytest.fixture(autouse=True)
def no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_RUN_ID", raising=False)


def tokens(markdown: str) -> Iterator[Token]:
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown):
        yield token
        yield from token.children or ()


def assert_harmless(markdown: str) -> None:
    markdown.encode()
    columns: list[int] = []
    for token in tokens(markdown):
        assert not token.type.startswith(("html", "link", "image", "fence", "hr", "blockquote", "ordered")), token
        assert "EVIL" not in token.content or token.type in ("code_inline", "inline"), token
        if token.type == "table_open":
            columns = []
        elif token.type == "tr_open":
            columns.append(0)
        elif token.type in ("th_open", "td_open"):
            columns[-1] += 1
        elif token.type == "table_close":
            assert len(set(columns)) == 1, columns
    outside = re.sub(r"`[^`]*`", "", markdown)
    assert "EVIL" not in outside
    assert not re.search(r"^\s*::", markdown, re.M)


def entry(evil: str) -> dict[str, Any]:
    candidate = {
        "recipe": evil, "status": "rejected", "reason": evil, "size_bytes": 10,
        "equivalence": {"max_error": 1e-4}, "latency": {"ratio": 1.0, "ratio_low": 0.9, "ratio_high": 1.1},
    }  # fmt: skip
    return {
        "model": evil, "version": 1, "path": evil, "status": "built", "recipe": evil, "reason": evil,
        "candidates": [candidate, candidate | {"latency": None, "equivalence": None, "size_bytes": None}],
        "latency": {"source": SPEED | {"against": evil}, "previous": None},
        "digest": "a" * 64, "package": f"dist/{evil}", "package_sha256": "b" * 64,
        "operators": [{"operator": evil, "share": 0.5, "time_us": 12.3, "nodes": 2}],
    }  # fmt: skip


def error(evil: str) -> dict[str, Any]:
    return {"name": "NotEquivalent", "message": evil, "hint": evil, "exit_code": 6, "line": evil}


def cell(evil: str, state: str = "different") -> CellResult:
    return CellResult(evil, evil, state, evil, f"artifactctl verify {evil}", True, 0.5)


def output(evil: str, passed: bool = False) -> dict[str, Any]:
    numbers = {"max_abs": 0.5, "max_error": 0.5, "bound": 1e-3, "rel_l2": None}
    return {"name": evil, "passed": passed, **numbers}


def pages(evil: str) -> dict[str, str]:
    planned = {"model": evil, "provider": evil, "runs_on": [evil, evil], "emulated": True}
    verified = {"provider": evil, "verdict": "different", "emulated": True, "outputs": [output(evil)]}
    return {
        "failed": page.failed("verify", "SourceError", evil, evil, evil),
        "planned": page.planned([planned, planned]),
        "built": page.built([entry(evil), entry(evil)], []),
        "build failed": page.built([entry(evil)], [error(evil), error(evil)]),
        "verified": page.verified(verified, evil, error(evil), evil),
        "not verified": page.verified({}, evil, error(evil), evil),
        "gated": page.gated([cell(evil), cell(evil, "proved")], {"artifacts": [entry(evil)], "error": error(evil)}, []),
        "released": page.released([(evil, evil, evil)]),
    }


@pytest.mark.parametrize("evil", HOSTILE)
def test_names_of_others_stay_code(evil: str) -> None:
    for name, markdown in pages(evil).items():
        try:
            assert_harmless(markdown)
        except AssertionError as failure:
            raise AssertionError(f"{name}: {failure}\n{markdown}") from failure


@pytest.mark.parametrize("text", ["EVIL", "<b>x</b>", "[x](https://example.com)", "::error::x", "***"])
def test_the_check_itself_sees_what_gets_out(text: str) -> None:
    with pytest.raises(AssertionError):
        assert_harmless(text)


@pytest.mark.parametrize("evil", ["", " ", "\n"])
def test_names_that_are_nothing(evil: str) -> None:
    for markdown in pages(evil).values():
        assert "``" not in markdown


def first(markdown: str) -> str:
    return markdown.splitlines()[0]


def test_the_verdict_is_the_first_line() -> None:
    shown = pages("mlp")
    assert first(shown["failed"]) == "## ❌ artifactctl verify: SourceError"
    assert first(shown["planned"]) == "## artifactctl: 2 cells to prove"
    assert first(shown["built"]) == "## ✅ artifactctl: `mlp artifact_v1`, `mlp artifact_v1` proved"
    assert first(shown["build failed"]) == "## ❌ artifactctl build failed"
    assert first(shown["verified"]) == "## ❌ `mlp` on `mlp`: different"
    assert first(shown["not verified"]) == "## ❌ artifactctl verify: NotEquivalent"
    assert first(shown["gated"]) == "## ❌ artifactctl: 1 of 2 cells are not proved"
    assert first(shown["released"]) == "## ✅ artifactctl: released"


def test_the_verdict_of_the_gate() -> None:
    good = [cell("mlp", "proved")]
    build = {"artifacts": [], "error": None}
    assert first(page.gated(good, build, [])) == "## ✅ artifactctl: every cell is proved"
    assert first(page.gated(good, None, [])) == "## ✅ artifactctl: every cell is proved"
    assert first(page.gated(good, build | {"error": error("x")}, [])) == "## ❌ artifactctl: the build failed"
    assert first(page.gated([], build, [])).startswith("## ❌")


def test_a_failed_cell_names_its_command() -> None:
    line = "artifactctl verify artifacts/mlp/artifact_v1 --provider qnn"
    red = CellResult("mlp", "qnn", "missing", "no evidence came back", line, emulated=True)
    green = CellResult("mlp", "cpu", "proved", "", line.replace("qnn", "cpu"), max_error=1e-5)
    shown = page.gated([red, green], None, [])
    assert f"`{line}`" in shown
    assert green.line not in shown
    assert "1.00e-05" in shown
    assert "⚠️ emulated" in shown
    assert f"`{line}`" in page.verified({}, "mlp", error("x"), line)
    verified = {"provider": "qnn", "verdict": "different", "outputs": [output("y")]}
    assert f"`{line}`" in page.verified(verified, "mlp", error("x"), line)


def test_links_only_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SERVER_URL": "https://github.com", "REPOSITORY": "owner/name", "RUN_ID": "7"}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    links = [token.attrs["href"] for token in tokens(page.gated([cell("x")], None, [])) if token.type == "link_open"]
    assert links == ["https://github.com/owner/name/actions/runs/7#artifacts"]
    monkeypatch.delenv("GITHUB_RUN_ID")
    assert "](" not in page.gated([cell("x")], None, [])


def test_a_pull_request_says_that_nothing_is_released() -> None:
    assert "nothing is released" in page.gated([cell("x", "proved")], None, ["… and nothing is released."])
