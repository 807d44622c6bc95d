"""Off-policy evaluation: what a policy for choosing hints would have earned, from logs of another policy.

``w`` is the probability of the logged arm under the policy, over its logged propensity:

- IPS: mean(w r). Unbiased; noisy where w is large. Horvitz and Thompson 1952.
- SNIPS: sum(w r) / sum(w). Slightly biased, less noisy. Swaminathan and Joachims 2015, "The Self-Normalized Estimator
  for Counterfactual Learning".
- DR: mean(sum_a pi(a|x) q(x, a) + w (r - q(x, a))). Unbiased whatever the model q, which must come from other logs, and
  the less noisy the better it is. Dudik, Langford and Li 2011, "Doubly Robust Policy Evaluation and Learning".
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from etude.environments.hint_trials.hint_policy import Policy, always, uniform
from etude.intervals import Interval
from etude.research.hint_chooser.chooser import Chooser, Logged, fit


class LogError(ValueError):
    """Raised for a log that nothing can be learned from; the message says which row and why."""


@dataclass(frozen=True)
class Evaluation:
    """A policy's value by each estimator."""

    rows: int
    effective: float
    """(sum w)^2 / sum w^2, the number of rows that the estimate rests on."""
    ips: Interval
    snips: Interval
    dr: Interval
    gain: Interval | None = None
    """The DR value less that of the policy compared with, if one was given."""

    def row(self) -> dict[str, Any]:
        """Return plain values for a table."""
        shown = {name: _shown(getattr(self, name)) for name in ("ips", "snips", "dr")}
        return {"rows": self.rows, "effective": round(self.effective), **shown, "gain": self.gain and _shown(self.gain)}


@dataclass(frozen=True)
class Learned:
    """A chooser, and what it and its rivals would earn on the held-out logs."""

    chooser: Chooser
    best_single: str
    """The one arm that earns most on the training logs."""
    rows: dict[str, int]
    """Rows for ``train`` and ``held_out``."""
    policies: dict[str, Evaluation]
    """``learned`` (its best arm), ``explore`` (as it draws), ``random`` and ``best single``."""


def greedy(chooser: Chooser) -> Policy:
    """Return the policy that takes the best arm by the chooser's values."""
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
    """Fit a chooser on some of the groups and evaluate it on the others.

    The ``gain`` of ``random`` and ``best single`` is what the learned choice earns more than they do. Raises LogError
    when one side has no row.
    """
    check(logs)
    train = [log for log in logs if not _is_held_out(log.group, held_out, seed)]
    test = [log for log in logs if _is_held_out(log.group, held_out, seed)]
    if not train or not test:
        raise LogError("the logs have too few tasks to hold some out; measure the hints of more episodes")
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
    """Return the arm with the highest DR value when it is played wherever it can be. Raises LogError for no logs."""
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
    """Return the value of ``policy`` on logs from which neither it nor ``model`` was made.

    The 95 % intervals are percentile bootstraps over groups with ``draws`` draws. Raises LogError for logs that are
    empty or that lack an exact propensity.
    """
    check(logs)
    terms = _terms(logs, policy, model)
    others = _terms(logs, against, model) if against is not None else None
    groups: dict[str, list[int]] = {}
    for number, log in enumerate(logs):
        groups.setdefault(log.group or str(number), []).append(number)
    sums = [_sums(numbers, terms, others) for numbers in groups.values()]
    rng = random.Random(seed)
    drawn = [_estimates(_added(rng.choices(sums, k=len(sums)))) for _ in range(draws)]
    estimates = _estimates(_added(sums))
    ips, snips, dr, gain = (_percentiles(value, [draw[i] for draw in drawn]) for i, value in enumerate(estimates))
    weights = [term[0] for term in terms]
    squares = sum(weight * weight for weight in weights)
    effective = sum(weights) ** 2 / squares if squares else 0.0
    return Evaluation(len(logs), effective, ips, snips, dr, None if others is None else gain)


def check(logs: Sequence[Logged]) -> None:
    """Raise LogError for logs that are empty, lack an exact propensity, or took an arm that was not a candidate."""
    if not logs:
        raise LogError("there are no logged choices; play some with `etude hints causal --choose uniform`")
    for number, log in enumerate(logs, start=1):
        if not 0.0 < log.propensity <= 1.0:
            raise LogError(f"row {number} has the propensity {log.propensity}; it must be above 0 and at most 1")
        if log.arm not in log.arms:
            raise LogError(f"row {number} took the arm {log.arm!r}, which is not one of its arms")


def _terms(logs: Sequence[Logged], policy: Policy, model: Chooser) -> list[Term]:
    """Return w, w r, and the doubly robust term of every row."""
    terms = []
    for log in logs:
        chances = policy(log.context, log.arms)
        weight = chances.get(log.arm, 0.0) / log.propensity
        direct = sum(chance * model.value(log.context, arm) for arm, chance in chances.items() if chance)
        robust = direct + (weight * (log.reward - model.value(log.context, log.arm)) if weight else 0.0)
        terms.append((weight, weight * log.reward, robust))
    return terms


Term = tuple[float, float, float]
Sums = tuple[float, float, float, float, float]


def _sums(numbers: Sequence[int], terms: Sequence[Term], others: Sequence[Term] | None) -> Sums:
    """Return the sums of one group: rows, w, w r, DR terms, and DR terms of the policy compared with."""
    weights, gained, robust = (sum(terms[number][column] for number in numbers) for column in range(3))
    compared = 0.0 if others is None else sum(others[number][2] for number in numbers)
    return float(len(numbers)), weights, gained, robust, compared


def _added(sums: Sequence[Sums]) -> Sums:
    rows, weight, gained, robust, other = (sum(column) for column in zip(*sums, strict=True))
    return rows, weight, gained, robust, other


def _estimates(total: Sums) -> tuple[float, float, float, float]:
    """Return IPS, SNIPS, DR, and the gain in DR."""
    rows, weight, gained, robust, other = total
    return gained / rows, gained / weight if weight else 0.0, robust / rows, (robust - other) / rows


def _is_held_out(group: str, share: float, seed: int) -> bool:
    """Return whether a group is held out, with all continuations of its error turns."""
    digest = hashlib.sha256(f"{seed} {group}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def _shown(interval: Interval) -> str:
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _percentiles(value: float, drawn: Sequence[float]) -> Interval:
    ordered = sorted(drawn)
    last = len(ordered) - 1
    return Interval(value, ordered[math.floor(0.025 * last)], ordered[math.ceil(0.975 * last)])
