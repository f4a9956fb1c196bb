"""The judge, fed with simulated machines: how often it is wrong, never how fast this one is."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

from artifactctl import gate, verdicts

Noise = Callable[[random.Random, int], list[float]]  # what one triple's three runs are slowed down by, as logarithms


def calm(dice: random.Random, _: int) -> list[float]:
    return [dice.gauss(0, 0.02) for _ in range(3)]


def spikes(dice: random.Random, _: int) -> list[float]:
    return [dice.gauss(0, 0.05) + (abs(dice.gauss(0, 1)) if dice.random() < 0.15 else 0) for _ in range(3)]


def bimodal(dice: random.Random, _: int) -> list[float]:
    return [dice.gauss(0, 0.02) + (0.3 if dice.random() < 0.4 else 0) for _ in range(3)]


def heavy_tails(dice: random.Random, _: int) -> list[float]:
    return [0.03 * math.tan(math.pi * (dice.random() - 0.5) * 0.98) for _ in range(3)]


def drift(dice: random.Random, step: int) -> list[float]:
    return [0.02 * step + dice.gauss(0, 0.02) for _ in range(3)]


def correlated(dice: random.Random, step: int) -> list[float]:
    shared = 0.3 * math.sin(step / 7) + dice.gauss(0, 0.1)
    return [shared + dice.gauss(0, 0.03) for _ in range(3)]


NOISES = {made.__name__: made for made in (calm, spikes, bimodal, heavy_tails, drift, correlated)}


def one_round(dice: random.Random, slower: float, noise: Noise, placement: float, begun: int) -> list[gate.Triple]:
    """Each session lies somewhere else in memory, which moves all its runs."""
    places = [dice.gauss(0, placement) for _ in range(3)]
    triples = []
    for step in range(24):
        more = noise(dice, begun + step)
        c, a, b = (1e6 * math.exp(place + extra) for place, extra in zip(places, more, strict=True))
        triples.append((c * (1 + slower), a, b))
    return triples


def verdict(seed: int, slower: float, limit: float, noise: Noise, placement: float = 0.01) -> gate.Judgement:
    dice, rounds = random.Random(seed), list[list[gate.Triple]]()
    for look in gate.LOOKS:
        while len(rounds) < look:
            rounds.append(one_round(dice, slower, noise, placement, 24 * len(rounds)))
        judged = gate.judge(rounds, limit, 0.99)
        if judged.verdict != verdicts.NOT_PROVEN:
            break
    return judged


def counted(slower: float, limit: float, noise: Noise, trials: int = 60) -> Counter[str]:
    return Counter(verdict(seed, slower, limit, noise).verdict for seed in range(trials))


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_no_wrong_verdict_whatever_the_noise(noise: Noise) -> None:
    assert counted(0.0, 0.05, noise)[verdicts.REGRESSION] == 0
    assert counted(-0.1, 0.05, noise)[verdicts.REGRESSION] == 0
    assert counted(0.05, 0.02, noise)[verdicts.NOT_SLOWER] == 0
    assert counted(0.10, 0.05, noise)[verdicts.NOT_SLOWER] == 0


@pytest.mark.parametrize("noise", [calm, spikes, bimodal, drift, correlated], ids=lambda noise: noise.__name__)
def test_what_can_be_proved_is_proved(noise: Noise) -> None:
    assert counted(0.0, 0.05, noise)[verdicts.NOT_SLOWER] >= 57
    assert counted(0.10, 0.05, noise)[verdicts.REGRESSION] >= 57


def test_on_the_limit_itself_a_verdict_is_rare() -> None:
    """Either answer would be half wrong: at 99 % it may be given once in a hundred."""
    found = counted(0.05, 0.05, calm, trials=200)
    assert found[verdicts.NOT_PROVEN] >= 196


def test_the_ratio_is_that_of_the_work() -> None:
    judged = verdict(1, 0.5, 0.05, calm)
    assert judged.ratio == pytest.approx(1.5, rel=0.03)
    assert judged.ratio_low < judged.ratio < judged.ratio_high


def test_a_machine_that_sees_nothing_proves_nothing() -> None:
    """The A/A leg alone is wild: even a model that is twice as fast is not proved to be not slower."""
    dice = random.Random(3)
    rounds = [[(0.5e6, 1e6 * math.exp(dice.gauss(0, 2)), 1e6) for _ in range(9)] for _ in range(10)]
    judged = gate.judge(rounds, 0.05, 0.99)
    assert judged.verdict == verdicts.NOT_PROVEN
    assert judged.detection_limit > 0.05


def test_two_baselines_that_differ_prove_nothing_that_is_smaller_than_their_difference() -> None:
    rounds = [[(1e6, 1.2e6 * (1 + 0.001 * turn), 1e6) for turn in range(9)] for _ in range(10)]
    judged = gate.judge(rounds, 0.15, 0.99)
    assert judged.verdict == verdicts.NOT_PROVEN
    assert judged.detection_limit > 0.2
    assert judged.ratio_low < 1 / 1.2 < judged.ratio < 1 < judged.ratio_high
    assert gate.judge(rounds, 0.5, 0.99).verdict == verdicts.NOT_SLOWER


@pytest.mark.parametrize("rounds", [[], [[]], [[(1.0, 1.0, 1.0)]], [[(1.0, 1.0, 1.0)], []]])
def test_too_little_is_an_error(rounds: list[list[gate.Triple]]) -> None:
    with pytest.raises(ValueError, match="prove nothing"):
        gate.judge(rounds, 0.05, 0.99)


def test_fewer_rounds_than_the_first_look_are_never_a_verdict() -> None:
    rounds = [[(1e6, 1e6, 1e6)] * 9] * (gate.MIN_ROUNDS - 1)
    assert gate.judge(rounds, 0.5, 0.99).verdict == verdicts.NOT_PROVEN
    assert gate.judge([*rounds, rounds[0]], 0.5, 0.99).verdict == verdicts.NOT_SLOWER


def test_one_spoilt_round_does_not_decide() -> None:
    dice = random.Random(5)
    rounds = [one_round(dice, 0.0, calm, 0.005, 0) for _ in range(10)]
    spoilt = [*rounds[:9], [(5 * c, a, b) for c, a, b in rounds[9]]]
    assert gate.judge(spoilt, 0.05, 0.99).verdict == verdicts.NOT_SLOWER


# from tables of Student's distribution
@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [(0.975, 1, 12.706205), (0.995, 2, 9.924843), (0.995, 4, 4.604095), (0.999, 9, 4.296806), (0.975, 30, 2.042272)],
)
def test_student_s_distribution(probability: float, freedom: int, quantile: float) -> None:
    assert gate.student_t(probability, freedom) == pytest.approx(quantile, rel=1e-6)
