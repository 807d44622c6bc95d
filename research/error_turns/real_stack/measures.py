"""Measures, contrasts and checks of experiment B, as registered in PREREGISTERED_STACK.md.

The contrasts W are registered in PREREGISTERED_BALANCE.md, X in PREREGISTERED_PLACE.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etude.research.error_turns import summary
from etude.research.error_turns.summary import (
    Contrast,
    Measure,
    Row,
    count,
    ends_near,
    guard_checks,
    keeps_good_turns,
)


def last(split: str, share: str) -> Measure:
    """Return a measure: a share at the last evaluation on the tasks of a split."""
    return lambda row: float(row["held"][split][-1][share])


def measures(other: str) -> dict[str, Measure]:
    """Return the measures of experiment A and those of the last evaluation; ``other`` names the split ``eval``."""
    return {
        **summary.MEASURES,
        "first": last("train", "first"),
        "turns": last("train", "turns"),
        "solved": last("train", "solved"),
        other: last("eval", "missed"),
        f"{other}_turns": last("eval", "turns"),
        f"{other}_solved": last("eval", "solved"),
    }


MEASURES = measures("new_nouns")
PLACE = (
    Contrast("X1", "good_due", "distill", "area", "within", 0.05),
    Contrast("X2", "good_due", "good_turn", "area", "below", -0.10),
)
"""Contrasts X of both worlds."""
CONTRASTS = (
    Contrast("P1", "dense_distill", "grpo_dense", "area", "below", 0.0),
    Contrast("P2", "sparse_distill", "grpo_sparse", "final", "below", -0.10),
    Contrast("P3", "distill", "grpo_penalty", "area", "below", 0.0),
    Contrast("P4", "distill", "wrong_hint", "final", "below", -0.30),
    Contrast("P5", "sparse_distill", "grpo_sparse", "solved", "above", 0.0),
    Contrast("S1", "distill", "grpo_dense", "area", "below", 0.0),
    Contrast("S2", "distill", "grpo_dense", "episodes", "ratio", 0.6),
    Contrast("S3", "distill", "grpo_dense", "tokens", "ratio", 0.8),
    Contrast("S4", "dense_distill", "grpo_dense", "solved", "above", 0.0),
    Contrast("S5", "distill", 0.10, "new_nouns", "below", 0.0),
    Contrast("S6", "distill", "raw_error", "final", "within", 0.05),
    Contrast("S7", "distill", "good_turn", "area", "below", 0.0),
    Contrast("S8", "distill", "sft_resample", "area", "below", 0.0),
    Contrast("S9", "gated", "distill", "area", "within", 0.05),
    Contrast("S10", "live", "distill", "final", "above", 0.10),
    Contrast("S11", "ema_05", "distill", "final", "above", 0.05),
    Contrast("S12", "ema_001", "distill", "final", "within", 0.05),
    Contrast("S13", "trust_region", "distill", "final", "within", 0.05),
    Contrast("S14", "weak_distill", "weak_ceiling", "final", "within", 0.10),
    Contrast("S15", "weak_dense_distill", "weak_distill", "final", "below", -0.05),
    Contrast("S16", "weak_live", "weak_distill", "final", "below", -0.05),
    Contrast("S17", "sparse_distill_replay", "sparse_distill", "solved", "above", 0.0),
    Contrast("S18", "replay", "base", "final", "below", -0.05),
    Contrast("S19", "distill", "grpo_dense_10x", "final", "below", 0.0),
    Contrast("W1", "sparse_tenth", "sparse_distill", "solved", "above", 0.0),
    Contrast("W2", "sparse_tenth", "grpo_sparse", "final", "below", -0.10),
    Contrast("W3", "dense_tenth", "grpo_dense", "area", "below", 0.0),
    Contrast("W4", "dense_tenth", "grpo_dense", "solved", "above", 0.0),
    *PLACE,
    Contrast("X3", "good_due", "base", "final", "below", -0.30),
)


def checks(arms: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """Return what is counted seed by seed, and whether the controls are valid, each as "held of all"."""
    return {
        "wrong_hint ends at most .10 below the base": count(
            arms, "wrong_hint", lambda row: row["errors"][0] - row["errors"][-1] <= 0.10
        ),
        "null_hint ends within .10 of the base, KL <= .01": count(
            arms, "null_hint", lambda row: keeps_good_turns(row) and ends_near(row, 0.10)
        ),
        **{
            f"{name} ends at <= .10": count(arms, name, lambda row: row["errors"][-1] <= 0.10)
            for name in ("distill", "dense_distill", "grpo_dense")
        },
        **guard_checks(arms),
    }


def show(report: dict[str, Any], measures: Mapping[str, Measure]) -> None:
    """Print the measures that experiment A lacks, as interquartile means with their intervals."""
    shown = [name for name in measures if name not in summary.MEASURES]
    print(f"\n{'arm':22}" + "".join(f" {name:>18}" for name in shown))
    for name, arm in report["arms"].items():
        parts = ["{:.2f} [{:.2f}, {:.2f}]".format(*arm[measure]) for measure in shown]
        print(f"{name:22}" + "".join(f" {part:>18}" for part in parts))
