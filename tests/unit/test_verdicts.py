from __future__ import annotations

import pytest

from artifactctl import verdicts

NUMBERS = {"against": "artifact_v1", "limit": 0.1, "ratio": 1.25, "ratio_low": 1.2, "ratio_high": 1.3, "reason": ""}


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        ("not-slower", "not slower than artifact_v1 by more than 10.0%, proved: 1.250 × its time (1.200–1.300)"),
        ("regression", "SLOWER than artifact_v1 by more than 10.0%, proved: 1.250 × its time (1.200–1.300)"),
        ("not-proven", "not proven whether slower than artifact_v1 by more than 10.0%: 1.250 × its time (1.200–1.300)"),
    ],
)
def test_a_verdict_in_words(verdict: str, text: str) -> None:
    assert verdicts.sentence(NUMBERS | {"verdict": verdict}) == text


def test_without_numbers_the_reason_is_told() -> None:
    nothing = {"ratio": None, "ratio_low": None, "ratio_high": None, "reason": "it takes other inputs"}
    found = verdicts.sentence(NUMBERS | nothing | {"verdict": "not-comparable"})
    assert found == "not comparable with artifact_v1: it takes other inputs"


def test_an_interval_that_says_nothing_is_not_printed() -> None:
    wide = NUMBERS | {"ratio": 0.65, "ratio_low": 0.0, "ratio_high": 14399.16}
    assert verdicts.spread(wide, unit="", digits=2) == "0.65 (too few rounds to tell)"
    assert verdicts.spread(NUMBERS, unit="", digits=2) == "1.25 (1.20–1.30)"
