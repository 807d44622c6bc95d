"""Picture of tokens against difficulty, before training and after it in every arm, from the rows of ``study.py``.

    python research/effort/curve.py --out research/effort

It writes OUT/curve.svg: means over seeds of the sampled tokens of an episode, by level.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from etude.research.effort.study import SETS, Row, complete_arms, of_arm, read_rows, value
from etude.trainers.report.drawing import HEIGHT, LEFT, RIGHT, WIDTH, Curve, Series, picture

COLOURS = ("#777777", "#1f6fb4", "#d9822b", "#b3282d")
KEY = 20
"""Height of the line of names above the chart."""
STYLE = "font:10px sans-serif;fill:#444"


def series(rows: Sequence[Row]) -> list[Series]:
    """Return the tokens by level of the base, then those of each arm."""
    levels = [(float(number), name) for number, name in enumerate(SETS, 1)]
    curves = []
    for arm in ("base", *complete_arms(rows)):
        found = of_arm(rows, arm)
        points = [(x, statistics.fmean(value(row, level, "tokens") for row in found)) for x, level in levels]
        curves.append(Series(arm, points))
    return curves


def svg(rows: Sequence[Row]) -> str:
    """Return the picture as the text of an SVG file."""
    drawn = picture(series(rows))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {-KEY} {WIDTH} {HEIGHT + KEY}" width="{2 * WIDTH}" '
        'role="img" aria-label="sampled tokens of an episode by level">',
        f'<rect y="{-KEY}" width="{WIDTH}" height="{HEIGHT + KEY}" fill="#fff"/>',
    ]
    for place, text in drawn.rows:
        lines.append(f'<path d="M{LEFT} {place:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 5}" y="{place + 3.5:.1f}" text-anchor="end" style="{STYLE}">{text}</text>')
    for place, text in drawn.columns:
        lines.append(f'<text x="{place:.1f}" y="{HEIGHT - 5}" text-anchor="middle" style="{STYLE}">{text}</text>')
    for number, (curve, colour) in enumerate(zip(drawn.curves, COLOURS, strict=False)):
        lines += _curve(curve, colour, LEFT + 70 * number)
    return "\n".join([*lines, "</svg>", ""])


def _curve(curve: Curve, colour: str, x: int) -> list[str]:
    """Return the line and the dots of a curve, and its name at ``x`` above the chart."""
    return [
        f'<path d="{curve.line}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
        f'<path d="{curve.dots}" stroke="{colour}" stroke-width="5" stroke-linecap="round"/>',
        f'<text x="{x}" y="-7" style="{STYLE};fill:{colour}">{curve.name}</text>',
    ]


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="Folder of rows.jsonl.")
    options = parser.parse_args()
    (options.out / "curve.svg").write_text(svg(read_rows(options.out / "rows.jsonl")), encoding="utf-8")


if __name__ == "__main__":
    main()
