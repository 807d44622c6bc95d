"""Intervals for shares and their differences, against published and exact values."""

from __future__ import annotations

import math

import pytest

from etude.intervals import Arms, newcombe, stratified, wilson


@pytest.mark.parametrize(
    ("arms", "low", "high"),
    [  # Newcombe 1998, table II: method 10 (score, no continuity correction), examples (a) to (h)
        (Arms(56, 70, 48, 80), 0.0524, 0.3339),
        (Arms(9, 10, 3, 10), 0.1705, 0.8090),
        (Arms(6, 7, 2, 7), 0.0582, 0.8062),
        (Arms(5, 56, 0, 29), -0.0381, 0.1926),
        (Arms(0, 10, 0, 20), -0.1611, 0.2775),
        (Arms(0, 10, 0, 10), -0.2775, 0.2775),
        (Arms(10, 10, 0, 20), 0.6791, 1.0),
        (Arms(10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_newcombe_gives_the_published_intervals(arms: Arms, low: float, high: float) -> None:
    interval = newcombe(arms)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=6e-5)


@pytest.mark.parametrize(("first", "second"), [(0.7, 0.25), (0.91, 0.1), (0.5, 0.5), (0.99, 0.9)])
def test_newcombe_covers_the_truth_in_about_95_of_100_cases(first: float, second: float) -> None:
    """The coverage is exact, over all outcomes of 40 trials in each arm."""
    n = 40
    chance = [[math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)] for p in (first, second)]
    covered = sum(
        chance[0][a] * chance[1][b]
        for a in range(n + 1)
        for b in range(n + 1)
        if first - second in newcombe(Arms(a, n, b, n))
    )
    assert 0.94 < covered < 0.98


def test_stratified_equals_newcombe_for_one_stratum_and_for_equal_strata() -> None:
    assert stratified([Arms(9, 10, 3, 10)]) == newcombe(Arms(9, 10, 3, 10))
    interval, whole = stratified([Arms(9, 10, 3, 10)] * 4), newcombe(Arms(36, 40, 12, 40))
    assert interval is not None
    assert (interval.value, interval.low, interval.high) == pytest.approx((whole.value, whole.low, whole.high))


def test_stratified_compares_within_strata() -> None:
    """Simpson's paradox: worse in both strata, better in the sum, because each arm was tried where it does well."""
    strata = [Arms(81, 87, 234, 270), Arms(192, 263, 55, 80)]
    interval = stratified(strata)
    assert interval is not None and interval.value > 0
    assert newcombe(Arms(273, 350, 289, 350)).value < 0


def test_stratified_skips_a_stratum_with_one_arm() -> None:
    assert stratified([Arms(3, 4, 0, 0), Arms(9, 10, 3, 10)]) == newcombe(Arms(9, 10, 3, 10))
    assert stratified([Arms(3, 4, 0, 0)]) is None


def test_wilson_stays_within_zero_and_one() -> None:
    assert wilson(0.0, 1)[0] == 0.0
    assert wilson(1.0, 1)[1] == 1.0
