"""Tried candidates -> Choice. Pure: numbers in, a choice and its reasons out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from artifactctl.metadata import candidate_key, candidate_name, same_candidate
from artifactctl.records import Choice, LatencyReport, Tried
from artifactctl.steps.refusals import SMALLER, Rules, harms, is_below, is_idle, is_slower, rejection, unproved

Better = Callable[[Tried, Tried], bool]
WORTH = 0.97  # what is not even so much faster by its estimate is not worth a less simple model


def choose(tried: list[Tried], source: Tried, rules: Rules, faster: Better) -> Choice:
    """The simplest candidate that holds, unless another is proved better; the source itself when none holds, or is
    better than it in anything.

    `tried` is in the order of simplicity. A difference inside the noise does not decide.
    """
    judged = [
        replace(item, status="rejected", reason=reason) if (reason := _refusal(item, tried, source, rules)) else item
        for item in tried
    ]
    better = {"latency": faster, "size": _smaller, "memory": _leaner, "load": _loads_faster}[rules.objective]
    running = [item for item in judged if item.status != "rejected" and not is_idle(item, rules)]
    best = _best(running, better)
    if best is None:
        return _source(judged, source, rules)
    if best.provider == rules.provider:
        return replace(_choice(judged, source, best, None, rules), at_home=best_on(judged, best, rules.fallback))
    at_home = _best(running, better, rules.provider) or source
    there = [item for item in running if item.provider == best.provider]
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
    if all(unproved(other) or harms(other, rules) for other in at_home):
        slower = "slower" if all(unproved(other) or is_slower(other) for other in at_home) else "slower to load"
        return f"the same file is proved {slower} than the source on {rules.provider}, where it would be the fall-back"
    return None


def _choice(judged: list[Tried], source: Tried, best: Tried, at_home: Tried | None, rules: Rules) -> Choice:
    kept = replace(source, status="eligible", reason="kept where no recipe is worth it")
    everyone = [item if item.status == "rejected" else _verdict(item, best, at_home, rules) for item in judged]
    everyone.append(_verdict(source, best, at_home, rules) if source is at_home else kept)
    chosen = next(item for item in everyone if item.status == "chosen")
    return Choice(chosen, tuple(everyone), at_home=at_home)


def _source(judged: list[Tried], source: Tried, rules: Rules) -> Choice:
    held = any(item.status != "rejected" for item in judged)
    why = "is proved better in speed, load, size or memory" if held else "holds"
    reason = f"no recipe {why}, so the source itself in reference form is the honest choice"
    everyone = [item if item.status == "rejected" else _verdict(item, source, None, rules) for item in judged]
    chosen = replace(source, status="chosen", reason=reason)
    return Choice(chosen, (*everyone, chosen), at_home=best_on(judged, chosen, rules.fallback))


def _best(running: list[Tried], better: Better, provider: str | None = None) -> Tried | None:
    """Of all, or of those on one provider."""
    best: Tried | None = None
    for item in running:
        if provider in (None, item.provider) and (best is None or better(item, best)):
            best = item
    return best


def best_on(tried: Sequence[Tried], shipped: Tried, provider: str | None) -> Tried | None:
    """Where machines fall back to that lack the build's own provider: the shipped file, unless another is proved faster
    there. That all of them are slower there than at home speaks against none."""
    there = [item for item in tried if item.provider == provider and not unproved(item) and item.latency]
    best = next((item for item in there if item.candidate.recipe == shipped.candidate.recipe), None)
    for item in there:
        if best and best.latency and item.latency and same_sizes(item, best):
            best = item if proved_faster(item.latency, best.latency) else best
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
    named = [item for item in judged if item.candidate.recipe == recipe and not unproved(item)]
    return next((item for item in named if item.provider == fallback["provider"]), None)


def name_of(item: Tried) -> str:
    return f"{item.candidate.recipe} on {item.provider}" if item.provider else item.candidate.recipe


def proved_faster(one: LatencyReport, other: LatencyReport) -> bool:
    """By what both are to the source."""
    return one.ratio_high is not None and other.ratio_low is not None and one.ratio_high < other.ratio_low


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
    one, other = (
        each.latency.candidate.intervals.get("peak_rss_mb") if each.latency else None for each in (item, best)
    )
    return is_below(one, other)


def _loads_faster(item: Tried, best: Tried) -> bool:
    one, other = (each.latency.load if each.latency else None for each in (item, best))
    return one is not None and other is not None and one["ratio_high"] < other["ratio_low"]


def _verdict(item: Tried, best: Tried, at_home: Tried | None, rules: Rules) -> Tried:
    """`at_home` is the best on the build's own provider: what whoever lacks the chosen one is best off with."""
    if item is not best and item is at_home:
        shipped = item.candidate.recipe == best.candidate.recipe
        how = "it is the same file" if shipped else f"build --provider {rules.provider} is for them"
        reason = f"the best on {rules.provider}, for machines without {best.provider}: {how}"
        return replace(item, status="eligible", reason=reason)
    if item is not best:
        both = at_home is not None and at_home.candidate.recipe == best.candidate.recipe
        also = f", or as good and the best on {rules.provider} too" if both else ""
        reason = f"equivalent and not proved slower; {name_of(best)} is simpler, or proved {rules.better}{also}"
        return replace(item, status="eligible", reason=reason)
    reason = f"equivalent and not proved slower than the source; no other is proved {rules.better}"
    return replace(item, status="chosen", reason=reason)
