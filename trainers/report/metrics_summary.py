"""Summaries of a run's metrics: a progress line for each step, and the warnings that a run ends with.

The metrics of a step are a ``Row``, one line of ``metrics.jsonl``. The functions at the end of this module read rows;
the report uses them too.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from ..rollouts.rollout import Rollout

Row = Mapping[str, Any]
"""Metrics of one step by name, as a line of ``metrics.jsonl`` holds them."""
LEFT_OUT = "distillation/left_out/"
"""Prefix of the metrics that count error turns without a site, by reason."""
GRADIENT = "gradient/"
"""Prefix of the metrics with the norm of each channel's own gradient."""
MOE = "the model is a mixture of experts, trained without router replay"
_GROUPS = ("groups/flat", "groups/unsolved")
_PACE_STEPS = 20
"""Last steps from which the remaining time is estimated."""
_MIN_HELPED = 0.1
_MIN_SITES = 20
_MAX_INVALID = 0.1
_MAX_GRADIENT_RATIO = 5.0
"""A gradient that is this many times RLVR's leaves little of RLVR, because the optimizer sees their sum."""


class StepLines:
    """Progress lines of a run: how it does, how fast it is, and how long it will still take."""

    def __init__(self, prompts: int) -> None:
        """``prompts``: groups of one step."""
        self._prompts = prompts
        self._seconds: deque[float] = deque(maxlen=_PACE_STEPS)
        self._rows: list[Row] = []

    def line(self, row: Row, steps: int) -> str:
        """Return the line of the step in ``row``, out of ``steps``. Steps must be given in order."""
        self._rows.append({name: row[name] for name in _GROUPS if name in row})
        parts = [f"{name} {text}" for name, text in _step_values(row)]
        groups, _, unsolved = group_counts(self._rows, self._prompts)
        if unsolved > groups / 2:
            parts.append(f"unsolved groups {unsolved} of {groups}")
        if (seconds := number(row.get("seconds/step"))) is not None:
            self._seconds.append(seconds)
            pace = sum(self._seconds) / len(self._seconds)
            parts.append(f"{seconds:.3g} s a step, {duration(pace * (steps - row['step']))} left")
        return f"step {row['step']} of {steps}: {', '.join(parts)}"


def _step_values(row: Row) -> Iterator[tuple[str, str]]:
    for name in ("reward", "loss"):
        if (value := row.get(name)) is not None:
            yield name, f"{value:.3g}"
    for name, metric in (("solved", "episodes/solved"), ("error turns", "episodes/error_turn_rate")):
        if (share := number(row.get(metric))) is not None:
            yield name, f"{share:.0%}"
    if (divergence := per_token(row, "distillation/divergence")) is not None:
        yield "divergence", f"{divergence:.3g}"


def used_channels(recipe: Mapping[str, Any]) -> list[str]:
    """Return the channels of a resolved recipe that ever have a weight; stage "sft" has none."""
    if recipe["stage"] == "sft":
        return []
    return [name for name, weight in recipe["channels"].items() if weight["start"] > 0 or weight["end"] > 0]


def run_warnings(rows: Sequence[Row], recipe: Mapping[str, Any], *, moe: bool = False) -> list[str]:
    """Return what a user should know about a run of the resolved ``recipe``, given as plain data."""
    warnings, channels, group = [], used_channels(recipe), recipe["train"]["group"]
    groups, flat, unsolved = group_counts(rows, recipe["train"]["prompts"])
    if unsolved > groups / 2:
        warnings.append(f"pass@{group} was 0 on {unsolved} of {groups} groups; use easier tasks, or a larger group")
    elif flat > groups / 2 and "rlvr" in channels:
        warnings.append(
            f"{flat} of {groups} groups had no variance and taught RLVR nothing; their tasks are too easy or too hard"
        )
    if "distillation" in channels:
        warnings += _site_warnings(rows)
    given_up = total(rows, "groups/given_up")
    if given_up > groups / 2:
        warnings.append(f"{given_up:.0f} of {groups} groups had no variance after all rounds of dynamic sampling")
    if recipe["safety"]["kl_to_base"] and rows and not any("kl_good_turns" in row for row in rows):
        warnings.append("safety.kl_to_base was never measured, because every turn erred")
    warnings += _gradient_warnings(rows)
    invalid = 1 - mean(rows, "episodes/valid", 1.0)
    if invalid > _MAX_INVALID:
        warnings.append(f"{invalid:.0%} of the episodes were not valid; the log of this command has each cause")
    if mean(rows, "episodes/truncated", 0.0) > 0.5:
        warnings.append("most episodes were cut off; raise generation.max_ids or generation.max_turn_ids")
    return [*warnings, MOE] if moe else warnings


def _site_warnings(rows: Sequence[Row]) -> list[str]:
    if not any("distillation/chosen" in row for row in rows):
        return []
    if not total(rows, "distillation/chosen"):
        counts = left_out_counts(rows)
        most = f"; most errors were left out for the reason: {max(counts, key=counts.__getitem__)}" if counts else ""
        return [f"distillation had no site{most}"]
    sites, helped = total(rows, "distillation/sites"), total(rows, "distillation/sites_helped")
    if sites >= _MIN_SITES and helped < _MIN_HELPED * sites:
        return [f"hints helped at {helped / sites:.0%} of the sites; this model hardly uses them"]
    return []


def _gradient_warnings(rows: Sequence[Row]) -> Iterator[str]:
    for name in ("distillation", "replay"):
        pairs = [[number(row.get(GRADIENT + channel)) for channel in (name, "rlvr")] for row in rows]
        ratios = [norm / rlvr for norm, rlvr in pairs if norm and rlvr]
        if ratios and median(ratios) > _MAX_GRADIENT_RATIO:
            yield (
                f"the gradient of {name} is {median(ratios):.0f} times RLVR's, so RLVR hardly counts; "
                f"lower channels.{name}"
            )


def episode_metrics(
    rollouts: Sequence[Rollout], sum_counts: Callable[[Sequence[int]], Sequence[int]] = list
) -> dict[str, float]:
    """Return the metrics of a step's episodes; all but the first are of valid episodes only.

    ``sum_counts`` adds the counts of other ranks to those of this one.
    """
    valid = [rollout for rollout in rollouts if rollout.reward.valid]
    counts = [
        len(rollouts),
        len(valid),
        sum(rollout.reward.value >= 1 for rollout in valid),
        sum(len(rollout.turns) for rollout in valid),
        sum(len(rollout.erring_turns) for rollout in valid),
        sum(rollout.truncated for rollout in valid),
        sum(any(finding.severity == "confirmed" for finding in rollout.findings) for rollout in valid),
        sum(any(finding.severity != "info" for finding in rollout.findings) for rollout in valid),
    ]
    episodes, number_valid, solved, turns, erred, truncated, hacked, suspect = sum_counts(counts)
    return {
        "episodes/valid": number_valid / max(episodes, 1),
        "episodes/solved": solved / max(number_valid, 1),
        "episodes/error_turn_rate": erred / max(turns, 1),
        "episodes/truncated": truncated / max(number_valid, 1),
        "episodes/hack_rate": hacked / max(number_valid, 1),
        "episodes/suspect_rate": suspect / max(number_valid, 1),
    }


# --- reading rows ------------------------------------------------------------------------------------------------


def group_counts(rows: Sequence[Row], prompts: int) -> tuple[int, int, int]:
    """Return how many groups were played, how many of them had no variance, and how many had no solved episode."""
    played = [row for row in rows if "groups/flat" in row]
    flat, unsolved = (total(played, name) * prompts for name in _GROUPS)
    return len(played) * prompts, round(flat), round(unsolved)


def left_out_counts(rows: Sequence[Row]) -> Counter[str]:
    """Return how many error turns had no site, by reason."""
    counts: Counter[str] = Counter()
    for row in rows:
        for name, value in row.items():
            if name.startswith(LEFT_OUT):
                counts[name.removeprefix(LEFT_OUT).replace("_", " ")] += round(number(value) or 0)
    return counts


def per_token(row: Row, metric: str) -> float | None:
    """Return a metric that is a sum over site tokens, divided by their number."""
    tokens, value = number(row.get("distillation/tokens")), number(row.get(metric))
    return value / tokens if tokens and value is not None else None


def number(value: Any) -> float | None:
    """Return the value if it is a finite number, else None."""
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if numeric and math.isfinite(value) else None


def numbers(rows: Sequence[Row], metric: str) -> list[float]:
    """Return the finite values of a metric, in the order of the rows."""
    return [value for row in rows if (value := number(row.get(metric))) is not None]


def total(rows: Sequence[Row], metric: str) -> float:
    """Return the sum of a metric over the rows that have it."""
    return sum(numbers(rows, metric))


def mean(rows: Sequence[Row], metric: str, default: float) -> float:
    """Return the mean of a metric over the rows that have it, or the default."""
    values = numbers(rows, metric)
    return sum(values) / len(values) if values else default


def duration(seconds: float) -> str:
    """Return a duration for people: 4.2 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
