"""Curves as geometry: where the points of a chart lie in its picture, and what is read off at each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]
"""A step and a value."""
Place = Callable[[float], float]
WIDTH, HEIGHT = 360, 176
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 8, 20
MAX_POINTS = 200
"""Points of one curve on a page; of more steps, means of neighbours are drawn."""
_LINE = 14
_LEAST = 1e-290
"""What is nearer to 0 is 0: a step between such numbers has no logarithm."""
_LETTER = 6.2
"""Height of a line, and about the width of a letter, of what is read off."""


@dataclass(frozen=True)
class Series:
    """One curve; its steps ascend. Values are finite."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Curve:
    """``line`` and ``dots`` are SVG paths. ``last`` is the newest value as text."""

    name: str
    line: str
    dots: str
    last: str


@dataclass(frozen=True)
class Strip:
    """What is shown where the pointer is: the lines of text, in a box at ``box`` (x, y, width, height)."""

    x: float
    width: float
    middle: float
    box: tuple[float, float, float, float]
    lines: list[str]


@dataclass(frozen=True)
class Picture:
    """``rows`` and ``columns`` are ticks: (place, text). ``limit``: the height of its line."""

    curves: list[Curve]
    strips: list[Strip]
    rows: list[tuple[float, str]]
    columns: list[tuple[float, str]]
    limit: float | None = None


def picture(series: Sequence[Series], *, share: bool = False, limit: float | None = None) -> Picture:
    """``share``: the axis goes from 0 to 1. ``limit`` is drawn where it lies within the axis. Needs two steps."""
    steps = [step for each in series for step, _ in each.points]
    values = [value for each in series for _, value in thinned(each.points)]
    first, last = min(steps), max(steps)
    low, high, heights = _axis(min(values), max(values), share)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / max(last - first, 1)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    curves = [_curve(each, x, y) for each in series]
    columns = [(x(step), f"{step:,.0f}") for step in nice(first, last, 5) if step == int(step)]
    rows = [(y(value), short(value)) for value in heights]
    height = y(limit) if limit is not None and low <= limit <= high else None
    return Picture(curves, _strips(series, x), rows, columns, height)


def _curve(series: Series, x: Place, y: Place) -> Curve:
    """Over a twelfth of its own points: one that is measured more seldom than its neighbours is not flattened."""
    smooth = thinned(smoothed(series.points, len(series.points) // 24))
    dots = "".join(f"M{x(step):.1f} {y(value):.1f}h0" for step, value in thinned(series.points))
    line = "M" + "L".join(f"{x(step):.1f} {y(value):.1f}" for step, value in smooth)
    return Curve(series.name, line, dots, exact(series.points[-1][1]))


def smoothed(points: Sequence[Point], half: int) -> list[Point]:
    """Each value as the mean of itself and of up to ``half`` values at either side, fewer at the ends."""
    sums = [0.0]
    for _, value in points:
        sums.append(sums[-1] + value)
    found = []
    for place, (step, _) in enumerate(points):
        start, end = max(0, place - half), min(len(points), place + half + 1)
        found.append((step, (sums[end] - sums[start]) / (end - start)))
    return found


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most MAX_POINTS: means of as many neighbours as that takes."""
    many = math.ceil(len(points) / MAX_POINTS)
    return [_mean(points[start : start + many]) for start in range(0, len(points), many)]


def _mean(points: Sequence[Point]) -> Point:
    steps, values = zip(*points, strict=True)
    return sum(steps) / len(points), sum(values) / len(points)


def _strips(series: Sequence[Series], x: Place) -> list[Strip]:
    """One for each step, or for as many steps as are drawn as one point, wherever any curve has a value."""
    steps = sorted({step for each in series for step, _ in each.points})
    many = math.ceil(len(steps) / MAX_POINTS)
    bins = [steps[start : start + many] for start in range(0, len(steps), many)]
    middles = [x(sum(each) / len(each)) for each in bins]
    edges = [float(LEFT), *((a + b) / 2 for a, b in pairwise(middles)), float(WIDTH - RIGHT)]
    held = [dict(each.points) for each in series]
    found = []
    for place, inside in enumerate(bins):
        title = f"step {inside[0]:g}" + (f" to {inside[-1]:g}, mean" if len(inside) > 1 else "")
        lines = [title]
        for each, values in zip(series, held, strict=True):
            here = [values[step] for step in inside if step in values]
            if here:
                lines.append(f"{each.name} {exact(sum(here) / len(here))}")
        start, end = edges[place], edges[place + 1]
        found.append(Strip(start, end - start, middles[place], _box(middles[place], lines), lines))
    return found


def _box(middle: float, lines: Sequence[str]) -> tuple[float, float, float, float]:
    """Beside the pointer, on the side that has the room."""
    width = min(max(map(len, lines)) * _LETTER + 12, WIDTH - LEFT)
    start = middle + 8 if middle < (LEFT + WIDTH) / 2 else middle - 8 - width
    return max(2.0, min(start, WIDTH - width - 2)), TOP + 2.0, width, len(lines) * _LINE + 6.0


def _axis(low: float, high: float, share: bool) -> tuple[float, float, list[float]]:
    """Ends and ticks. From 0 where the values come near it."""
    if share and low >= 0 and high <= 1:
        return 0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0]
    if 0 <= low < 0.6 * high:
        low = 0.0
    elif 0.6 * low < high <= 0:
        high = 0.0
    if high - low <= 1e-9 * max(abs(low), abs(high), _LEAST):
        low = high  # floats between them are too few for ticks
    ticks = nice(low, high, 4)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(high) if abs(high) > _LEAST else 1.0
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    high = high if high > low else low + step
    return low, high, nice(low, high, 4)


def nice(low: float, high: float, about: int) -> list[float]:
    """Round numbers from ``low`` to ``high``, roughly ``about`` of them: 1, 2 or 5 times a power of ten apart."""
    if high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(m for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    start, end = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(start, end + 1)]


def exact(value: float) -> str:
    """As it is read off."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def short(value: float) -> str:
    """Beside a tick."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.3g}"
