from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from artifactctl.gate import MIN_ROUNDS
from artifactctl.project import Budgets
from artifactctl.records import (
    AccuracyReport,
    Candidate,
    Choice,
    EquivalenceReport,
    LatencyReport,
    OutputReport,
    Timing,
    Tried,
)
from artifactctl.steps import choose as choosing
from artifactctl.steps.choose import choose_again
from artifactctl.steps.measure import with_peaks
from artifactctl.verdicts import NOT_PROVEN, NOT_SLOWER, REGRESSION

RULES = choosing.Rules("cpu", "latency", Budgets())


def by_intervals(item: Tried, best: Tried) -> bool:
    assert item.latency
    assert best.latency
    return choosing.proved_faster(item.latency, best.latency)


def choose(items: list[Tried], source: Tried, **rules: Any) -> Choice:
    return choosing.choose(items, source, replace(RULES, **rules), by_intervals)


def rejection(item: Tried, **rules: Any) -> str | None:
    return choosing.rejection(item, replace(RULES, **rules))


def proof(*, reason: str | None = None, vacuous: bool = False, **changes: Any) -> EquivalenceReport:
    output = OutputReport(
        "y", "float32", 0.0, 0.0, 0.0, 0.0, 1.0, None, 1e-3, vacuous=vacuous, passed=reason is None, reason=reason
    )
    return EquivalenceReport(**({"provider": "cpu", "samples": 10, "outputs": (output,)} | changes))


def speed(low: float | None, high: float | None, rounds: int = MIN_ROUNDS) -> LatencyReport:
    value = None if low is None or high is None else (low + high) / 2
    timing = Timing(100, p50_ms=1.0)
    verdict = verdict_of(low, high)
    return LatencyReport("cpu", verdict, value, low, high, 0.02, 0.03, 0.99, 20 * rounds, rounds, 1.0, timing, timing)


def verdict_of(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return NOT_PROVEN
    return NOT_SLOWER if high <= 1.03 else REGRESSION if low > 1.03 else NOT_PROVEN


def tried(recipe: str, low: float = 0.9, high: float = 1.0, **changes: Any) -> Tried:
    candidate = Candidate(recipe, Path("model.onnx"), "fp32", 100)
    return Tried(**({"candidate": candidate, "equivalence": proof(), "latency": speed(low, high)} | changes))


def on(provider: str, recipe: str, low: float, high: float) -> Tried:
    return tried(recipe, low, high, equivalence=proof(provider=provider))


def with_numbers(
    item: Tried,
    *,
    size: int = 100,
    peak: float | None = None,
    load: tuple[float, float] = (1, 1),
    source_peak: float | None = 10.0,
) -> Tried:
    assert item.latency
    low, high = load
    loads = {"ratio": (low + high) / 2, "ratio_low": low, "ratio_high": high}
    timing, before = (
        with_peaks(each, [] if value is None else [value - 1, value, value + 1])
        for each, value in ((item.latency.candidate, peak), (item.latency.baseline, source_peak))
    )
    latency = replace(item.latency, load=loads, candidate=timing, baseline=before)
    return replace(item, candidate=replace(item.candidate, size_bytes=size), latency=latency)


SOURCE = tried("source", 1.0, 1.0)


def verdicts(choice: Choice) -> dict[str, str]:
    return {item.candidate.recipe: item.status for item in choice.tried}


REJECTED = {
    "failed": (
        tried("fp16", candidate=Candidate("fp16", None, "fp32", failure="does not apply")),
        "does not apply",
    ),
    "not compared": (tried("fp16", equivalence=None), "not equivalent: not compared"),
    "no outputs": (tried("fp16", equivalence=proof(outputs=())), "not equivalent: no output was compared"),
    "crashed": (tried("fp16", equivalence=proof(failure="it crashed")), "not equivalent: it crashed"),
    "different": (tried("fp16", equivalence=proof(reason="far off")), "not equivalent: output 'y': far off"),
    "less accurate": (
        tried("fp16", equivalence=proof(accuracy=AccuracyReport(False, "accuracy fell"))),
        "not equivalent: accuracy fell",
    ),
    "vacuous": (tried("fp16", equivalence=proof(vacuous=True)), "not proved: every output is constant"),
    "not measured": (tried("fp16", latency=None), "not proved fast enough"),
    "too few pairs": (tried("fp16", latency=speed(None, None, 12)), "not proved fast enough"),
    "slower": (tried("fp16", 1.1, 1.3), "slower than the source"),
}


@pytest.mark.parametrize("kind", REJECTED)
def test_every_reason_to_reject(kind: str) -> None:
    item, reason = REJECTED[kind]
    assert (rejection(item) or "").startswith(reason)
    choice = choose([item, tried("int8-dynamic", 0.8, 0.9)], SOURCE)
    assert choice.chosen.candidate.recipe == "int8-dynamic"
    assert choice.tried[0].status == "rejected"
    assert choice.tried[0].reason.startswith(reason)


def test_one_that_holds_is_not_rejected() -> None:
    assert rejection(tried("fp32")) is None
    assert rejection(tried("fp32", 0.95, 1.4)) is None
    assert rejection(tried("fp32", 1.01, 1.05)) is None, "inside the margin"


def test_the_simplest_wins_inside_the_noise() -> None:
    choice = choose([tried("fp32", 0.90, 1.00), tried("fp16", 0.70, 0.95)], SOURCE)
    assert verdicts(choice) == {"fp32": "chosen", "fp16": "eligible", "source": "eligible"}


def test_a_touching_interval_proves_nothing() -> None:
    assert choose([tried("fp32", 0.9, 1.0), tried("fp16", 0.5, 0.9)], SOURCE).chosen.candidate.recipe == "fp32"


def test_another_wins_when_it_is_proved_faster() -> None:
    choice = choose([tried("fp32", 0.90, 1.00), tried("fp16", 0.60, 0.80)], SOURCE)
    assert verdicts(choice) == {"fp32": "eligible", "fp16": "chosen", "source": "eligible"}


def test_the_fastest_of_three_steps_wins() -> None:
    items = [tried("fp32", 0.9, 1.0), tried("fp16", 0.6, 0.8), tried("int8-dynamic", 0.3, 0.5)]
    assert choose(items, SOURCE).chosen.candidate.recipe == "int8-dynamic"
    items[2] = tried("int8-dynamic", 0.5, 0.7)
    assert choose(items, SOURCE).chosen.candidate.recipe == "fp16"


def test_a_faster_one_that_is_different_is_never_chosen() -> None:
    items = [tried("fp32"), tried("fp16", 0.1, 0.2, equivalence=proof(reason="far off"))]
    assert verdicts(choose(items, SOURCE)) == {"fp32": "chosen", "fp16": "rejected", "source": "eligible"}


@pytest.mark.parametrize("items", [[], [item for item, _ in REJECTED.values()]], ids=["none tried", "none holds"])
def test_the_source_itself_when_none_holds(items: list[Tried]) -> None:
    choice = choose(items, SOURCE)
    assert choice.chosen.candidate.recipe == "source"
    assert choice.chosen.status == "chosen"
    assert "no recipe holds" in choice.chosen.reason
    assert [item.status for item in choice.tried] == ["rejected"] * len(items) + ["chosen"]


@pytest.mark.parametrize(
    "item",
    [tried("slim", 0.8, 0.9), with_numbers(tried("slim"), load=(0.8, 0.9)), with_numbers(tried("slim"), size=90)],
    ids=["faster", "faster to load", "smaller"],
)
def test_another_recipe_of_the_same_precision_must_be_better_than_the_source_in_something(item: Tried) -> None:
    """Where the simplest one changed nothing, the source is that one."""
    idle, simplest = tried("slim"), REJECTED["failed"][0]
    choice = choose([simplest, idle], SOURCE)
    assert verdicts(choice) == {"fp16": "rejected", "slim": "eligible", "source": "chosen"}
    assert choice.chosen.reason.startswith("no recipe is proved better in speed, load, size or memory")
    assert "source on cpu is simpler" in choice.tried[1].reason
    assert choose([simplest, item], SOURCE).chosen.candidate.recipe == "slim"
    assert choose([simplest, idle], SOURCE, named=frozenset({"slim"})).chosen.candidate.recipe == "slim"
    assert choose([tried("fp32"), idle], SOURCE).chosen.candidate.recipe == "fp32"
    elsewhere = on("openvino", "source", 0.9, 0.95)
    assert choose([idle, elsewhere], on("cpu", "source", 1.0, 1.0)).chosen.provider == "openvino"


def test_where_the_source_is_left_elsewhere_the_best_on_the_cpu_is_named() -> None:
    idle = on("openvino", "slim", 0.99, 1.01)
    there = [on("cpu", "source", 2.4, 2.6), on("cpu", "slim", 1.8, 2.0)]
    choice = choose([idle, *there], on("openvino", "source", 1.0, 1.0), provider="openvino", fallback="cpu")
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("source", "openvino")
    assert choice.at_home is not None
    assert choice.at_home.candidate.recipe == "slim"


def test_exactly_one_is_chosen() -> None:
    items = [tried("fp32"), tried("fp16"), tried("olive:a.json", 0.2, 0.3), REJECTED["slower"][0]]
    choice = choose(items, SOURCE)
    assert [item.status for item in choice.tried].count("chosen") == 1
    assert choice.chosen in choice.tried


def recorded(**statuses: str) -> list[dict[str, Any]]:
    return [
        {"recipe": name.replace("_", "-"), "status": status, "reason": f"then {status}", "latency": {"ratio": 1.0}}
        for name, status in statuses.items()
    ]


def test_the_recorded_choice_stands_whatever_the_times_would_say_now() -> None:
    items = [tried("fp32", latency=None), tried("fp16", latency=None)]
    choice = choose_again(items, SOURCE, recorded(fp32="rejected", fp16="chosen", source="eligible"), {})
    assert isinstance(choice, Choice)
    assert verdicts(choice) == {"fp32": "rejected", "fp16": "chosen", "source": "eligible"}
    assert choice.chosen.reason == "then chosen"


def test_the_source_is_chosen_again() -> None:
    choice = choose_again([REJECTED["different"][0]], SOURCE, recorded(fp16="rejected", source="chosen"), {})
    assert isinstance(choice, Choice)
    assert choice.chosen.candidate.recipe == "source"
    assert choice.tried[0].reason == "not equivalent: output 'y': far off"


def test_a_choice_that_does_not_hold_here_is_not_made() -> None:
    found = choose_again([REJECTED["different"][0]], SOURCE, recorded(fp16="chosen", source="eligible"), {})
    assert found == "the recorded recipe 'fp16' gives no model that holds here: not equivalent: output 'y': far off"
    assert choose_again([], SOURCE, recorded(gone="chosen"), {}) == (
        "the recorded recipe 'gone' gives no model that holds here: it is not among the recipes"
    )


def test_what_holds_here_and_did_not_then_is_told() -> None:
    entries = [entry | {"latency": None} for entry in recorded(fp32="rejected")] + recorded(source="chosen")
    choice = choose_again([tried("fp32", latency=None)], SOURCE, entries, {})
    assert isinstance(choice, Choice)
    assert (choice.tried[0].status, choice.tried[0].reason[:11]) == ("eligible", "proved here")


def test_another_provider_must_be_faster_than_the_source() -> None:
    assert rejection(on("openvino", "fp32", 0.9, 1.0)) == "not proved faster than the source on cpu"
    assert rejection(on("openvino", "fp32", 0.5, 0.9)) is None
    items = [tried("fp32", 0.95, 1.0), on("openvino", "fp32", 0.4, 0.5), tried("fp16", 0.8, 0.9)]
    choice = choose(items, SOURCE)
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("fp32", "openvino")
    assert "fp32 on openvino is simpler, or proved faster" in choice.tried[0].reason


OBJECTIVES = {"size": {"size": 50}, "memory": {"peak": 5.0}, "load": {"load": (0.4, 0.6)}}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_is_wanted_decides(objective: str) -> None:
    plain = with_numbers(tried("fp32", 0.5, 0.6), peak=10.0)
    other = with_numbers(tried("fp16", 0.9, 0.99), **({"peak": 10.0} | OBJECTIVES[objective]))
    assert choose([plain, other], SOURCE).chosen.candidate.recipe == "fp32"
    assert choose([plain, other], SOURCE, objective=objective).chosen.candidate.recipe == "fp16"
    assert choose([plain, plain], SOURCE, objective=objective).chosen.candidate.recipe == "fp32"


def test_memory_that_overlaps_decides_nothing() -> None:
    plain, other = with_numbers(tried("fp32"), peak=10.0), with_numbers(tried("fp16"), peak=8.5)
    assert choose([plain, other], SOURCE, objective="memory").chosen.candidate.recipe == "fp32"


def test_budgets_reject() -> None:
    item = with_numbers(tried("fp32"), size=3_000_000, peak=7.0)
    assert "larger" in (rejection(item) or "")
    assert rejection(item, budgets=Budgets(size_mb=2)) == "3 MB, over size.max_mb 2"
    small = with_numbers(tried("fp32"), peak=7.0)
    assert rejection(small, budgets=Budgets(memory_mb=8)) is None
    assert rejection(small, budgets=Budgets(memory_mb=6)) == "over memory.max_mb 6"
    unknown = with_numbers(tried("fp32"), peak=None)
    assert rejection(unknown, budgets=Budgets(memory_mb=6)) == "over memory.max_mb 6"


def test_a_slower_load_is_refused_unless_it_is_allowed() -> None:
    slow, fast = tried("fp32"), tried("fp32", 0.5, 0.9)
    for item in (slow, fast):
        assert "slower to load" in (rejection(with_numbers(item, load=(1.01, 1.2))) or "")
        assert rejection(with_numbers(item, load=(0.9, 1.2))) is None
        assert rejection(with_numbers(item, load=(1.01, 1.2)), budgets=Budgets(load=0.05)) is None
        assert "slower to load" in (rejection(with_numbers(item, load=(1.06, 1.2)), budgets=Budgets(load=0.05)) or "")
        assert rejection(with_numbers(item, load=(9.0, 10.0)), budgets=Budgets(load=None)) is None


@pytest.mark.parametrize(("recipe", "said"), [("fp32", "the same file"), ("slim", "build --provider cpu is for them")])
def test_the_best_at_home_is_named_where_another_provider_wins(recipe: str, said: str) -> None:
    """For machines that lack what was chosen."""
    there = tried("fp32", 0.3, 0.4, equivalence=proof(provider="openvino"))
    home = [tried("fp32", 0.8, 0.9), tried("slim", 0.6, 0.7 if recipe == "slim" else 0.95)]
    choice = choose([home[0], there, home[1]], tried("source"))
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("fp32", "openvino")
    (named,) = [item for item in choice.tried if item.reason.startswith("the best on cpu")]
    assert (named.candidate.recipe, named.status) == (recipe, "eligible")
    assert said in named.reason


def test_a_provider_that_compiles_may_load_slowly() -> None:
    there = tried("fp32", 0.5, 0.9, equivalence=proof(provider="openvino"))
    assert rejection(with_numbers(there, load=(9.0, 10.0))) is None


def test_where_the_load_matters_a_provider_that_compiles_is_avoided() -> None:
    nothing = tried("fp32", candidate=Candidate("fp32", None, "fp32", failure="changed nothing"), equivalence=None)
    there = with_numbers(on("openvino", "source", 0.5, 0.6), load=(9.0, 10.0))
    assert choose([nothing, there], SOURCE).chosen.provider == "openvino"
    choice = choose([nothing, there], SOURCE, objective="load")
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("source", "cpu")
    assert choice.tried[1].reason.startswith("slower to load than the source")
    free = Budgets(load=None)
    assert choose([nothing, there], SOURCE, objective="load", budgets=free).chosen.provider == "cpu"


def test_where_memory_matters_another_provider_must_be_leaner_than_what_there_is() -> None:
    nothing = tried("fp32", candidate=Candidate("fp32", None, "fp32", failure="changed nothing"), equivalence=None)
    unknown, idle = (
        "memory could not be measured; choose another optimize.objective",
        "not proved leaner than the source",
    )
    for own, before, said in ((5.0, None, f"the source's {unknown}"), (None, 5.0, f"its {unknown}"), (5.0, 5.0, idle)):
        there = with_numbers(on("openvino", "source", 0.5, 0.6), peak=own, source_peak=before)
        choice = choose([nothing, there], SOURCE, objective="memory")
        assert choice.chosen.provider == "cpu"
        assert choice.tried[1].reason.startswith(said)
    lean = with_numbers(on("openvino", "source", 0.5, 0.6), peak=5.0, source_peak=10.0)
    assert choose([nothing, lean], SOURCE, objective="memory").chosen.provider == "openvino"
    home = with_numbers(tried("fp32"), peak=10.0, source_peak=10.0)
    other = with_numbers(on("openvino", "fp32", 0.5, 0.6), peak=5.0, source_peak=10.0)
    assert choose([home, other], SOURCE, objective="memory").chosen.provider == "openvino"


def test_on_a_tie_elsewhere_the_file_that_is_best_at_home_is_shipped() -> None:
    """Whoever lacks that provider runs the same file."""
    home = [tried("fp32", 0.8, 0.9), tried("slim", 0.5, 0.6)]
    there = [on("openvino", "fp32", 0.3, 0.4), on("openvino", "slim", 0.3, 0.41)]
    choice = choose([home[0], there[0], home[1], there[1]], SOURCE)
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("slim", "openvino")
    assert choice.at_home is home[1]
    assert choice.tried[1].reason.endswith(
        "slim on openvino is simpler, or proved faster, or as good and the best on cpu too"
    )
    slower = on("openvino", "slim", 0.45, 0.5)
    choice = choose([home[0], there[0], home[1], slower], SOURCE)
    assert (choice.chosen.candidate.recipe, choice.at_home) == ("fp32", home[1])


@pytest.mark.parametrize("third", [(0.28, 0.30), (0.25, 0.36)])
def test_the_best_at_home_is_no_tie_where_another_is_clearly_faster(third: tuple[float, float]) -> None:
    """Proved so against the one, or so much by the estimate that nobody knows."""
    home = [tried("fp32", 0.9, 1.0), tried("slim", 0.9, 1.0), tried("peephole", 0.5, 0.6)]
    there = [on("openvino", "fp32", 0.27, 0.34), on("openvino", "slim", *third), on("openvino", "peephole", 0.31, 0.38)]
    items = [item for pair in zip(home, there, strict=True) for item in pair]
    choice = choose(items, SOURCE)
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("fp32", "openvino")
    assert choice.at_home is home[2]


SLOWER = tried("fp32", 1.1, 1.2)
LOADS_SLOWER = with_numbers(tried("fp32", 0.9, 1.1), load=(1.4, 1.6))


@pytest.mark.parametrize(("home", "how"), [(SLOWER, "slower"), (LOADS_SLOWER, "slower to load")])
def test_a_file_that_would_harm_at_home_is_not_shipped_for_another_provider(home: Tried, how: str) -> None:
    """It is the fall-back there. The source itself harms nobody."""
    there = [on("openvino", "fp32", 0.3, 0.4), on("openvino", "source", 0.35, 0.45)]
    choice = choose([home, *there], SOURCE)
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("source", "openvino")
    assert choice.tried[1].reason == (
        f"the same file is proved {how} than the source on cpu, where it would be the fall-back"
    )
    assert choice.at_home is SOURCE
    assert choice.tried[-1].reason == "the best on cpu, for machines without openvino: it is the same file"
    assert choose([home, there[0]], SOURCE).chosen is not there[0]


def test_where_no_recipe_holds_at_home_the_source_is_best_there() -> None:
    larger = with_numbers(tried("fp32", 0.9, 1.1), size=200)
    choice = choose([larger, on("openvino", "fp32", 0.3, 0.4)], SOURCE)
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("fp32", "openvino")
    assert choice.at_home is SOURCE
    assert choice.tried[-1].reason == "the best on cpu, for machines without openvino: build --provider cpu is for them"


def test_what_is_not_proved_at_home_is_no_choice_elsewhere() -> None:
    """Worse inputs were found after it was tried there."""
    broken = tried("fp32", equivalence=proof(reason="far off"))
    choice = choose([broken, on("openvino", "fp32", 0.3, 0.4), on("openvino", "source", 0.5, 0.6)], SOURCE)
    assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("source", "openvino")
    assert choice.tried[1].reason.startswith("the same file is not proved on cpu")


def test_what_was_best_at_home_is_so_again() -> None:
    items = [tried("fp32", latency=None), on("openvino", "fp32", 0.3, 0.4), tried("slim", latency=None)]
    entries = [
        entry | {"provider": provider}
        for entry, provider in zip(
            [*recorded(fp32="eligible"), *recorded(fp32="chosen"), *recorded(slim="eligible")],
            ("cpu", "openvino", "cpu"),
            strict=True,
        )
    ]
    for best, expected in (({"recipe": "slim"}, items[2]), (None, items[0])):
        choice = choose_again(items, SOURCE, entries, {"fallback": {"provider": "cpu", "best": best}})
        assert isinstance(choice, Choice)
        assert choice.at_home is not None
        assert choice.at_home.candidate == expected.candidate
    items[2] = tried("slim", equivalence=proof(reason="far off"))
    for session in ({}, {"fallback": None}, {"fallback": {"provider": "cpu", "best": {"recipe": "slim"}}}):
        choice = choose_again(items, SOURCE, entries, session)
        assert isinstance(choice, Choice)
        assert choice.at_home is None


def test_the_best_on_the_cpu_is_known_where_another_provider_stands_first() -> None:
    def there(recipe: str, low: float, high: float) -> Tried:
        return on("cpu", recipe, low, high)

    home = [on("openvino", "fp32", 0.9, 1.0), on("openvino", "slim", 0.9, 1.0)]
    rules = {"provider": "openvino", "fallback": "cpu"}
    for slim, expected in (((3.0, 4.0), "fp32"), ((1.5, 1.9), "slim")):
        items = [home[0], there("fp32", 2.0, 5.0), home[1], there("slim", *slim)]
        choice = choose([items[0], replace(items[1], latency=speed(2.0, 5.0)), *items[2:]], SOURCE, **rules)
        assert (choice.chosen.candidate.recipe, choice.chosen.provider) == ("fp32", "openvino")
        assert choice.at_home is not None
        assert (choice.at_home.candidate.recipe, choice.at_home.provider) == (expected, "cpu")
    assert choose([home[0]], SOURCE, **rules).at_home is None
    assert choose(items, SOURCE, provider="openvino").at_home is None
