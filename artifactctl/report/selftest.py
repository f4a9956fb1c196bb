"""The result of a self-test, for machines and for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from artifactctl.report.text import table

if TYPE_CHECKING:
    from artifactctl.steps.selftest import Selftest

WIDTH = 90


def selftest_data(found: Selftest) -> dict[str, Any]:
    return {
        "model": found.model,
        "target": found.target,
        "score": {"caught": len(found.injected) - len(found.slipped), "injected": len(found.injected)},
        "control": "failed" if found.false_alarm else "passed",
        "false_alarm": found.false_alarm,
        "faults": [asdict(fault) for fault in found.faults],
    }


def selftest_text(data: Mapping[str, Any]) -> str:
    rows = [(fault["name"], fault["detail"] or "–", _verdict(fault), _cut(fault["how"])) for fault in data["faults"]]
    score, alarm = data["score"], data["false_alarm"]
    told = f"false alarm: {alarm}" if alarm else "no false alarm"
    lines = [table(("fault", "injected where", "verdict", "how"), rows), ""]
    if data["target"] is None:
        lines.append("no float reaches an output, so the faults of floats do not apply")
    return "\n".join([*lines, f"selftest: {score['caught']} of {score['injected']} faults caught, {told}"])


def _verdict(fault: Mapping[str, Any]) -> str:
    if not fault["applicable"]:
        return "not applicable"
    return "caught" if fault["caught"] else "MISSED"


def _cut(text: str) -> str:
    text = re.sub(r"\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
