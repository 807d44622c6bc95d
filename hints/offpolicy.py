"""What a way to choose hints would have earned, from logs of another way.

``w`` is the probability of the logged arm under the policy, over its logged propensity:

- IPS: mean(w r). Unbiased; noisy where w is large. Horvitz and Thompson 1952.
- SNIPS: sum(w r) / sum(w). Slightly biased, less noisy. Swaminathan and Joachims 2015, "The Self-Normalized Estimator
  for Counterfactual Learning".
- DR: mean(sum_a pi(a|x) q(x, a) + w (r - q(x, a))). Unbiased whatever the model q, which must come from other logs, and
  the less noisy the better it is. Dudik, Langford and Li 2011, "Doubly Robust Policy Evaluation and Learning".
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import RunError
from .chooser import Chooser, Context, Logged, fit
from .intervals import Interval

Policy = Callable[[Context, Sequence[str]], Mapping[str, float]]
"""A context and the arms there are, to the probability of each arm; one that is absent has none."""


class LogError(ValueError):
    """A log that nothing can be learned from; the message says which row and why."""


@dataclass(frozen=True)
class Evaluation:
    """A policy's value by each estimator. ``effective`` is (sum w)^2 / sum w^2: of how many rows the logs tell.

    ``gain`` is the DR value less that of the policy compared with, if one was given.
    """

    rows: int
    effective: float
    ips: Interval
    snips: Interval
    dr: Interval
    gain: Interval | None = None

    def row(self) -> dict[str, Any]:
        """Plain values for a table."""
        shown = {name: _shown(getattr(self, name)) for name in ("ips", "snips", "dr")}
        return {"rows": self.rows, "effective": round(self.effective), **shown, "gain": self.gain and _shown(self.gain)}


@dataclass(frozen=True)
class Learned:
    """A chooser and what it and others would earn on the held-out logs; ``gain`` is over the learned one's rivals.

    ``policies``: ``learned`` (its best arm), ``explore`` (as it draws), ``random`` and ``best single``.
    """

    chooser: Chooser
    best_single: str
    rows: dict[str, int]
    policies: dict[str, Evaluation]


def uniform(context: Context, arms: Sequence[str]) -> dict[str, float]:
    """Any arm."""
    return dict.fromkeys(arms, 1.0 / len(arms))


def always(arm: str) -> Policy:
    """One arm wherever there is a choice of it, else the first one."""
    return lambda context, arms: {arm if arm in arms else arms[0]: 1.0}


def greedy(chooser: Chooser) -> Policy:
    """The best arm that the chooser knows of."""
    return lambda context, arms: {chooser.best(context, arms): 1.0}


def learn(
    logs: Sequence[Logged],
    *,
    held_out: float = 0.5,
    epsilon: float = 0.1,
    temperature: float = 0.1,
    seed: int = 0,
    draws: int = 1000,
) -> Learned:
    """Fit a chooser on some of the groups, evaluate it on the others. Raises LogError when either has no row.

    ``random`` and ``best single`` (which the training logs name) have as their ``gain`` what the learned choice earns
    more than they do.
    """
    check(logs)
    train = [log for log in logs if not _is_held_out(log.group, held_out, seed)]
    test = [log for log in logs if _is_held_out(log.group, held_out, seed)]
    if not train or not test:
        raise LogError("the logs are of too few tasks to hold some out: measure the hints of more episodes")
    chooser = fit(train, epsilon=epsilon, temperature=temperature)
    single = best_single(train, chooser)
    chosen = greedy(chooser)

    def value(policy: Policy, other: Policy | None = None) -> Evaluation:
        return evaluate(test, policy, chooser, against=other, draws=draws, seed=seed)

    policies = {"learned": value(chosen), "explore": value(chooser.probabilities)}
    for name, rival in (("random", uniform), ("best single", always(single))):
        gain = value(chosen, rival).gain
        policies[name] = replace(value(rival), gain=gain)
    return Learned(chooser, single, {"train": len(train), "held_out": len(test)}, policies)


def best_single(logs: Sequence[Logged], model: Chooser) -> str:
    """The arm that is worth most when it is played wherever it can be, by DR. Raises LogError for no logs."""
    check(logs)
    arms = sorted({arm for log in logs for arm in log.arms})
    return max(arms, key=lambda arm: sum(row[2] for row in _terms(logs, always(arm), model)))


def evaluate(
    logs: Sequence[Logged],
    policy: Policy,
    model: Chooser,
    *,
    against: Policy | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """The value of ``policy`` on logs that neither it nor ``model`` was made from.

    95 % intervals by the percentile bootstrap over groups, ``draws`` times. Raises LogError for logs that are empty or
    that lack an exact propensity.
    """
    check(logs)
    terms = _terms(logs, policy, model)
    others = _terms(logs, against, model) if against is not None else None
    groups: dict[str, list[int]] = {}
    for number, log in enumerate(logs):
        groups.setdefault(log.group or str(number), []).append(number)
    sums = [_sums(numbers, terms, others) for numbers in groups.values()]
    chance = random.Random(seed)
    drawn = [_estimates(_added(chance.choices(sums, k=len(sums)))) for _ in range(draws)]
    here = _estimates(_added(sums))
    ips, snips, dr, gain = (_percentiles(value, [each[i] for each in drawn]) for i, value in enumerate(here))
    weights = [term[0] for term in terms]
    squares = sum(weight * weight for weight in weights)
    effective = sum(weights) ** 2 / squares if squares else 0.0
    return Evaluation(len(logs), effective, ips, snips, dr, None if others is None else gain)


def check(logs: Sequence[Logged]) -> None:
    """Raises LogError."""
    if not logs:
        raise LogError("there are no logged choices: play some with `etude hints causal --choose uniform`")
    for number, log in enumerate(logs, start=1):
        if not 0.0 < log.propensity <= 1.0:
            raise LogError(f"row {number} has the propensity {log.propensity}: it must be above 0 and at most 1")
        if log.arm not in log.arms:
            raise LogError(f"row {number} took the arm {log.arm!r}, which is none of its arms")


def _terms(logs: Sequence[Logged], policy: Policy, model: Chooser) -> list[Term]:
    """w, w r, and the doubly robust term of every row."""
    found = []
    for log in logs:
        chances = policy(log.context, log.arms)
        weight = chances.get(log.arm, 0.0) / log.propensity
        direct = sum(chance * model.value(log.context, arm) for arm, chance in chances.items() if chance)
        robust = direct + (weight * (log.reward - model.value(log.context, log.arm)) if weight else 0.0)
        found.append((weight, weight * log.reward, robust))
    return found


Term = tuple[float, float, float]
Sums = tuple[float, float, float, float, float]


def _sums(numbers: Sequence[int], terms: Sequence[Term], others: Sequence[Term] | None) -> Sums:
    """Of one group: rows, w, w r, DR terms, and DR terms of the policy compared with."""
    mine = [terms[number] for number in numbers]
    theirs = 0.0 if others is None else sum(others[number][2] for number in numbers)
    return (float(len(mine)), sum(t[0] for t in mine), sum(t[1] for t in mine), sum(t[2] for t in mine), theirs)


def _added(sums: Sequence[Sums]) -> Sums:
    rows, weight, gained, robust, other = (sum(column) for column in zip(*sums, strict=True))
    return rows, weight, gained, robust, other


def _estimates(total: Sums) -> tuple[float, float, float, float]:
    """IPS, SNIPS, DR, and the gain in DR."""
    rows, weight, gained, robust, other = total
    return gained / rows, gained / weight if weight else 0.0, robust / rows, (robust - other) / rows


def _is_held_out(group: str, share: float, seed: int) -> bool:
    """By group, so that nothing is learned from the continuations of an error turn that is held out."""
    digest = hashlib.sha256(f"{seed} {group}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def _shown(interval: Interval) -> str:
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _percentiles(value: float, drawn: Sequence[float]) -> Interval:
    ordered = sorted(drawn)
    last = len(ordered) - 1
    return Interval(value, ordered[math.floor(0.025 * last)], ordered[math.ceil(0.975 * last)])


def read_choices(runs: Sequence[Path]) -> list[Logged]:
    """Return the choices between hints in the trials of several measurements (``trials.jsonl``). Raises RunError.

    A hint that was certain to be given, as the only or the first one, was not chosen. Trials of one task are one group.
    """
    choices: list[Logged] = []
    for run in runs:
        file = run / "trials.jsonl" if run.is_dir() else run
        if not file.is_file():
            raise RunError(f"there is no {file}; make one with `etude hints causal RUN --choose uniform --out {run}`")
        last: dict[tuple[str, int], Logged] = {}
        # What comes after the last end of a line is still being written.
        for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], start=1):
            try:
                row = json.loads(line)
                if row["valid"] and row["propensity"] < 1.0:
                    last[row["place"], row["number"]] = Logged(
                        row["context"],
                        tuple(row["arms"]),
                        row["arm"],
                        row["propensity"],
                        float(row["success"]),
                        row["task_id"],
                    )
            except (ValueError, KeyError, TypeError):
                raise RunError(f"{file}:{number} is not a trial; remove the line") from None
        choices += last.values()
    return choices
