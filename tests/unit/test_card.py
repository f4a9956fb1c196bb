from __future__ import annotations

from pathlib import Path

import pytest

from artifactctl import card, metadata

pytestmark = pytest.mark.xdist_group("built")


def test_the_card_is_filled(built: Path) -> None:
    text = card.render(metadata.read(built))
    assert "{{" not in text
    assert text == (built / "README.md").read_text(encoding="utf-8")


def test_a_card_without_measurements(built: Path) -> None:
    data = metadata.read(built) | {"latency": None, "latency_ms": None, "accuracy_drop": None}
    assert "not measured" in card.render(data)
