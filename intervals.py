"""Confidence intervals for shares and for the difference of two shares, valid for few trials and near 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Z = 1.959964
"""The normal quantile of a two-sided 95 % interval."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval."""

    value: float
    low: float
    high: float

    def __contains__(self, truth: float) -> bool:
        return self.low <= truth <= self.high


@dataclass(frozen=True)
class Arms:
    """Successes and trials of a comparison: with a treatment (such as a hint) and without it."""

    with_successes: float
    with_trials: float
    without_successes: float
    without_trials: float

    @property
    def comparable(self) -> bool:
        """Return whether both arms have a trial."""
        return self.with_trials > 0 and self.without_trials > 0


def wilson(mean: float, trials: float) -> tuple[float, float]:
    """Return Wilson's score interval (1927) of a mean of ``trials`` values in [0, 1].

    It is made for zeros and ones; for values between it is wider than needed, since their variance is at most
    mean * (1 - mean).
    """
    scale = 1.0 + Z * Z / trials
    centre = (mean + Z * Z / (2 * trials)) / scale
    half = Z / scale * math.sqrt(mean * (1.0 - mean) / trials + Z * Z / (4 * trials * trials))
    return max(0.0, round(centre - half, 12)), min(1.0, round(centre + half, 12))


def newcombe(arms: Arms) -> Interval:
    """Return the difference in success, with minus without, and Newcombe's hybrid score interval.

    Newcombe 1998, "Interval estimation for the difference between independent proportions", method 10, without
    continuity correction. Needs a trial in both arms.
    """
    first, second = arms.with_successes / arms.with_trials, arms.without_successes / arms.without_trials
    return _hybrid(first, arms.with_trials, second, arms.without_trials)


def stratified(strata: Sequence[Arms]) -> Interval | None:
    """Return the mean difference over strata, with Cochran's weights n1*n2 / (n1+n2), and its hybrid score interval.

    After Yan and Su 2010, "Stratified Wilson and Newcombe confidence intervals for multiple binomial proportions", but
    each arm's variance is bounded by that of one proportion with 1 / sum(w^2 / n) trials: nothing is estimated from the
    few trials of one stratum. Strata that differ make it wider than needed; a single one gives ``newcombe``. The
    estimated quantity is the same weighted mean over these strata. Strata without a trial in both arms are skipped;
    the result is ``None`` when no other stratum remains.
    """
    used = [arms for arms in strata if arms.comparable]
    if not used:
        return None
    weights = [arms.with_trials * arms.without_trials / (arms.with_trials + arms.without_trials) for arms in used]
    shares = [weight / sum(weights) for weight in weights]
    first = _weighted((share, arms.with_successes, arms.with_trials) for share, arms in zip(shares, used, strict=True))
    second = _weighted(
        (share, arms.without_successes, arms.without_trials) for share, arms in zip(shares, used, strict=True)
    )
    return _hybrid(*first, *second)


def _weighted(strata: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """Return the weighted proportion of (share, successes, trials), and the number of trials that it is worth."""
    mean, variance = 0.0, 0.0
    for share, successes, trials in strata:
        mean += share * successes / trials
        variance += share * share / trials
    return min(1.0, mean), 1.0 / variance


def _hybrid(first: float, first_trials: float, second: float, second_trials: float) -> Interval:
    low_1, high_1 = wilson(first, first_trials)
    low_2, high_2 = wilson(second, second_trials)
    difference = first - second
    low = difference - math.hypot(first - low_1, high_2 - second)
    high = difference + math.hypot(high_1 - first, second - low_2)
    return Interval(difference, max(-1.0, low), min(1.0, high))
