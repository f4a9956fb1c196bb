"""Tried candidates -> Choice. Pure: numbers in, a choice and its reasons out.

Reasons hold no measured times: those stand in numbers beside them, and differ from run to run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from artifactctl.gate import MIN_ROUNDS
from artifactctl.metadata import candidate_key, candidate_name, same_candidate
from artifactctl.project import Budgets
from artifactctl.records import Choice, LatencyReport, Tried

SLOWER_MARGIN = 0.01  # what is lost here is regained nowhere
SMALLER = 0.99  # by so much must a file, or memory, be smaller to count
Better = Callable[[Tried, Tried], bool]
WORTH = 0.97  # what is not even so much faster by its estimate is not worth a less simple model
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


@dataclass(frozen=True, slots=True)
class Rules:
    """`provider` is the build's own: elsewhere a candidate must be faster, not merely as fast."""

    provider: str
    objective: str
    budgets: Budgets


def rejection(tried: Tried, rules: Rules) -> str | None:
    """Why a candidate may not be chosen, or None."""
    if reason := unproved(tried):
        return reason
    candidate, latency = tried.candidate, tried.latency
    if latency is None or latency.ratio_low is None or latency.rounds < MIN_ROUNDS:
        return f"not proved fast enough: fewer than {MIN_ROUNDS} rounds fitted into latency.budget_s"
    if reason := over_budget(tried, latency, rules.budgets):
        return reason
    if latency.ratio_low > 1 + SLOWER_MARGIN:
        return "slower than the source, proved in pairs"
    faster = latency.ratio_high is not None and latency.ratio_high < 1
    if tried.provider != rules.provider and not faster:
        return f"not proved faster than the source on {rules.provider}"
    if _loads_slower(tried, rules):
        gain = "; its runs are proved faster, and load: {max_regression: null} takes it for that" if faster else ""
        return f"slower to load than the source, proved in pairs{gain}"
    larger = (candidate.size_bytes or 0) > latency.baseline.size_bytes * (1 + LARGER_MARGIN)
    return "larger than the source, and not proved faster" if larger and not faster else None


def _loads_slower(tried: Tried, rules: Rules) -> bool:
    """Proved so, by more than is allowed; other providers compile, and are chosen for what they then save, unless it is
    the load that matters."""
    load, most = tried.latency.load if tried.latency else None, rules.budgets.load
    if rules.objective == "load":
        most = most or 0.0
    elif tried.provider != rules.provider:
        return False
    return bool(load and most is not None and load["ratio_low"] > 1 + most)


def over_budget(tried: Tried, latency: LatencyReport, budgets: Budgets) -> str | None:
    size = (tried.candidate.size_bytes or 0) / 1e6
    if budgets.size_mb is not None and size > budgets.size_mb:
        return f"{size:.4g} MB, over size.max_mb {budgets.size_mb:g}"
    peak = latency.candidate.peak_rss_mb
    if budgets.memory_mb is not None and (peak is None or peak > budgets.memory_mb):
        return f"over memory.max_mb {budgets.memory_mb:g}"
    return None


def _where(tried: Tried) -> str:
    culprit = tried.culprit
    if not culprit:
        return ""
    error = f" ({culprit['error']:.3g})" if culprit["error"] is not None else ""
    name = culprit["node"] or culprit["output"]
    node = f"; it leaves the bound first at {culprit['operator']} {name!r}{error}" if culprit["operator"] else ""
    return f"{node}; broken by {culprit['pass']!r}" if len(tried.candidate.passes) > 1 else node


def any_holds(tried: list[Tried], source: Tried, rules: Rules) -> bool:
    return any(_refusal(item, tried, source, rules) is None for item in tried)


def choose(tried: list[Tried], source: Tried, rules: Rules, faster: Better) -> Choice:
    """The simplest candidate that holds, unless another is proved better; the source itself when none holds.

    `tried` is in the order of simplicity. A difference inside the noise does not decide.
    """
    judged = [
        replace(item, status="rejected", reason=reason) if (reason := _refusal(item, tried, source, rules)) else item
        for item in tried
    ]
    better = {"latency": faster, "size": _smaller, "memory": _leaner, "load": _loads_faster}[rules.objective]
    best = _best(judged, better)
    if best is None:
        reason = "no recipe holds, so the source itself in reference form is the honest choice"
        chosen = replace(source, status="chosen", reason=reason)
        return Choice(chosen, (*judged, chosen))
    if best.provider == rules.provider:
        return _choice(judged, source, best, None, rules)
    at_home = _best(judged, better, rules.provider) or source
    there = [item for item in judged if item.provider == best.provider and item.status != "rejected"]
    clearly = _clearly_faster if rules.objective == "latency" else better
    for twin in there:  # on a tie the file that is best at home too: whoever lacks that provider runs it
        if twin.candidate.recipe == at_home.candidate.recipe and at_home is not source:
            best = best if any(clearly(item, twin) for item in there) else twin
    return _choice(judged, source, best, at_home, rules)


def _refusal(item: Tried, tried: list[Tried], source: Tried, rules: Rules) -> str | None:
    """Why not this one. What holds elsewhere must hold at home too: the same file is the fall-back."""
    if reason := rejection(item, rules):
        return reason
    recipe = item.candidate.recipe
    at_home = [
        other for other in (*tried, source) if other.candidate.recipe == recipe and other.provider == rules.provider
    ]
    if item.provider == rules.provider:
        return None
    if all(unproved(other) for other in at_home):
        return f"the same file is not proved on {rules.provider}, and nothing else would be there to fall back to"
    here = [other for other in tried if other.provider == rules.provider]
    if rules.objective == "memory" and all(rejection(other, rules) for other in here):
        return f"not proved leaner than the source on {rules.provider}"
    return None


def _choice(judged: list[Tried], source: Tried, best: Tried, at_home: Tried | None, rules: Rules) -> Choice:
    kept = replace(source, status="eligible", reason="kept only when no recipe holds")
    everyone = [item if item.status == "rejected" else _verdict(item, best, at_home, rules) for item in judged]
    everyone.append(_verdict(source, best, at_home, rules) if source is at_home else kept)
    chosen = next(item for item in everyone if item.status == "chosen")
    return Choice(chosen, tuple(everyone), at_home=at_home)


def _best(judged: list[Tried], better: Better, provider: str | None = None) -> Tried | None:
    """Of all, or of those on one provider."""
    best: Tried | None = None
    for item in judged:
        allowed = item.status != "rejected" and provider in (None, item.provider)
        if allowed and (best is None or better(item, best)):
            best = item
    return best


def choose_again(
    tried: list[Tried], source: Tried, recorded: Sequence[Mapping[str, Any]], session: Mapping[str, Any]
) -> Choice | str:
    """The recorded choice, if it is proved here too; else why not. Times give other verdicts every time, so what they
    decided then stands, also what was best where the chosen provider is missing."""
    entries = {candidate_key(entry): entry for entry in recorded}
    judged = []
    for item in (*tried, source):
        entry = same_candidate(entries, item.candidate.recipe, item.provider)
        reason = None if item is source else unproved(item)
        if reason is not None:
            judged.append(replace(item, status="rejected", reason=reason))
        elif entry.get("latency") or (item is source and entry):
            judged.append(replace(item, status=entry["status"], reason=entry["reason"]))
        else:
            judged.append(replace(item, reason="proved here, but not when it was recorded"))
    if chosen := [item for item in judged if item.status == "chosen"]:
        return Choice(chosen[0], tuple(judged), at_home=_recorded_home(judged, chosen[0], session.get("fallback")))
    wanted = next((entry for entry in recorded if entry["status"] == "chosen"), {"recipe": None})
    named, same = candidate_name(wanted), [item for item in judged if item.candidate.recipe == wanted["recipe"]]
    there = [item.reason for item in same if item.provider in (None, wanted.get("provider", item.provider))]
    missing = "its provider is not available here" if same else "it is not among the recipes"
    return f"the recorded recipe {named!r} gives no model that holds here: {next(iter(there), missing)}"


def _recorded_home(judged: list[Tried], chosen: Tried, fallback: Mapping[str, Any] | None) -> Tried | None:
    if not fallback:
        return None
    recipe = (fallback.get("best") or {"recipe": chosen.candidate.recipe})["recipe"]
    named = [item for item in judged if item.candidate.recipe == recipe and item.status != "rejected"]
    return next((item for item in named if item.provider == fallback["provider"]), None)


def name_of(item: Tried) -> str:
    return f"{item.candidate.recipe} on {item.provider}" if item.provider else item.candidate.recipe


def proved_faster(one: LatencyReport, other: LatencyReport) -> bool:
    """By what both are to the source."""
    assert one.ratio_high is not None
    assert other.ratio_low is not None
    return one.ratio_high < other.ratio_low


def same_sizes(item: Tried, other: Tried) -> bool:
    """Whether both were timed on the same samples: a model of fixed sizes is timed at those."""
    return item.candidate.fixed == other.candidate.fixed


def _clearly_faster(item: Tried, other: Tried) -> bool:
    """Proved so, or by an estimate that is worth a duel: where nobody looked closer, there is no tie."""
    if not same_sizes(item, other):
        return True
    one, two = item.latency, other.latency
    assert one is not None
    assert two is not None
    return proved_faster(one, two) or (one.ratio or 0.0) < WORTH * (two.ratio or 0.0)


def _smaller(item: Tried, best: Tried) -> bool:
    return (item.candidate.size_bytes or 0) < SMALLER * (best.candidate.size_bytes or 0)


def _leaner(item: Tried, best: Tried) -> bool:
    """All of its processes below all of the other's."""
    peaks = (each.latency.candidate.intervals.get("peak_rss_mb") if each.latency else None for each in (item, best))
    one, other = peaks
    return one is not None and other is not None and one[1] < SMALLER * other[0]


def _loads_faster(item: Tried, best: Tried) -> bool:
    one, other = (each.latency.load if each.latency else None for each in (item, best))
    return one is not None and other is not None and one["ratio_high"] < other["ratio_low"]


def _verdict(item: Tried, best: Tried, at_home: Tried | None, rules: Rules) -> Tried:
    """`at_home` is the best on the build's own provider: what whoever lacks the chosen one is best off with."""
    better = {"latency": "faster", "size": "smaller", "memory": "leaner", "load": "faster to load"}[rules.objective]
    if item is not best and item is at_home:
        shipped = item.candidate.recipe == best.candidate.recipe
        how = "it is the same file" if shipped else f"build --provider {rules.provider} is for them"
        reason = f"the best on {rules.provider}, for machines without {best.provider}: {how}"
        return replace(item, status="eligible", reason=reason)
    if item is not best:
        both = at_home is not None and at_home.candidate.recipe == best.candidate.recipe
        also = f", or as good and the best on {rules.provider} too" if both else ""
        reason = f"equivalent and not proved slower; {name_of(best)} is simpler, or proved {better}{also}"
        return replace(item, status="eligible", reason=reason)
    reason = f"equivalent and not proved slower than the source; no other is proved {better}"
    return replace(item, status="chosen", reason=reason)
