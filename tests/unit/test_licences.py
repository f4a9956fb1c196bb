"""What `license:` may say, and which words are told to be mistyped."""

from __future__ import annotations

import pytest

from artifactctl import licences


@pytest.mark.parametrize(
    "text", ["MIT", "apache-2.0 or MIT", "GPL-2.0-only WITH Classpath-exception-2.0", "LicenseRef-x"]
)
def test_expressions(text: str) -> None:
    assert licences.expression(text)
    assert licences.warning(text) is None


@pytest.mark.parametrize(
    ("text", "near"),
    [("Apache 2.0", "Apache-2.0"), ("MIT OR Apche-2.0", "Apache-2.0"), ("(mit and bsd-3clause)", "BSD-3-Clause")],
)
def test_mistyped(text: str, near: str) -> None:
    found = licences.warning(text)
    assert found is not None
    assert repr(text) in found
    assert found.endswith(f"perhaps you meant {near}")


@pytest.mark.parametrize("text", ["BSD", "GPL3", "ask us\nfirst", "Proprietary", "()", "?"])
def test_names(text: str) -> None:
    found = licences.warning(text)
    assert found is not None
    assert found.endswith("LicenseRef-NAME")
    assert "\n" not in found


def test_nothing_said() -> None:
    assert licences.warning(None) is None
