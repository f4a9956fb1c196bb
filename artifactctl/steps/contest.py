"""Proved candidates -> Choice: each against the source in pairs, then those that could still win against the leader."""

from __future__ import annotations

from dataclasses import dataclass, replace

from artifactctl import gate, recipes, verdicts
from artifactctl.clock import Clock
from artifactctl.crew import Crew
from artifactctl.errors import LatencyRegression, SourceError
from artifactctl.project import Budgets, Say
from artifactctl.providers import CPU, PROVIDERS
from artifactctl.records import DEFAULT_LEVEL, Choice, LatencyReport, ReferenceModel, Tried
from artifactctl.steps import choose
from artifactctl.steps.measure import (
    CHOICE_ROUNDS,
    Duel,
    Terms,
    fight,
    measure,
    peak_memory,
    report_of,
    sample_of,
    with_peaks,
)
from artifactctl.steps.places import reference_form
from artifactctl.steps.refusals import Rules, is_idle, over_budget, rejection

LEG_ROUNDS = 14
DEFAULTS = "the source at ONNX Runtime's defaults"


@dataclass(slots=True)
class Contest:
    """One build's candidates. `clock` runs for optimize.budget_s.

    `reference` is the source on the build's own provider: everyone is compared with it.
    """

    reference: ReferenceModel
    clock: Clock
    crew: Crew
    say: Say

    @property
    def rules(self) -> Rules:
        config = self.reference.source.config
        named, home = recipes.expand(config)[1], self.reference.session
        plain = (name for name in config.providers[1:] if PROVIDERS[name].execution_provider == CPU)
        fallback = None if home.execution_provider == CPU else next(plain, None)
        return Rules(home.provider, config.objective, config.budgets, self.reference.precision, named, fallback)

    def choose(self, tried: list[Tried], source: Tried) -> Choice:
        config, rules = self.reference.source.config, self.rules
        measured = self._measured(tried)
        choice = choose.choose(measured, source, rules, self._better)
        again = set[int]()
        while (place := self._unsettled(choice, measured, again)) is not None:
            again.add(place)
            self.say(f"timing {choose.name_of(measured[place])} against the source once more")
            measured[place] = self._settled(measured[place])
            choice = choose.choose(measured, source, rules, self._better)
        if choice.chosen.latency is None:  # it is the source, which nobody has timed yet
            source = self.against_the_source(source, config.latency.budget_s)
            choice = choose.choose(measured, source, rules, self._better)
        demand_budgets(choice.chosen, config.budgets)
        return choice

    def _unsettled(self, choice: Choice, measured: list[Tried], again: set[int]) -> int | None:
        """Where the chosen one stands, or the same file at home, which is its fall-back, if it was behind somebody
        who then lost, so that its load was not looked at, or if its share of the time was too short to tell."""
        chosen, places = choice.chosen, (choice.chosen.provider, self.reference.session.provider)
        for place, item in enumerate(measured):
            same = item.candidate.recipe == chosen.candidate.recipe and item.provider in places
            if same and place not in again and item.latency and (not item.latency.load or self._was_hurried(item)):
                return place
        return None

    def _settled(self, item: Tried) -> Tried:
        """Timed once more; a load that is known is not."""
        load = item.latency.load if item.latency else None
        found = self.against_the_source(item, self._whole_s, loads=load is None)
        if load is None or found.latency is None:
            return found
        return replace(found, latency=replace(found.latency, load=load))

    def _was_hurried(self, item: Tried) -> bool:
        found = item.latency
        if found is None or found.verdict != verdicts.NOT_PROVEN:
            return False
        return found.rounds < CHOICE_ROUNDS and found.seconds < self._whole_s / 2

    def with_defaults(self, choice: Choice) -> Choice:
        """Where the source leaves its own bound at ONNX Runtime's defaults: what it costs that it may not run there."""
        if self.reference.noise["levels"][0]["held"]:
            return choice
        self.say("timing against the source at ONNX Runtime's defaults")
        session = replace(self.reference.session, graph_level=DEFAULT_LEVEL)
        own, budget_s = choice.chosen.own or self.reference, self.reference.source.config.latency.budget_s
        untimed = replace(choice.chosen, latency=None)
        found = measure(own, untimed, session, budget_s, self.crew, loads=False).latency
        return replace(choice, defaults=found and replace(found, against=DEFAULTS))

    @property
    def _whole_s(self) -> float:
        """For one that is timed alone: latency.budget_s, in what is left of the search, of which it has a quarter."""
        left = max(self.clock.left, self.clock.budget_s / 4)
        return min(self.reference.source.config.latency.budget_s, left)

    def _measured(self, tried: list[Tried]) -> list[Tried]:
        """Only what is proved equal is worth measuring."""
        worth = [item for item in tried if item.equivalence and item.equivalence.proves_something]
        each = self._whole_s / max(1, len(worth))
        found = list[Tried]()
        for item in tried:
            if item not in worth:
                found.append(item)
                continue
            self.say(f"timing {choose.name_of(item)} against the source")
            found.append(self.against_the_source(item, each, self._leader(found, item)))
        return found

    def _leader(self, measured: list[Tried], item: Tried) -> float | None:
        """The ratio of the fastest so far: who is proved to be above it need not be looked at any closer."""
        if self.reference.source.config.objective != "latency":
            return None
        rivals = [other for other in measured if other.provider == item.provider and choose.same_sizes(other, item)]
        rules = self.rules
        holding = [other.latency for other in rivals if not rejection(other, rules) and not is_idle(other, rules)]
        return min((latency.ratio for latency in holding if latency and latency.ratio), default=None)

    def against_the_source(
        self, item: Tried, budget_s: float, lost_above: float | None = None, *, loads: bool = True
    ) -> Tried:
        own, config = item.own or self.reference, self.reference.source.config
        item = measure(own, item, self.reference.session, budget_s, self.crew, lost_above=lost_above, loads=loads)
        if item.latency and (config.objective == "memory" or config.budgets.memory_mb is not None):
            timing = with_peaks(item.latency.candidate, peak_memory(own, item.candidate, self.crew))
            item = replace(item, latency=replace(item.latency, candidate=timing))
        if item.latency and config.objective == "memory":
            source = replace(own, session=self.reference.session)
            timing = with_peaks(item.latency.baseline, peak_memory(source, reference_form(source), self.crew))
            item = replace(item, latency=replace(item.latency, baseline=timing))
        return item

    def _better(self, item: Tried, best: Tried) -> bool:
        """Proved faster than the simpler one: by what both are to the source, else against each other."""
        one, other = item.latency, best.latency
        assert one is not None
        assert other is not None
        alike = choose.same_sizes(item, best)  # else one is timed at other sizes, and what both are says nothing
        if alike and choose.proved_faster(one, other):
            return True
        if not alike and item.candidate.fixed and best.candidate.fixed:  # there is nothing that both could run
            return False
        hopeless = one.ratio is None or other.ratio is None or (alike and one.ratio > choose.WORTH * other.ratio)
        if hopeless or self.clock.left <= 0:
            return False
        self.say(f"timing {choose.name_of(item)} against {choose.name_of(best)}")
        found = self.duel(item, best)
        return found is not None and found.ratio_high is not None and found.ratio_high < 1

    def duel(self, item: Tried, best: Tried) -> LatencyReport | None:
        here, there = item.own or self.reference, best.own or self.reference
        narrow = here if item.candidate.fixed else there
        latency = self.reference.source.config.latency
        terms = Terms(0.0, latency.confidence, max(1.0, min(latency.budget_s, self.clock.left) / 2))
        assert item.candidate.path is not None
        assert best.candidate.path is not None
        duel = Duel(
            item.candidate.path, best.candidate.path, sample_of(narrow), here.session, self.reference.seed, terms,
            there.session, most_rounds=LEG_ROUNDS, which=True,
        )  # fmt: skip
        try:
            rounds, seconds = fight(duel, self.crew)
        except SourceError:
            return None
        if len(rounds) < gate.MIN_ROUNDS:
            return None
        return report_of(terms, here.session.provider, rounds, seconds, (0, 0))


def demand_budgets(chosen: Tried, budgets: Budgets) -> None:
    """Every candidate was held to them; the source, which is what is left where none holds, is too."""
    if chosen.latency and (reason := over_budget(chosen, chosen.latency, budgets)):
        hint = "Allow more, or name a recipe that may make it smaller: artifactctl build --recipe int8-dynamic-all"
        raise LatencyRegression(
            f"no recipe gives a model inside the budgets, and the source itself is {reason}", hint=hint
        )
