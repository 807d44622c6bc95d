"""The learned chooser: which of several hints for an error turn, by what was measured at other error turns like it.

A contextual bandit. The value of an arm (a template's name, or the id of a candidate text) in a context (kind of error,
tool, attempt) is a ridge regression on the features of the context, alone and in pairs. An unseen feature adds nothing,
so a new tool falls back to its kind of error. An arm's own worth is hardly regularised; how much a context may add to
it is found by cross-validation, so that one arm is best everywhere when all contexts are alike. The chooser draws by
epsilon-softmax, whose probabilities are known exactly; ``off_policy`` needs them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from pydantic import Field

from etude.environments.hint_trials.hint_policy import Context, by_arm, context_of
from etude.hints.write.hint_choice import HintChoice
from etude.models import ErrorTurn, Hint, Record

RIDGES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
_OWN_RIDGE = 3.0
_SWEEPS, _CLOSE = 100, 1e-6


@dataclass(frozen=True)
class Logged:
    """One logged choice."""

    context: Context
    arms: tuple[str, ...]
    """The candidates."""
    arm: str
    """The candidate that was taken."""
    propensity: float
    """The probability with which it was taken."""
    reward: float
    group: str = ""
    """Rows of one group (the continuations of one task) are not independent of each other."""


class Chooser(Record):
    """A learned policy: with probability ``epsilon`` any arm, else one drawn by softmax(value / ``temperature``)."""

    schema_version: int = 1
    """Version of this record."""
    mean: float = 0.0
    """The mean reward of the logs."""
    weights: dict[str, dict[str, float]] = Field(default_factory=dict)
    """What each feature adds to the mean, by arm."""
    epsilon: float = Field(default=0.1, ge=0, le=1)
    """The share of uniform draws."""
    temperature: float = Field(default=0.1, gt=0)
    """How evenly the other draws are spread."""

    @property
    def name(self) -> str:
        """Return the name under which a log of trials records this policy."""
        return "chooser " + hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    def __call__(self, context: Context, arms: Sequence[str]) -> dict[str, float]:
        """Return the probabilities of the arms, as a policy for ``measure_hints``."""
        return self.probabilities(context, arms)

    def value(self, context: Context, arm: str) -> float:
        """Return the expected reward; for an arm that was never tried it is the mean of all arms."""
        weights = self.weights.get(arm, {})
        return self.mean + sum(weights.get(feature, 0.0) for feature in features(context))

    def probabilities(self, context: Context, arms: Sequence[str]) -> dict[str, float]:
        """Return the probability of each arm; they add up to 1."""
        values = [self.value(context, arm) for arm in arms]
        top = max(values)
        odds = [math.exp((value - top) / self.temperature) for value in values]
        base = self.epsilon / len(arms)
        return {arm: base + (1 - self.epsilon) * odd / sum(odds) for arm, odd in zip(arms, odds, strict=True)}

    def best(self, context: Context, arms: Sequence[str]) -> str:
        """Return the arm of the highest value; of equal ones, the first."""
        return max(arms, key=lambda arm: self.value(context, arm))


def fit(
    logs: Sequence[Logged], *, ridge: float | None = None, epsilon: float = 0.1, temperature: float = 0.1
) -> Chooser:
    """Return the chooser that is learned from logs; the same logs give the same chooser.

    ``ridge`` counts like that many observations in which a context adds nothing, for every weight; ``None`` takes the
    one of RIDGES that predicts best. How often an arm was logged does not change its worth, so propensities are unused.
    """
    ridge = best_ridge(logs) if ridge is None else ridge
    cells: dict[str, dict[tuple[str, ...], list[float]]] = {}
    total, count = 0.0, 0
    for log in logs:
        cell = cells.setdefault(log.arm, {}).setdefault(tuple(features(log.context)), [0.0, 0.0])
        cell[0] += log.reward
        cell[1] += 1
        total, count = total + log.reward, count + 1
    mean = total / count if count else 0.0
    weights = {arm: _ridge(by_features, mean, ridge) for arm, by_features in sorted(cells.items())}
    return Chooser(mean=mean, weights=weights, epsilon=epsilon, temperature=temperature)


def best_ridge(logs: Sequence[Logged]) -> float:
    """Return the one of RIDGES with the least squared error on groups that it was not fitted to, in two halves."""
    halves: tuple[list[Logged], list[Logged]] = ([], [])
    for number, log in enumerate(logs):
        halves[hashlib.sha256((log.group or str(number)).encode()).digest()[0] % 2].append(log)
    if not all(halves):
        return RIDGES[-1]
    errors = dict.fromkeys(RIDGES, 0.0)
    for ridge in RIDGES:
        for train, test in (halves, halves[::-1]):
            model = fit(train, ridge=ridge)
            errors[ridge] += sum((log.reward - model.value(log.context, log.arm)) ** 2 for log in test)
    return min(errors, key=errors.__getitem__)


def features(context: Context) -> list[str]:
    """Return the features of a context: '' for an arm's own worth, each value, and each pair of values."""
    values = [f"{name}={value}" for name, value in sorted(context.items())]
    return ["", *values, *(f"{one}&{other}" for one, other in combinations(values, 2))]


def learned(chooser: Chooser, error: ErrorTurn, errors: Sequence[ErrorTurn]) -> list[Hint]:
    """Return the hints of an error, the chosen one first and marked ``learned``; unchanged when there is no choice."""
    candidates = by_arm(error.hints)
    if len(candidates) < 2:
        return list(error.hints)
    chosen = candidates[chooser.best(context_of(error, errors), list(candidates))]
    others = [hint for hint in error.hints if hint is not chosen]
    return [chosen.model_copy(update={"source": "learned"}), *others]


def choice_from(path: str | Path) -> HintChoice:
    """Return the choice by the chooser in a file, for ``distillation.chooser`` of a recipe.

    Raises OSError and pydantic's ValidationError for a file that holds no chooser.
    """
    chooser = Chooser.model_validate_json(Path(path).read_bytes())
    return lambda error, errors: learned(chooser, error, errors)


def _ridge(cells: Mapping[tuple[str, ...], Sequence[float]], mean: float, ridge: float) -> dict[str, float]:
    """Return the weights of one arm that minimise sum n * (mean reward - mean - sum w)^2 + ridge * sum w^2.

    Solved by Gauss-Seidel sweeps. The ridge of the arm's own worth is _OWN_RIDGE.
    """
    rows = [(active, total / count - mean, count) for active, (total, count) in sorted(cells.items())]
    rows_of: dict[str, list[int]] = {}
    for number, (active, _, _) in enumerate(rows):
        for feature in active:
            rows_of.setdefault(feature, []).append(number)
    residuals, counts = [value for _, value, _ in rows], [count for _, _, count in rows]
    scale = {
        feature: sum(counts[number] for number in numbers) + (ridge if feature else _OWN_RIDGE)
        for feature, numbers in rows_of.items()
    }
    weights = dict.fromkeys(rows_of, 0.0)
    for _ in range(_SWEEPS):
        largest = 0.0
        for feature, numbers in rows_of.items():
            old = weights[feature]
            new = sum(counts[number] * (residuals[number] + old) for number in numbers) / scale[feature]
            weights[feature] = new
            largest = max(largest, abs(new - old))
            for number in numbers:
                residuals[number] -= new - old
        if largest < _CLOSE:
            break
    return {feature: round(weight, 9) for feature, weight in sorted(weights.items())}
