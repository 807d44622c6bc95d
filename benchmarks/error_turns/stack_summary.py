"""From the rows of experiment (B) to the measures of (A), and to those that only the real stack has."""

from __future__ import annotations

from typing import Any

from etude.benchmarks.error_turns import summary
from etude.benchmarks.error_turns.stack_arms import ARMS
from etude.benchmarks.error_turns.summary import Contrast, Measure, until

EARLY = 0.25
"""A second threshold of the error, which more runs reach."""


def last(split: str, what: str) -> Measure:
    return lambda row: float(row["held"][split][-1][what])


MEASURES: dict[str, Measure] = {
    **summary.MEASURES,
    "episodes_25": until("episodes", EARLY),
    "tokens_25": until("tokens", EARLY),
    "first": last("train", "first"),
    "turns": last("train", "turns"),
    "solved": last("train", "solved"),
    "new_nouns": last("eval", "missed"),
    "new_nouns_first": last("eval", "first"),
    "new_nouns_turns": last("eval", "turns"),
    "new_nouns_solved": last("eval", "solved"),
}
SHOWN = tuple(name for name in MEASURES if name not in summary.MEASURES)


def run_here(contrast: Contrast) -> bool:
    return {side for side in (contrast.left, contrast.right) if isinstance(side, str)} <= set(ARMS)


CONTRASTS = tuple(contrast for contrast in summary.CONTRASTS if run_here(contrast))
"""(A)'s, of the arms that run here."""


def show(found: dict[str, Any]) -> None:
    """What (A)'s tables do not have: interquartile means and, of the rates, intervals."""
    print(f"\n{'arm':20}" + "".join(f" {name:>20}" for name in SHOWN))
    for name, arm in found["arms"].items():
        parts = [f"{arm[each][0]:.0f}" for each in SHOWN[:2]]
        parts += ["{:.2f} [{:.2f}, {:.2f}]".format(*arm[each]) for each in SHOWN[2:]]
        print(f"{name:20}" + "".join(f" {part:>20}" for part in parts))
