"""From the rows of the result file to measures, intervals, and the verdicts of PREREGISTERED.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from etude.research.error_turns.small_world.language import stream
from etude.research.error_turns.small_world.training import GUARD

TUNING = 1000
"""Seeds from here on choose learning rates and are in no result."""
THRESHOLD, RESAMPLES = 0.10, 20_000

Row = Mapping[str, Any]
Measure = Callable[[Row], float]


def area(row: Row) -> float:
    """Return the mean of the error over the run (trapezoids)."""
    if len(row["errors"]) == 1:
        return float(row["errors"][0])
    episodes, errors = torch.tensor(row["episodes"]).double(), torch.tensor(row["errors"]).double()
    return float(torch.trapezoid(errors, episodes) / (episodes[-1] - episodes[0]))


def reached(row: Row, threshold: float = THRESHOLD) -> int | None:
    """Return the index of the first evaluation at or under the threshold."""
    return next((number for number, error in enumerate(row["errors"]) if error <= threshold), None)


def until(what: str, threshold: float = THRESHOLD) -> Measure:
    def measure(row: Row) -> float:
        at = reached(row, threshold)
        return float(row[what][-1 if at is None else at])

    return measure


MEASURES: dict[str, Measure] = {
    "final": lambda row: float(row["errors"][-1]),
    "area": area,
    "episodes": until("episodes"),
    "tokens": until("tokens"),
}


def iqm(values: Tensor) -> Tensor:
    """The mean without the lowest and the highest quarter (of five: without one at each end), of the last dimension."""
    cut = values.shape[-1] // 4
    return values.sort(-1).values[..., cut : values.shape[-1] - cut].mean(-1)


def resampled(values: Sequence[float], name: str) -> Tensor:
    """Interquartile means of resamples of the seeds, [20 000]."""
    given = torch.tensor(values, dtype=torch.double)
    return iqm(given[torch.randint(len(values), (RESAMPLES, len(values)), generator=stream("bootstrap", name))])


def interval(samples: Tensor) -> tuple[float, float]:
    low, high = samples.quantile(torch.tensor([0.025, 0.975], dtype=torch.double))
    return float(low), float(high)


@dataclass(frozen=True)
class Contrast:
    """``left`` against ``right``, an arm or a number. ``kind``: below, above, within (differences), or ratio."""

    name: str
    left: str
    right: str | float
    measure: str
    kind: str
    bound: float


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
    """Support: the whole interval is on the registered side of the bound; refuted: the whole is on the other."""
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
    """None while an arm has no counted run."""
    names = [side for side in (contrast.left, contrast.right) if isinstance(side, str)]
    if not all(arms.get(name) for name in names):
        return None
    measure = measures[contrast.measure]
    left = [measure(row) for row in arms[contrast.left]]
    right = [measure(row) for row in arms[contrast.right]] if isinstance(contrast.right, str) else [contrast.right]
    one, other = resampled(left, contrast.name + "left"), resampled(right, contrast.name + "right")
    mine, theirs = (float(iqm(torch.tensor(values, dtype=torch.double))) for values in (left, right))
    ratio = contrast.kind == "ratio"
    low, high = interval(one / other if ratio else one - other)
    value = mine / theirs if ratio else mine - theirs
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
    """One arm: each measure as (interquartile mean, low, high), how many seeds were censored, every seed's value.

    ``curve``: [episodes, interquartile mean of the error, that of the forward tokens] at each evaluation.
    """
    found: dict[str, Any] = {"seeds": [row["seed"] for row in rows], "rate": rows[0]["rate"]}
    for name, measure in measures.items():
        values = [measure(row) for row in rows]
        found[name] = (mean_of(values), *interval(resampled(values, name)))
        found[f"{name}_seeds"] = values
    found["censored"] = sum(reached(row) is None for row in rows)
    found["curve"] = [
        [episodes, *(round(mean_of([row[name][at] for row in rows]), 5) for name in ("errors", "tokens"))]
        for at, episodes in enumerate(rows[0]["episodes"][: min(len(row["errors"]) for row in rows)])
    ]
    for name in ("good_turn_kl", "follows"):
        known = [row[name] for row in rows if row[name] is not None]
        found[name] = mean_of(known) if known else None
    found["broken"] = sum(row["broken"] for row in rows)
    found["cpu_minutes"] = sum(row["cpu_seconds"] for row in rows) / 60
    return found


def mean_of(values: Sequence[float]) -> float:
    return float(iqm(torch.tensor(values, dtype=torch.double)))


def in_time(row: Row, *, early: bool = True) -> bool:
    """Whether the guard trips before the error has risen .10 above its least so far; unless ``early``, at that very
    evaluation too, which tells no order."""
    least = 1.0
    for error, drift in zip(row["errors"], row["drifts"], strict=False):
        least = min(least, error)
        risen = error > least + 0.10
        if drift > GUARD:
            return not (risen and early)
        if risen:
            return False
    return False


def checks(arms: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """Return what is counted seed by seed, and whether the controls are valid: "held of all"."""

    def count(name: str, holds: Callable[[Row], bool]) -> str:
        rows = arms.get(name, ())
        return f"{sum(holds(row) for row in rows)} of {len(rows)}"

    def near(row: Row, bound: float) -> bool:
        return abs(row["errors"][-1] - row["errors"][0]) <= bound

    dense = sorted(row["errors"][-1] for row in arms.get("grpo_dense", ()))
    return {
        "wrong_hint ends within .05 of the base": count("wrong_hint", lambda row: near(row, 0.05)),
        "null_hint ends within .02 of the base, KL <= .01": count(
            "null_hint", lambda row: near(row, 0.02) and row["good_turn_kl"] is not None and row["good_turn_kl"] <= 0.01
        ),
        "sparse_distill ends at <= .02": count("sparse_distill", lambda row: row["errors"][-1] <= 0.02),
        "dense_distill ends at <= .02": count("dense_distill", lambda row: row["errors"][-1] <= 0.02),
        "grpo_sparse ends within .03 of the base": count("grpo_sparse", lambda row: near(row, 0.03)),
        "grpo_dense's median final error (>= .10 was expected)": f"{dense[len(dense) // 2]:.3f}" if dense else "none",
        "the guard trips in time in live": count("live", in_time),
        "... or at the evaluation that shows the rise": count("live", lambda row: in_time(row, early=False)),
    }
