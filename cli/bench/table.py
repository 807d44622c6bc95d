"""Results of a benchmark as rows, a Markdown table and a plot (SVG)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..console import short_number

OURS = "etude"
LABEL, BAR, HEIGHT, TOP = 230, 420, 18, 34
"""Pixels: width of a label, width of the longest bar, height of a row, and of the title of a measure."""


@dataclass(frozen=True)
class Result:
    """One action of one side."""

    measure: str
    """Action, such as ``exec``."""
    side: str
    """Project, ``etude`` for ours."""
    kind: str
    """Sandbox of the project."""
    isolation: str
    """What separates a command from this machine."""
    median_ms: float
    """Median of the milliseconds."""
    ratio: float | None
    """Median divided by that of Etude's first sandbox, which is the strongest; None without one."""
    number: int
    """Times that were measured."""

    @property
    def name(self) -> str:
        """Return the project and its sandbox."""
        return f"{self.side} {self.kind}".strip()


Times = dict[tuple[str, str, str], dict[str, list[float]]]
"""Milliseconds of each action, by project, sandbox and isolation."""


def results(times: Times) -> list[Result]:
    """Return a result per action and side, the sides of an action together, Etude's first."""
    measures = list(dict.fromkeys(measure for measured in times.values() for measure in measured))
    ordered = sorted(times, key=lambda key: key[0] != OURS)
    rows: list[Result] = []
    for measure in measures:
        medians = {key: statistics.median(times[key][measure]) for key in ordered if measure in times[key]}
        base = next((median for key, median in medians.items() if key[0] == OURS), None)
        rows += [
            Result(measure, *key, median, median / base if base else None, len(times[key][measure]))
            for key, median in medians.items()
        ]
    return rows


def markdown(rows: Sequence[Result]) -> str:
    """Return the results as a Markdown table."""
    lines = ["| action | project | isolation | median ms | ratio to Etude | times |", "|---|---|---|---|---|---|"]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        cells = [row.measure, row.name, row.isolation, f"{row.median_ms:.2f}", ratio, str(row.number)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def plot(rows: Sequence[Result]) -> str:
    """Return the results as bars on a logarithmic scale, one group per action, as an SVG document."""
    if not rows:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>\n'
    low = math.floor(math.log10(min(row.median_ms for row in rows)))
    high = math.ceil(math.log10(max(row.median_ms for row in rows)))
    scale = BAR / max(high - low, 1)
    parts: list[str] = []
    y, measure = 0, ""
    for row in rows:
        if row.measure != measure:
            measure, y = row.measure, y + TOP
            parts.append(f'<text x="0" y="{y - 8}" font-weight="bold">{escape(measure)}</text>')
        width = max((math.log10(row.median_ms) - low) * scale, 1)
        colour = "#2563eb" if row.side == OURS else "#9ca3af"
        parts += [
            f'<text x="{LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(row.name)}</text>',
            f'<rect x="{LABEL}" y="{y + 2}" width="{width:.1f}" height="{HEIGHT - 4}" fill="{colour}"/>',
            f'<text x="{LABEL + width + 6:.1f}" y="{y + 13}">{short_number(row.median_ms)} ms</text>',
        ]
        y += HEIGHT
    y += 24
    parts.append(f'<text x="{LABEL}" y="{y - 6}" fill="#6b7280">logarithmic, from {10.0**low:g} ms; medians</text>')
    size = f'width="{LABEL + BAR + 90}" height="{y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"
