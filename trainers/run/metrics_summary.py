"""What a person is told while a run goes on: a line for each step, and what should be known about the run."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from ..rollouts.rollout import Rollout

Row = Mapping[str, Any]
"""The metrics of one step, as a line of ``metrics.jsonl`` holds them."""
LEFT_OUT = "distillation/left_out/"
MOE = "the model is a mixture of experts, trained without router replay"
GRADIENT = "gradient/"
"""And a channel's name: the norm of its own gradient, where it was measured."""
_GROUPS = ("groups/flat", "groups/unsolved")
_PACE = 20
"""Steps that the time left is told from."""
_FEW_HELPED = 0.1
_ENOUGH_SITES = 20
_MANY_INVALID = 0.1
_MUCH = 5.0
"""Times: a gradient that much larger than RLVR's leaves little of it, since the optimizer sees their sum."""


class Steps:
    """One line a step: how the run does, how fast it is, and how long it will take. ``prompts``: groups of a step."""

    def __init__(self, prompts: int) -> None:
        self._prompts = prompts
        self._seconds: deque[float] = deque(maxlen=_PACE)
        self._rows: list[Row] = []

    def line(self, row: Row, steps: int) -> str:
        """Of the step that ``row`` is of, out of ``steps``."""
        self._rows.append({name: row[name] for name in _GROUPS if name in row})
        said = [f"{name} {text}" for name, text in _said(row)]
        groups, _, unsolved = groups_of(self._rows, self._prompts)
        if unsolved > groups / 2:
            said.append(f"unsolved groups {unsolved} of {groups}")
        if (seconds := number(row.get("seconds/step"))) is not None:
            self._seconds.append(seconds)
            pace = sum(self._seconds) / len(self._seconds)
            said.append(f"{seconds:.3g} s a step, {duration(pace * (steps - row['step']))} left")
        return f"step {row['step']} of {steps}: {', '.join(said)}"


def _said(row: Row) -> list[tuple[str, str]]:
    found = []
    for name, metric in (("reward", "reward"), ("loss", "loss")):
        if (value := row.get(metric)) is not None:
            found.append((name, f"{value:.3g}"))
    for name, metric in (("solved", "episodes/solved"), ("error turns", "episodes/error_turn_rate")):
        if (share := number(row.get(metric))) is not None:
            found.append((name, f"{share:.0%}"))
    if (divergence := a_token(row, "distillation/divergence")) is not None:
        found.append(("divergence", f"{divergence:.3g}"))
    return found


def used_channels(recipe: Mapping[str, Any]) -> list[str]:
    """Those that ever have a weight; ``stage = "sft"`` has none."""
    if recipe["stage"] == "sft":
        return []
    return [name for name, weight in recipe["channels"].items() if weight["start"] > 0 or weight["end"] > 0]


def warnings_of(rows: Sequence[Row], recipe: Mapping[str, Any], *, moe: bool = False) -> list[str]:
    """What a person should know about a run of the resolved ``recipe``, as plain data."""
    found, used, group = [], used_channels(recipe), recipe["train"]["group"]
    groups, flat, unsolved = groups_of(rows, recipe["train"]["prompts"])
    if unsolved > groups / 2:
        found.append(
            f"pass@{group} was 0 on {unsolved} of {groups} groups: easier tasks, or a larger group, would teach more"
        )
    elif flat > groups / 2 and "rlvr" in used:
        found.append(
            f"{flat} of {groups} groups had no variance, and taught RLVR nothing: their tasks are too easy or too hard"
        )
    if "distillation" in used:
        found += _of_sites(rows)
    given_up = total(rows, "groups/given_up")
    if given_up > groups / 2:
        found.append(f"{given_up:.0f} of {groups} groups had no variance after all rounds of dynamic sampling")
    if recipe["safety"]["kl_to_base"] and rows and not any("kl_good_turns" in row for row in rows):
        found.append("safety.kl_to_base was never measured: there was no turn that did not err")
    found += _of_gradients(rows)
    invalid = 1 - mean(rows, "episodes/valid", 1.0)
    if invalid > _MANY_INVALID:
        found.append(f"{invalid:.0%} of the episodes were not valid: this command's log tells why, one by one")
    if mean(rows, "episodes/truncated", 0.0) > 0.5:
        found.append("most episodes were cut off: raise generation.max_ids or generation.max_turn_ids")
    if moe:
        found.append(MOE)
    return found


def _of_sites(rows: Sequence[Row]) -> list[str]:
    if not any("distillation/chosen" in row for row in rows):
        return []
    if not total(rows, "distillation/chosen"):
        left = left_out(rows)
        most = f"; most were left out: {max(left, key=lambda name: left[name])}" if left else ""
        return [f"distillation had no site to learn at{most}"]
    sites, helped = total(rows, "distillation/sites"), total(rows, "distillation/sites_helped")
    if sites >= _ENOUGH_SITES and helped < _FEW_HELPED * sites:
        return [f"hints helped at {helped / sites:.0%} of the sites: this model hardly reads them"]
    return []


def _of_gradients(rows: Sequence[Row]) -> list[str]:
    found = []
    for name in ("distillation", "replay"):
        pairs = [[number(row.get(GRADIENT + channel)) for channel in (name, "rlvr")] for row in rows]
        ratios = [own / other for own, other in pairs if own and other]
        if ratios and median(ratios) > _MUCH:
            times = f"{median(ratios):.0f} times"
            found.append(
                f"the gradient of {name} is {times} RLVR's, which hardly counts beside it: lower channels.{name}"
            )
    return found


def of_episodes(played: Sequence[Rollout], summed: Callable[[Sequence[int]], Sequence[int]] = list) -> dict[str, float]:
    """Metrics of a step's episodes; all but the first are of the valid ones. ``summed`` adds counts of other ranks."""
    valid = [rollout for rollout in played if rollout.reward.valid]
    counts = [
        len(played),
        len(valid),
        sum(rollout.reward.value >= 1 for rollout in valid),
        sum(len(rollout.turns) for rollout in valid),
        sum(len({error.turn for error in rollout.error_turns}) for rollout in valid),
        sum(rollout.truncated for rollout in valid),
        sum(any(each.severity == "confirmed" for each in rollout.findings) for rollout in valid),
    ]
    episodes, number, solved, turns, erred, truncated, hacked = summed(counts)
    return {
        "episodes/valid": number / max(episodes, 1),
        "episodes/solved": solved / max(number, 1),
        "episodes/error_turn_rate": erred / max(turns, 1),
        "episodes/truncated": truncated / max(number, 1),
        "episodes/hack_rate": hacked / max(number, 1),
    }


def groups_of(rows: Sequence[Row], prompts: int) -> tuple[int, int, int]:
    """Groups that were played, of them those without variance, and those of which no episode solved its task."""
    played = [row for row in rows if "groups/flat" in row]
    flat, unsolved = (total(played, f"groups/{name}") * prompts for name in ("flat", "unsolved"))
    return len(played) * prompts, round(flat), round(unsolved)


def left_out(rows: Sequence[Row]) -> Counter[str]:
    """How many error turns were no site, by reason."""
    found: Counter[str] = Counter()
    for row in rows:
        for name, value in row.items():
            if name.startswith(LEFT_OUT):
                found[name.removeprefix(LEFT_OUT).replace("_", " ")] += round(number(value) or 0)
    return found


def a_token(row: Row, metric: str) -> float | None:
    """A sum over site tokens, divided by them."""
    tokens, value = number(row.get("distillation/tokens")), number(row.get(metric))
    return value / tokens if tokens and value is not None else None


def number(value: Any) -> float | None:
    """A finite number, or None."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and math.isfinite(value) else None


def total(rows: Sequence[Row], metric: str) -> float:
    """Over the rows that have it."""
    return sum(value for row in rows if (value := number(row.get(metric))) is not None)


def mean(rows: Sequence[Row], metric: str, otherwise: float) -> float:
    """Over the rows that have it."""
    values = [value for row in rows if (value := number(row.get(metric))) is not None]
    return sum(values) / len(values) if values else otherwise


def duration(seconds: float) -> str:
    """As people say it: 4.2 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
