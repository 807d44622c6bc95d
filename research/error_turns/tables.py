"""Printed tables of a report, and the line of a run that is done."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from etude.research.error_turns.summary import Row, area


def show(report: dict[str, Any]) -> None:
    """Print a report."""
    print(f"{'arm':20} {'rate':>6}  {'final error':21} {'area':21} {'episodes to .10':>15} {'M tokens':>8}"
          f" {'cens.':>6} {'KL good':>8} {'follows':>8}")  # fmt: skip
    for name, arm in report["arms"].items():
        final, area = ("{:.3f} [{:.3f}, {:.3f}]".format(*arm[measure]) for measure in ("final", "area"))
        kl, follows = ("-" if arm[key] is None else f"{arm[key]:.3f}" for key in ("good_turn_kl", "follows"))
        print(
            f"{name:20} {arm['rate']:6g}  {final:21} {area:21} {arm['episodes'][0]:15.0f} "
            f"{arm['tokens'][0] / 1e6:8.2f} {arm['censored']:2} / {len(arm['seeds'])} {kl:>8} {follows:>8}"
        )
    print()
    show_curves({name: arm["curve"] for name, arm in report["arms"].items() if len(arm["curve"]) > 1})
    for row in report["contrasts"]:
        value = f"{row['value']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
        sides = f"{row['left']} : {row['right']}, {row['measure']}"
        print(f"{row['contrast']:5} {sides:48} {row['kind']:6} {row['bound']:+.2f}  {value:25} {row['verdict']}")
    print()
    show_seeds(report["contrasts"])
    for name, held in report["checks"].items():
        print(f"{name:55} {held}")
    if report["begun"]:
        print("not all seeds yet: " + ", ".join(f"{name} {number}" for name, number in report["begun"].items()))
    print(f"{dict(report['runs'])}, {report['cpu_minutes']:.1f} CPU minutes")


def show_curves(curves: Mapping[str, Sequence[tuple[float, float, float]]]) -> None:
    """Print interquartile means of the error and of the forward tokens at every evaluation of the shortest run.

    Later evaluations of longer runs have tables of their own.
    """
    shown = [episodes for episodes, *_ in min(curves.values(), key=lambda curve: curve[-1][0], default=[])]
    longer = (tuple(episodes for episodes, *_ in curve if episodes > shown[-1]) for curve in curves.values())
    for columns in dict.fromkeys(filter(None, (tuple(shown), *longer))):
        for title, place, unit in (("error after", 1, 1.0), ("M tokens after", 2, 1e6)):
            print(f"{title:20}" + "".join(f" {episodes:>7.0f}" for episodes in columns) + "  episodes")
            for name, curve in curves.items():
                values = {point[0]: point[place] / unit for point in curve}
                if values.keys() & set(columns):
                    print(f"{name:20}" + "".join(f" {values.get(column, math.nan):7.3f}" for column in columns))
            print()


def show_seeds(contrasts: Sequence[Mapping[str, Any]]) -> None:
    """Print the compared measures of every seed."""
    sides = {(row[side], row["measure"]): row[f"{side}_seeds"] for row in contrasts for side in ("left", "right")}
    if sides:
        print("seed by seed")
    for (arm, measure), values in sides.items():
        if isinstance(arm, str):
            print(f"{f'{arm}, {measure}':40}" + "".join(f" {value:10.4g}" for value in values))
    print()


def print_run(row: Row, number: int, total: int) -> None:
    """Print that a run is done."""
    print(
        f"{number} of {total}: {row['arm']} at {row['rate']:g}, seed {row['seed']}: error {row['errors'][-1]:.3f}, "
        f"area {area(row):.3f}, {row['cpu_seconds']:.0f} CPU s",
        file=sys.stderr,
        flush=True,
    )
