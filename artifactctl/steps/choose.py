"""Tried candidates -> Choice. Pure: numbers in, a choice and its reasons out.

Reasons hold no measured times: those stand in numbers beside them, and differ from run to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from artifactctl.gate import MIN_ROUNDS
from artifactctl.records import Choice, Tried

SLOWER_MARGIN = 0.03  # memory placement alone moves a model against itself by so much
LARGER_MARGIN = 0.10  # a file may grow by this much without a gain in speed


def unproved(tried: Tried) -> str | None:
    """Why a candidate may not be chosen however fast it is, or None."""
    candidate, equivalence = tried.candidate, tried.equivalence
    if candidate.failure:
        return candidate.failure
    if equivalence is None or not equivalence.passed:
        return f"not equivalent: {equivalence.reason if equivalence else 'not compared'}{_where(tried)}"
    if equivalence.vacuous:
        return "not proved: every output is constant over all samples; add data.samples that tell models apart"
    if equivalence.untaken:
        return (
            f"not proved: one side of the branch on {equivalence.untaken[0]!r} never ran; add data.samples that take it"
        )
    return None


def rejection(tried: Tried) -> str | None:
    """Why a candidate may not be chosen, or None."""
    if reason := unproved(tried):
        return reason
    candidate, latency = tried.candidate, tried.latency
    if latency is None or latency.ratio_low is None or latency.rounds < MIN_ROUNDS:
        return f"not proved fast enough: fewer than {MIN_ROUNDS} rounds fitted into latency.budget_s"
    if latency.ratio_low > 1 + SLOWER_MARGIN:
        return "slower than the source, proved in pairs"
    larger = (candidate.size_bytes or 0) > latency.baseline.size_bytes * (1 + LARGER_MARGIN)
    if larger and (latency.ratio_high is None or latency.ratio_high >= 1):
        return "larger than the source, and not proved faster"
    return None


def _where(tried: Tried) -> str:
    culprit = tried.culprit
    if not culprit:
        return ""
    error = f" ({culprit['error']:.3g})" if culprit["error"] is not None else ""
    name = culprit["node"] or culprit["output"]
    node = f"; it leaves the bound first at {culprit['operator']} {name!r}{error}" if culprit["operator"] else ""
    return f"{node}; broken by {culprit['pass']!r}" if len(tried.candidate.passes) > 1 else node


def any_holds(tried: list[Tried]) -> bool:
    return any(rejection(item) is None for item in tried)


def choose(tried: list[Tried], source: Tried) -> Choice:
    """The simplest candidate that holds, unless another is proved faster; the source itself when none holds.

    `tried` is in the order of simplicity. A difference inside the noise does not decide.
    """
    judged = [
        replace(item, status="rejected", reason=reason) if (reason := rejection(item)) else item for item in tried
    ]
    best: Tried | None = None
    for item in judged:
        if item.status != "rejected" and (best is None or _faster(item, best)):
            best = item
    if best is None:
        reason = "no recipe holds, so the source itself in reference form is the honest choice"
        chosen = replace(source, status="chosen", reason=reason)
        return Choice(chosen, (*judged, chosen))
    shown = [item if item.status == "rejected" else _verdict(item, best) for item in judged]
    chosen = next(item for item in shown if item.status == "chosen")
    return Choice(chosen, (*shown, replace(source, status="eligible", reason="kept only when no recipe holds")))


def choose_again(tried: list[Tried], source: Tried, recorded: Sequence[Mapping[str, Any]]) -> Choice | str:
    """The recorded choice, if it is proved here too; else why not. Times give other verdicts every time, so what they
    decided then stands."""
    entries = {entry["recipe"]: entry for entry in recorded}
    judged = []
    for item in (*tried, source):
        entry = entries.get(item.candidate.recipe, {})
        reason = None if item is source else unproved(item)
        if reason is not None:
            judged.append(replace(item, status="rejected", reason=reason))
        elif entry.get("latency") or (item is source and entry):
            judged.append(replace(item, status=entry["status"], reason=entry["reason"]))
        else:
            judged.append(replace(item, reason="proved here, but not when it was recorded"))
    if chosen := [item for item in judged if item.status == "chosen"]:
        return Choice(chosen[0], tuple(judged))
    wanted = next((name for name, entry in entries.items() if entry["status"] == "chosen"), None)
    why = next((item.reason for item in judged if item.candidate.recipe == wanted), "it is not among the recipes")
    return f"the recorded recipe {wanted!r} gives no model that holds here: {why}"


def _faster(item: Tried, than: Tried) -> bool:
    assert item.latency is not None
    assert than.latency is not None
    assert item.latency.ratio_high is not None
    assert than.latency.ratio_low is not None
    return item.latency.ratio_high < than.latency.ratio_low


def _verdict(item: Tried, best: Tried) -> Tried:
    if item is not best:
        reason = f"equivalent and not proved slower; {best.candidate.recipe} is simpler, or proved faster"
        return replace(item, status="eligible", reason=reason)
    return replace(
        item, status="chosen", reason="equivalent and not proved slower than the source; no other is proved faster"
    )
