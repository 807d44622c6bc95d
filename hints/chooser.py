"""The learned chooser: which of several hints for an error turn, by what was measured in others like it.

A contextual bandit. The value of an arm (a template's name, a candidate text's id) in a context (what kind of error,
with which tool, for which time) is a ridge regression on what the context says, alone and in pairs; what was never seen
adds nothing, so a new tool falls back to its kind. An arm's own worth is hardly held back; how much a context may add
to it is found by cross-validation, so that where all contexts are alike one arm is best in all. It chooses by
epsilon-softmax, of which every probability is known exactly; ``offpolicy`` needs them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pydantic import Field

from ..models import ErrorTurn, Hint, Record

Context = Mapping[str, str]
MOST_ATTEMPTS = 4
RIDGES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
_OWN_RIDGE = 3.0
_SWEEPS, _CLOSE = 100, 1e-6


@dataclass(frozen=True)
class Logged:
    """One choice: among ``arms``, ``arm`` was taken with probability ``propensity``, and ``reward`` came of it.

    Rows of one ``group`` (the continuations of one error turn) are not independent of each other.
    """

    context: Context
    arms: tuple[str, ...]
    arm: str
    propensity: float
    reward: float
    group: str = ""


class Chooser(Record):
    """What was learned. ``weights[arm][feature]`` adds to ``mean``; the rest is how freely it explores.

    With probability ``epsilon`` any arm, else one by softmax(value / ``temperature``).
    """

    schema_version: int = 1
    mean: float = 0.0
    weights: dict[str, dict[str, float]] = Field(default_factory=dict)
    epsilon: float = Field(default=0.1, ge=0, le=1)
    temperature: float = Field(default=0.1, gt=0)

    def value(self, context: Context, arm: str) -> float:
        """The reward to expect; that of all arms for one that was never tried."""
        known = self.weights.get(arm, {})
        return self.mean + sum(known.get(feature, 0.0) for feature in features(context))

    def probabilities(self, context: Context, arms: Sequence[str]) -> dict[str, float]:
        """How probable each arm is; they add up to 1."""
        values = [self.value(context, arm) for arm in arms]
        top = max(values)
        odds = [math.exp((value - top) / self.temperature) for value in values]
        each = self.epsilon / len(arms)
        return {arm: each + (1 - self.epsilon) * odd / sum(odds) for arm, odd in zip(arms, odds, strict=True)}

    def best(self, context: Context, arms: Sequence[str]) -> str:
        """The arm of the highest value; of equal ones, the first."""
        return max(arms, key=lambda arm: self.value(context, arm))


def fit(
    logs: Sequence[Logged], *, ridge: float | None = None, epsilon: float = 0.1, temperature: float = 0.1
) -> Chooser:
    """Learn from logs. ``ridge`` counts like that many observations that a context adds nothing, for every weight.

    ``None`` takes of RIDGES the one that foretells best what it was not fitted to. Which arm was logged how often does
    not matter to what it is worth, so propensities are not used here. The same logs give the same chooser.
    """
    ridge = foretelling_ridge(logs) if ridge is None else ridge
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


def foretelling_ridge(logs: Sequence[Logged]) -> float:
    """Of RIDGES the one with the least squared error on groups that it was not fitted to, in two halves."""
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
    """An arm's own worth (''), each thing that the context says, and each pair of them."""
    said = [f"{name}={value}" for name, value in sorted(context.items())]
    return ["", *said, *(f"{one}&{other}" for one, other in combinations(said, 2))]


def context_of(error: ErrorTurn, errors: Sequence[ErrorTurn]) -> dict[str, str]:
    """What may decide which hint helps: ``errors`` are those of the whole episode, of which only earlier ones count."""
    same = [each for each in errors if each.kind == error.kind and each.tool == error.tool]
    earlier = [each for each in same if (each.turn, each.call_index or 0) < (error.turn, error.call_index or 0)]
    return {
        "kind": error.kind,
        "tool": error.tool,
        "attempt": str(min(len(earlier) + 1, MOST_ATTEMPTS)),
        "site": error.site,
        "injected": "yes" if error.injected else "no",
    }


def arm_of(hint: Hint) -> str:
    """What a hint is an instance of: its template, or who wrote it; a text of nobody known is an arm of its own."""
    if hint.template:
        return hint.template
    if hint.source in ("llm", "introspect"):
        return hint.source
    return f"text:{hashlib.sha256(hint.text.encode()).hexdigest()[:8]}"


def by_arm(hints: Sequence[Hint]) -> dict[str, Hint]:
    """The candidates: the first hint of each arm."""
    found: dict[str, Hint] = {}
    for hint in hints:
        found.setdefault(arm_of(hint), hint)
    return found


def draw(probabilities: Mapping[str, float], uniform: float) -> str:
    """The arm that a number from [0, 1) falls on."""
    for arm, probability in probabilities.items():
        uniform -= probability
        if uniform < 0:
            return arm
    return arm


def learned(chooser: Chooser, error: ErrorTurn, errors: Sequence[ErrorTurn]) -> list[Hint]:
    """The hints of an error, the chosen one first and marked ``learned``; unchanged when there is no choice."""
    candidates = by_arm(error.hints)
    if len(candidates) < 2:
        return list(error.hints)
    chosen = candidates[chooser.best(context_of(error, errors), list(candidates))]
    others = [hint for hint in error.hints if hint is not chosen]
    return [chosen.model_copy(update={"source": "learned"}), *others]


def _ridge(cells: Mapping[tuple[str, ...], Sequence[float]], mean: float, ridge: float) -> dict[str, float]:
    """Weights of one arm that minimise sum n * (mean reward - mean - sum w)^2 + ridge * sum w^2, by Gauss-Seidel.

    The ridge of the arm's own worth is _OWN_RIDGE.
    """
    rows = [(active, total / count - mean, count) for active, (total, count) in sorted(cells.items())]
    where: dict[str, list[int]] = {}
    for number, (active, _, _) in enumerate(rows):
        for feature in active:
            where.setdefault(feature, []).append(number)
    left, seen = [value for _, value, _ in rows], [count for _, _, count in rows]
    held = {
        feature: sum(seen[number] for number in numbers) + (ridge if feature else _OWN_RIDGE)
        for feature, numbers in where.items()
    }
    weights = dict.fromkeys(where, 0.0)
    for _ in range(_SWEEPS):
        largest = 0.0
        for feature, numbers in where.items():
            old = weights[feature]
            new = sum(seen[number] * (left[number] + old) for number in numbers) / held[feature]
            weights[feature] = new
            largest = max(largest, abs(new - old))
            for number in numbers:
                left[number] -= new - old
        if largest < _CLOSE:
            break
    return {feature: round(weight, 9) for feature, weight in sorted(weights.items())}
