"""Why a candidate may not be chosen, or nothing. Pure: numbers in, reasons out.

Reasons hold no measured times: those stand in numbers beside them, and differ from run to run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from artifactctl.gate import MIN_ROUNDS
from artifactctl.project import Budgets
from artifactctl.recipes import SIMPLEST
from artifactctl.records import LatencyReport, Timing, Tried

SLOWER_MARGIN = 0.01  # what is lost here is regained nowhere
SMALLER = 0.99  # by so much must a file, or memory, be smaller to count
LARGER_MARGIN = 0.10  # a file may grow by this much without a gain in speed
BETTER = {"latency": "faster", "size": "smaller", "memory": "leaner", "load": "faster to load"}  # by the objective


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
    """`provider` is the build's own: elsewhere a candidate must be faster, not merely as fast. So must one of another
    precision than the source's, unless the user named its recipe."""

    provider: str
    objective: str
    budgets: Budgets
    precision: str = "fp32"
    named: frozenset[str] = frozenset()
    fallback: str | None = None  # plain CPU, where the build's own provider is another one

    @property
    def better(self) -> str:
        return BETTER[self.objective]


def rejection(tried: Tried, rules: Rules) -> str | None:
    """Why a candidate may not be chosen, or None."""
    if reason := unproved(tried):
        return reason
    candidate, latency = tried.candidate, tried.latency
    if latency is None or latency.ratio_low is None or latency.rounds < MIN_ROUNDS:
        budgets = "latency.budget_s, or into what was left of optimize.budget_s"
        more = "give both more seconds, then build --force"
        return f"not proved fast enough: fewer than {MIN_ROUNDS} rounds fitted into {budgets}; {more}"
    if reason := over_budget(tried, latency, rules.budgets):
        return reason
    if is_slower(tried):
        return "slower than the source, proved in pairs"
    faster = latency.ratio_high is not None and latency.ratio_high < 1
    elsewhere = tried.provider != rules.provider
    if elsewhere and not faster:
        return f"not proved faster than the source on {rules.provider}"
    if _loads_slower(tried, rules):
        gain = "; its runs are proved faster, and load: {max_regression: null} takes it for that" if faster else ""
        return f"slower to load than the source, proved in pairs{gain}"
    if rules.objective == "memory" and (reason := _heavier(latency)):
        return reason
    size, before = candidate.size_bytes or 0, latency.baseline.size_bytes
    if rules.objective == "size" and size > before:
        return "larger than the source"
    if size > before * (1 + LARGER_MARGIN) and not faster:
        return "larger than the source, and not proved faster"
    wanted = candidate.precision == rules.precision or candidate.recipe in rules.named or candidate.olive_file
    if (wanted and not (elsewhere and rules.objective == "memory")) or _gains(tried, latency, rules):
        return None
    where = f" on {rules.provider}" if elsewhere else ", which is simpler"
    return f"not proved {rules.better} than the source{where}"


def is_idle(tried: Tried, rules: Rules) -> bool:
    """Nothing is proved better than with the source, and it is neither the simplest recipe nor one that was named."""
    candidate, latency = tried.candidate, tried.latency
    if candidate.recipe in (SIMPLEST, *rules.named) or candidate.olive_file or latency is None:
        return False
    return not any(_gains(tried, latency, replace(rules, objective=objective)) for objective in BETTER)


def _gains(tried: Tried, latency: LatencyReport, rules: Rules) -> bool:
    """Whether it is proved better than the source, in what the user wants."""
    if rules.objective == "size":
        return (tried.candidate.size_bytes or 0) < SMALLER * latency.baseline.size_bytes
    if rules.objective == "memory":
        return is_below(_peaks(latency.candidate), _peaks(latency.baseline))
    high = latency.ratio_high if rules.objective == "latency" else (latency.load or {}).get("ratio_high")
    return high is not None and high < 1


def _peaks(timing: Timing) -> tuple[float, float] | None:
    return timing.intervals.get("peak_rss_mb")


def _heavier(latency: LatencyReport) -> str | None:
    ours, theirs = _peaks(latency.candidate), _peaks(latency.baseline)
    if ours is None or theirs is None:
        whose = "its memory" if ours is None else "the source's memory"
        return f"{whose} could not be measured; choose another optimize.objective, or build --force once more"
    return "takes more memory than the source" if is_below(theirs, ours) else None


def is_below(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    """All of its processes below all of the other's."""
    return one is not None and other is not None and one[1] < SMALLER * other[0]


def loses(tried: Tried, other: Tried, rules: Rules) -> bool:
    """Whether it is proved worse than another in what the user wants, where that is not speed."""
    one, two = tried.latency, other.latency
    if one is None or two is None or rules.objective not in ("memory", "load"):
        return False
    if rules.objective == "memory":
        return is_below(_peaks(two.candidate), _peaks(one.candidate))
    return bool(one.load and two.load and one.load["ratio_low"] > two.load["ratio_high"])


def harms(tried: Tried, rules: Rules) -> bool:
    """Whether whoever falls back to this is proved to be worse off than with the source."""
    return is_slower(tried) or _loads_slower(tried, rules)


def is_slower(tried: Tried) -> bool:
    low = tried.latency.ratio_low if tried.latency else None
    return low is not None and low > 1 + SLOWER_MARGIN


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
