"""The outcomes of the latency gate, and how they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOT_SLOWER, REGRESSION, NOT_PROVEN = "not-slower", "regression", "not-proven"
NOT_COMPARABLE = "not-comparable"  # where there were no pairs to judge
WIDEST = 10.0  # from its lower end to its upper: an interval that still tells something


def sentence(report: Mapping[str, Any]) -> str:
    """A verdict in words, with its numbers; of a LatencyReport as it is recorded."""
    against, limit = report["against"], f"{report['limit']:.1%}"
    words = {
        NOT_SLOWER: f"not slower than {against} by more than {limit}, proved",
        REGRESSION: f"SLOWER than {against} by more than {limit}, proved",
        NOT_PROVEN: f"not proven whether slower than {against} by more than {limit}",
        NOT_COMPARABLE: f"not comparable with {against}",
    }
    return f"{words[report['verdict']]}: {spread(report) or report['reason']}"


def spread(report: Mapping[str, Any], unit: str = " × its time", digits: int = 3) -> str:
    """The ratio with its interval, where there is one; an interval that says nothing is not printed."""
    ratio, low, high = (report[key] for key in ("ratio", "ratio_low", "ratio_high"))
    if ratio is None:
        return ""
    between = f"{low:.{digits}f}–{high:.{digits}f}" if high <= WIDEST * low else "too few rounds to tell"
    return f"{ratio:.{digits}f}{unit} ({between})"
