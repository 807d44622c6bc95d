"""Measures, intervals and verdicts (PREREGISTERED.md) from the rows of the result file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from etude.research.error_turns.small_world.language import stream
from etude.research.error_turns.small_world.training import GUARD

TUNING = 1000
"""First tuning seed; tuning seeds choose learning rates and are in no result."""
THRESHOLD, RESAMPLES = 0.10, 20_000

Row = Mapping[str, Any]
Measure = Callable[[Row], float]


def area(row: Row) -> float:
    """Return the mean of the error over the run, by the trapezoidal rule."""
    if len(row["errors"]) == 1:
        return float(row["errors"][0])
    episodes, errors = torch.tensor(row["episodes"]).double(), torch.tensor(row["errors"]).double()
    return float(torch.trapezoid(errors, episodes) / (episodes[-1] - episodes[0]))


def reached(row: Row) -> int | None:
    """Return the index of the first evaluation at or below the threshold; None without one."""
    return next((number for number, error in enumerate(row["errors"]) if error <= THRESHOLD), None)


def until(column: str) -> Measure:
    """Return a measure: the value of a column when the error reaches the threshold, or at the end."""

    def measure(row: Row) -> float:
        index = reached(row)
        return float(row[column][-1 if index is None else index])

    return measure


MEASURES: dict[str, Measure] = {
    "final": lambda row: float(row["errors"][-1]),
    "area": area,
    "episodes": until("episodes"),
    "tokens": until("tokens"),
}


def iqm(values: Tensor) -> Tensor:
    """Return the interquartile mean over the last dimension; of five values, without the lowest and the highest."""
    cut = values.shape[-1] // 4
    return values.sort(-1).values[..., cut : values.shape[-1] - cut].mean(-1)


def resampled(values: Sequence[float], name: str) -> Tensor:
    """Return interquartile means of resamples of the seeds, [RESAMPLES]; ``name`` seeds the draws."""
    by_seed = torch.tensor(values, dtype=torch.double)
    return iqm(by_seed[torch.randint(len(values), (RESAMPLES, len(values)), generator=stream("bootstrap", name))])


def interval(samples: Tensor) -> tuple[float, float]:
    """Return the 95 % percentile interval of samples."""
    low, high = samples.quantile(torch.tensor([0.025, 0.975], dtype=torch.double))
    return float(low), float(high)


@dataclass(frozen=True)
class Contrast:
    """Registered comparison of two arms."""

    name: str
    left: str
    right: str | float
    """Other arm, or a number."""
    measure: str
    kind: str
    """``below``, ``above`` or ``within`` for the difference of left and right, ``ratio`` for their ratio."""
    bound: float
    """Registered bound of the difference or ratio."""


CONTRASTS = (
    Contrast("P1", "sparse_distill", "grpo_sparse", "final", "below", -0.50),
    Contrast("P2", "dense_distill", "grpo_dense", "area", "below", 0.0),
    Contrast("P3", "distill", "grpo_penalty", "area", "below", 0.0),
    Contrast("P4", "distill", "wrong_hint", "final", "below", -0.50),
    Contrast("P5", "distill", "raw_error", "final", "below", -0.50),
    Contrast("P6", "live", "distill", "final", "above", 0.20),
    Contrast("S1", "dense_distill", "grpo_dense", "final", "below", 0.0),
    Contrast("S2", "distill", "grpo_dense", "area", "below", 0.0),
    Contrast("S3", "distill", "grpo_dense", "episodes", "ratio", 0.6),
    Contrast("S4", "distill", "grpo_dense", "tokens", "ratio", 0.8),
    Contrast("S5", "distill", "good_turn", "area", "below", 0.0),
    Contrast("S6", "distill", "sft_resample", "area", "within", 0.03),
    Contrast("S7", "distill", "grpo_dense_10x", "final", "below", 0.0),
    Contrast("S8", "ema_05", "distill", "final", "above", 0.05),
    Contrast("S9", "ema_001", "distill", "final", "within", 0.03),
    Contrast("S10", "trust_region", "distill", "final", "within", 0.03),
    Contrast("S11", "weak_distill", 0.40, "final", "within", 0.05),
    Contrast("S12", "weak_dense_distill", "weak_distill", "final", "below", -0.05),
    Contrast("S13a", "weak_ema_05", "weak_distill", "final", "below", -0.05),
    Contrast("S13b", "weak_ema_001", "weak_distill", "final", "below", -0.05),
    Contrast("S13c", "weak_trust_region", "weak_distill", "final", "below", -0.05),
    Contrast("S13d", "weak_live", "weak_distill", "final", "below", -0.05),
    Contrast("S14", "gated", "distill", "area", "within", 0.03),
    Contrast("T1", "periodic", "distill", "final", "above", 0.05),
    Contrast("T2", "weak_periodic", "weak_distill", "final", "below", -0.05),
)


def verdict(contrast: Contrast, low: float, high: float) -> str:
    """Return ``support`` for an interval on the registered side of the bound, ``refuted`` on the other, or ``open``."""
    if contrast.kind == "within":
        inside, outside = -contrast.bound <= low and high <= contrast.bound, min(-low, high) < -contrast.bound
    elif contrast.kind == "above":
        inside, outside = low > contrast.bound, high < contrast.bound
    else:
        inside, outside = high < contrast.bound, low > contrast.bound
    return "support" if inside else "refuted" if outside else "open"


def compared(
    contrast: Contrast, arms: Mapping[str, Sequence[Row]], measures: Mapping[str, Measure] = MEASURES
) -> dict[str, Any] | None:
    """Return a contrast with its value, interval and verdict; None while an arm has no counted run."""
    names = [side for side in (contrast.left, contrast.right) if isinstance(side, str)]
    if not all(arms.get(name) for name in names):
        return None
    measure = measures[contrast.measure]
    left = [measure(row) for row in arms[contrast.left]]
    right = [measure(row) for row in arms[contrast.right]] if isinstance(contrast.right, str) else [contrast.right]
    left_samples, right_samples = resampled(left, contrast.name + "left"), resampled(right, contrast.name + "right")
    left_value, right_value = mean_of(left), mean_of(right)
    ratio = contrast.kind == "ratio"
    low, high = interval(left_samples / right_samples if ratio else left_samples - right_samples)
    value = left_value / right_value if ratio else left_value - right_value
    return {
        "contrast": contrast.name,
        "left": contrast.left,
        "right": contrast.right,
        "measure": contrast.measure,
        "kind": contrast.kind,
        "bound": contrast.bound,
        "value": value,
        "low": low,
        "high": high,
        "verdict": verdict(contrast, low, high),
        "left_seeds": left,
        "right_seeds": right,
    }


def summarised(rows: Sequence[Row], measures: Mapping[str, Measure] = MEASURES) -> dict[str, Any]:
    """Return the summary of one arm: each measure as (interquartile mean, low, high), and its value for every seed.

    ``censored`` counts the seeds that never reached the threshold. ``curve`` has [episodes, interquartile mean of the
    error, that of the forward tokens] for each evaluation.
    """
    arm: dict[str, Any] = {"seeds": [row["seed"] for row in rows], "rate": rows[0]["rate"]}
    for name, measure in measures.items():
        values = [measure(row) for row in rows]
        arm[name] = (mean_of(values), *interval(resampled(values, name)))
        arm[f"{name}_seeds"] = values
    arm["censored"] = sum(reached(row) is None for row in rows)
    arm["curve"] = [
        [episodes, *(round(mean_of([row[name][index] for row in rows]), 5) for name in ("errors", "tokens"))]
        for index, episodes in enumerate(rows[0]["episodes"][: min(len(row["errors"]) for row in rows)])
    ]
    for name in ("good_turn_kl", "follows"):
        measured = [row[name] for row in rows if row[name] is not None]
        arm[name] = mean_of(measured) if measured else None
    arm["broken"] = sum(row["broken"] for row in rows)
    arm["cpu_minutes"] = sum(row["cpu_seconds"] for row in rows) / 60
    return arm


def mean_of(values: Sequence[float]) -> float:
    """Return the interquartile mean of values."""
    return float(iqm(torch.tensor(values, dtype=torch.double)))


def in_time(row: Row, *, early: bool = True) -> bool:
    """Return whether the guard trips before the error has risen by 0.10 above its lowest value so far.

    With ``early=False`` it may also trip at the evaluation that shows the rise, where the order is unknown.
    """
    least = 1.0
    for error, drift in zip(row["errors"], row["drifts"], strict=False):
        least = min(least, error)
        risen = error > least + 0.10
        if drift > GUARD:
            return not (risen and early)
        if risen:
            return False
    return False


def count(arms: Mapping[str, Sequence[Row]], name: str, holds: Callable[[Row], bool]) -> str:
    """Return for how many runs of an arm a condition holds, as "held of all"."""
    rows = arms.get(name, ())
    return f"{sum(holds(row) for row in rows)} of {len(rows)}"


def ends_near(row: Row, bound: float) -> bool:
    """Return whether the last error differs from the first by at most ``bound``."""
    return abs(row["errors"][-1] - row["errors"][0]) <= bound


def keeps_good_turns(row: Row) -> bool:
    """Return whether the KL to the base on good turns is at most 0.01."""
    return row["good_turn_kl"] is not None and row["good_turn_kl"] <= 0.01


def checks(arms: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """Return what is counted seed by seed, and whether the controls are valid, each as "held of all"."""
    dense = sorted(row["errors"][-1] for row in arms.get("grpo_dense", ()))
    return {
        "wrong_hint ends within .05 of the base": count(arms, "wrong_hint", lambda row: ends_near(row, 0.05)),
        "null_hint ends within .02 of the base, KL <= .01": count(
            arms, "null_hint", lambda row: ends_near(row, 0.02) and keeps_good_turns(row)
        ),
        "sparse_distill ends at <= .02": count(arms, "sparse_distill", lambda row: row["errors"][-1] <= 0.02),
        "dense_distill ends at <= .02": count(arms, "dense_distill", lambda row: row["errors"][-1] <= 0.02),
        "grpo_sparse ends within .03 of the base": count(arms, "grpo_sparse", lambda row: ends_near(row, 0.03)),
        "grpo_dense's median final error (>= .10 was expected)": f"{dense[len(dense) // 2]:.3f}" if dense else "none",
        **guard_checks(arms),
    }


def guard_checks(arms: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """Return in how many runs of the arm ``live`` the guard trips in time."""
    return {
        "the guard trips in time in live": count(arms, "live", in_time),
        "... or at the evaluation that shows the rise": count(arms, "live", lambda row: in_time(row, early=False)),
    }
