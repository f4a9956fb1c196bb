"""The judge of paired times: numbers in, a verdict out.

A round is one fresh process in which the candidate and *two* sessions of the baseline ran in turn. The two baselines
against each other are the A/A leg: what the machine makes of no difference at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance

from artifactctl.verdicts import NOT_PROVEN, NOT_SLOWER, REGRESSION

Triple = tuple[float, float, float]  # times of the candidate, the baseline, the baseline again

LOOKS = (5, 7, 10, 14, 20, 28, 40, 56, 80)  # rounds after which it is judged; looking often is paid for
MIN_ROUNDS = LOOKS[0]
SMALLEST_SD = 0.002  # of a round's logarithm: below it the clock decides, not the model


@dataclass(frozen=True, slots=True)
class Judgement:
    """`ratio` is candidate time divided by baseline time, `detection_limit` the smallest slow-down it could see."""

    verdict: str
    ratio: float
    ratio_low: float
    ratio_high: float
    detection_limit: float
    rounds: int
    pairs: int


def judge(rounds: Sequence[Sequence[Triple]], limit: float, confidence: float) -> Judgement:
    """Whether the candidate is slower than the baseline by more than `limit`, or not, or not proven.

    The interval is Student's over rounds, the extreme ones cut off, at a confidence that pays for every earlier look.
    Its width comes from the candidate's rounds or from the A/A leg, whichever is wider: a lucky agreement of few rounds
    proves nothing. A difference that the A/A leg shows where there is none is added to it.
    """
    if len(rounds) < 2 or not all(rounds):
        raise ValueError("fewer than two rounds of pairs prove nothing")
    ratios, noise = _logs(rounds)
    look = sum(size <= len(rounds) for size in LOOKS) or 1
    alpha = (1 - confidence) / (look * (look + 1))
    centre, own = _trimmed(ratios)
    offset, blank = _trimmed(noise)
    times = student_t(1 - alpha, len(rounds) - 2 * _cut(len(rounds)) - 1)
    least = SMALLEST_SD / math.sqrt(len(rounds))
    even = abs(offset) <= times * max(blank, least)
    bias = 0.0 if even else abs(offset)
    # the candidate is compared with two baselines (1 + 1/2), a baseline with one other (1 + 1)
    half = times * max(own, math.sqrt(0.75) * blank, least) + bias
    low, high = math.exp(centre - half), math.exp(centre + half)
    detection = math.expm1(times * max(math.sqrt(0.75) * blank, least) + bias)
    verdict = NOT_PROVEN
    if detection <= limit and len(rounds) >= MIN_ROUNDS:
        verdict = NOT_SLOWER if high <= 1 + limit else REGRESSION if low > 1 + limit else NOT_PROVEN
    pairs = sum(map(len, rounds))
    return Judgement(verdict, math.exp(centre), low, high, detection, len(rounds), pairs)


def _logs(rounds: Sequence[Sequence[Triple]]) -> tuple[list[float], list[float]]:
    """Of each round the middle ratio, and that of the A/A leg; a spike of the machine is one pair of many.

    Each baseline is compared by itself: the mean of two would meet twice as many spikes as the candidate does.
    """
    ratios, noise = [], []
    for triples in rounds:
        logs = [tuple(map(math.log, times)) for times in triples]
        ratios.append((median(c - a for c, a, _ in logs) + median(c - b for c, _, b in logs)) / 2)
        noise.append(median(a - b for _, a, b in logs))
    return ratios, noise


def _cut(count: int) -> int:
    """How many rounds at each end are cut off: one that the machine spoilt must not decide."""
    return int(0.2 * count) if count >= LOOKS[1] else 0


def _trimmed(values: Sequence[float]) -> tuple[float, float]:
    """The trimmed mean and its standard error, from the winsorized variance."""
    ordered, cut = sorted(values), _cut(len(values))
    kept = ordered[cut : len(ordered) - cut]
    drawn_in = [kept[0]] * cut + kept + [kept[-1]] * cut
    share = 1 - 2 * cut / len(ordered)
    return fmean(kept), math.sqrt(variance(drawn_in) / len(ordered)) / share


def student_t(probability: float, freedom: int) -> float:
    """The quantile of Student's distribution, by halving its exact distribution for whole degrees of freedom."""
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, freedom) < probability else (low, middle)
    return high


def _student_cdf(value: float, freedom: int) -> float:
    angle, odd = math.atan(value / math.sqrt(freedom)), freedom % 2
    total, term = 0.0, math.cos(angle) if odd else 1.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= math.cos(angle) ** 2 * step / (step + 1)
    inner = 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
    return (1 + inner) / 2
