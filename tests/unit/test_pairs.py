from __future__ import annotations

import random

import pytest

from artifactctl.pairs import Pair, Ratio, median_ms, ratio_of


def rounds_of(
    seed: int, factor: float = 1.0, *, rounds: int = 4, spread: float = 0.05, offsets: tuple[float, ...] = (0.0,)
) -> list[list[Pair]]:
    """Pairs around 1 ms whose candidate takes `factor` times as long; `offsets` move whole rounds."""
    dice = random.Random(seed)

    def time(scale: float) -> int:
        return int(1e6 * scale * dice.lognormvariate(0, spread))

    return [[(time(factor + offsets[n % len(offsets)]), time(1)) for _ in range(20)] for n in range(rounds)]


def swapped(rounds: list[list[Pair]]) -> list[list[Pair]]:
    return [[(baseline, candidate) for candidate, baseline in pairs] for pairs in rounds]


def test_the_ratio_of_known_data() -> None:
    assert ratio_of([[(200, 100)] * 10] * 4) == Ratio(pytest.approx(2), pytest.approx(2), pytest.approx(2))
    found = ratio_of([[(100, 100), (110, 100), (400, 100)]])
    assert found.value == pytest.approx(1.1)
    assert found.low <= found.value <= found.high


def test_the_interval_holds_1_for_equal_noise() -> None:
    held = [(found := ratio_of(rounds_of(seed))).low <= 1 <= found.high for seed in range(20)]
    assert sum(held) >= 17


def test_a_real_difference_is_proved() -> None:
    for seed in range(5):
        assert ratio_of(rounds_of(seed, 1.2)).low > 1.1
        assert ratio_of(rounds_of(seed, 0.8)).high < 0.9


def test_heavy_tails_do_not_decide() -> None:
    dice = random.Random(7)
    rounds = [
        [(candidate * (50 if dice.random() < 0.08 else 1), baseline) for candidate, baseline in pairs]
        for pairs in rounds_of(7)
    ]
    found = ratio_of(rounds)
    assert found.value == pytest.approx(1, abs=0.04)
    assert found.high < 1.06


def test_a_machine_that_slows_down_hits_both_sides_alike() -> None:
    steps = iter(range(80))
    rounds = [
        [(int(candidate * (1 + step / 20)), int(baseline * (1 + step / 20))) for candidate, baseline in pairs
         for step in [next(steps)]]
        for pairs in rounds_of(3, 1.1)
    ]  # fmt: skip
    found = ratio_of(rounds)
    assert found.value == pytest.approx(1.1, abs=0.03)
    assert found.low > 1.05


def test_rounds_that_disagree_widen_the_interval() -> None:
    torn = rounds_of(1, spread=0.01, offsets=(-0.1, 0.1))
    assert ratio_of(torn).width > 0.15
    assert ratio_of(torn).low < 1 < ratio_of(torn).high
    assert ratio_of(rounds_of(1, spread=0.01)).width < 0.02


def test_swapping_the_sides_inverts_everything() -> None:
    rounds = rounds_of(5, 1.3)
    one, other = ratio_of(rounds), ratio_of(swapped(rounds))
    assert (1 / other.value, 1 / other.high, 1 / other.low) == pytest.approx((one.value, one.low, one.high))


def test_the_same_pairs_give_the_same_interval_whatever_the_dice_of_others() -> None:
    rounds = rounds_of(2)
    random.seed(1)
    state = random.getstate()
    first = ratio_of(rounds)
    assert random.getstate() == state
    random.seed(2)
    assert ratio_of(rounds) == first


@pytest.mark.parametrize("rounds", [[], [[]], [[], []]])
def test_no_pairs_prove_nothing(rounds: list[list[Pair]]) -> None:
    with pytest.raises(ValueError, match="no pairs"):
        ratio_of(rounds)


def test_empty_rounds_are_left_out() -> None:
    assert ratio_of([[], [(200, 100)]]).value == pytest.approx(2)


def test_medians_in_milliseconds() -> None:
    assert median_ms([]) is None
    assert median_ms([3_000_000, 1_000_000, 1_500_000]) == 1.5
