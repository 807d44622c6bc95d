"""Geometry of charts: where points, lines and ticks lie in the picture, and the texts that show values at a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]
"""A step and a value."""
Scale = Callable[[float], float]
"""Returns the place of a step or value in the picture."""
WIDTH, HEIGHT = 360, 176
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 8, 20
MAX_POINTS = 200
"""Points of one curve, at most; of more steps, means of neighbours are drawn."""
_LINE_HEIGHT = 14
_LETTER_WIDTH = 6.2
"""Height of a line and approximate width of a letter in the box that shows values."""
_SMALLEST = 1e-290
"""Numbers nearer to 0 count as 0, because a distance between them has no logarithm."""


@dataclass(frozen=True)
class Series:
    """One curve; its steps ascend. Values are finite."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Curve:
    """One curve as SVG paths, with its last value as text."""

    name: str
    line: str
    dots: str
    last: str


@dataclass(frozen=True)
class Strip:
    """Vertical strip of the picture, and the lines of text that appear in a box while the pointer is on it."""

    x: float
    width: float
    middle: float
    box: tuple[float, float, float, float]
    """x, y, width and height."""
    lines: list[str]


@dataclass(frozen=True)
class Picture:
    """One chart."""

    curves: list[Curve]
    strips: list[Strip]
    rows: list[tuple[float, str]]
    """Ticks of the values, as (place, text)."""
    columns: list[tuple[float, str]]
    """Ticks of the steps, as (place, text)."""
    limit: float | None = None
    """Place of the line of a limit."""


def picture(series: Sequence[Series], *, share: bool = False, limit: float | None = None) -> Picture:
    """Return the picture of curves over two steps or more.

    ``share``: the axis goes from 0 to 1. ``limit`` is drawn if it lies within the axis.
    """
    steps = [step for one in series for step, _ in one.points]
    values = [value for one in series for _, value in thinned(one.points)]
    first, last = min(steps), max(steps)
    low, high, ticks = _axis(min(values), max(values), share)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / max(last - first, 1)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    curves = [_curve(one, x, y) for one in series]
    columns = [(x(step), f"{step:,.0f}") for step in round_numbers(first, last, 5) if step == int(step)]
    rows = [(y(value), short(value)) for value in ticks]
    height = y(limit) if limit is not None and low <= limit <= high else None
    return Picture(curves, _strips(series, x), rows, columns, height)


def _curve(series: Series, x: Scale, y: Scale) -> Curve:
    """Return a curve smoothed over a twelfth of its points, so that a curve with few points is not flattened."""
    smooth = thinned(smoothed(series.points, len(series.points) // 24))
    dots = "".join(f"M{x(step):.1f} {y(value):.1f}h0" for step, value in thinned(series.points))
    line = "M" + "L".join(f"{x(step):.1f} {y(value):.1f}" for step, value in smooth)
    return Curve(series.name, line, dots, exact(series.points[-1][1]))


def smoothed(points: Sequence[Point], half: int) -> list[Point]:
    """Return each value as the mean of itself and up to ``half`` values on either side, fewer at the ends."""
    sums = [0.0]
    for _, value in points:
        sums.append(sums[-1] + value)
    means = []
    for place, (step, _) in enumerate(points):
        start, end = max(0, place - half), min(len(points), place + half + 1)
        means.append((step, (sums[end] - sums[start]) / (end - start)))
    return means


def thinned(points: Sequence[Point]) -> list[Point]:
    """Return at most MAX_POINTS points, which are means of neighbours if there are more."""
    size = math.ceil(len(points) / MAX_POINTS)
    return [_mean(points[start : start + size]) for start in range(0, len(points), size)]


def _mean(points: Sequence[Point]) -> Point:
    steps, values = zip(*points, strict=True)
    return sum(steps) / len(points), sum(values) / len(points)


def _strips(series: Sequence[Series], x: Scale) -> list[Strip]:
    """Return a strip for each step at which any curve has a value, or for as many steps as one point stands for."""
    steps = sorted({step for one in series for step, _ in one.points})
    size = math.ceil(len(steps) / MAX_POINTS)
    bins = [steps[start : start + size] for start in range(0, len(steps), size)]
    middles = [x(sum(bin_steps) / len(bin_steps)) for bin_steps in bins]
    edges = [float(LEFT), *((a + b) / 2 for a, b in pairwise(middles)), float(WIDTH - RIGHT)]
    values_by_step = [dict(one.points) for one in series]
    strips = []
    for place, inside in enumerate(bins):
        lines = [f"step {inside[0]:g}" + (f" to {inside[-1]:g}, mean" if len(inside) > 1 else "")]
        for one, values in zip(series, values_by_step, strict=True):
            present = [values[step] for step in inside if step in values]
            if present:
                lines.append(f"{one.name} {exact(sum(present) / len(present))}")
        start, end = edges[place], edges[place + 1]
        strips.append(Strip(start, end - start, middles[place], _box(middles[place], lines), lines))
    return strips


def _box(middle: float, lines: Sequence[str]) -> tuple[float, float, float, float]:
    """Return a box beside the pointer, on the side with more room."""
    width = min(max(map(len, lines)) * _LETTER_WIDTH + 12, WIDTH - LEFT)
    start = middle + 8 if middle < (LEFT + WIDTH) / 2 else middle - 8 - width
    return max(2.0, min(start, WIDTH - width - 2)), TOP + 2.0, width, len(lines) * _LINE_HEIGHT + 6.0


def _axis(low: float, high: float, share: bool) -> tuple[float, float, list[float]]:
    """Return both ends of the axis and its ticks. The axis starts at 0 if the values come near it."""
    if share and low >= 0 and high <= 1:
        return 0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0]
    if 0 <= low < 0.6 * high:
        low = 0.0
    elif 0.6 * low < high <= 0:
        high = 0.0
    if high - low <= 1e-9 * max(abs(low), abs(high), _SMALLEST):
        low = high  # floats between them are too few for ticks
    ticks = round_numbers(low, high, 4)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(high) if abs(high) > _SMALLEST else 1.0
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    high = high if high > low else low + step
    return low, high, round_numbers(low, high, 4)


def round_numbers(low: float, high: float, about: int) -> list[float]:
    """Return about ``about`` round numbers from ``low`` to ``high``, 1, 2 or 5 times a power of ten apart."""
    if high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(m for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    start, end = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(start, end + 1)]


def exact(value: float) -> str:
    """Return a value as the text that shows it."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def short(value: float) -> str:
    """Return a value as the text beside a tick."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.3g}"
