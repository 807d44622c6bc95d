"""Item response model: the skill of players and the difficulty of tasks, from how often the ones solved the others.

The model is the Rasch model with explained difficulties. Player p solves task i with probability

    P(p solves i) = sigmoid(skill_p - difficulty_i)
    difficulty_i  = sum over features f of weight_f * x_if + residual_i

after G. Rasch, "Probabilistic Models for Some Intelligence and Attainment Tests" (1960), with difficulties that are
regressed on features of the tasks: the "linear logistic test model" with an error term, P. De Boeck and M. Wilson
(eds.), "Explanatory Item Response Models" (2004). A discrimination per task (2PL) is not fitted: a task is played four
to eight times, which says little about a slope.

Skills, weights and residuals have normal priors, so the fit exists and is unique also where every play succeeds:
weights around what is assumed without any play (``priors.py``), residuals around 0, the skill of each player around
that of the player before. The fit is the mode of the posterior, found by Newton's method; residuals are eliminated from
each step, so that the effort grows with the number of tasks, not with its cube.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .priors import Prior, Vector, prior_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray

FIRST_SKILL_SD = 2.0
"""Standard deviation of the first player's skill around 0."""
SKILL_STEP_SD = 1.0
"""Standard deviation of the change of skill from one player to the next."""
RESIDUAL_SD = 0.7
"""Standard deviation of what features do not explain of a difficulty, in logits."""
_MOST_STEPS = 100
_TOLERANCE = 1e-9
_DIGITS = 6


@dataclass(frozen=True)
class Plays:
    """How often one player tried and solved one task."""

    player: int
    """Number of the player, in the order of time."""
    task: str
    """Id of the task."""
    tries: int
    """Scored episodes."""
    solved: int
    """Episodes with the reward 1."""


@dataclass(frozen=True)
class Fit:
    """Fitted skills, weights and residuals. Without plays, the priors."""

    skills: Sequence[float] = (0.0,)
    """Skill of each player, in logits."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each feature; one that is missing has its prior's mean."""
    residuals: Mapping[str, float] = field(default_factory=dict)
    """Residual of each played task."""

    @property
    def skill(self) -> float:
        """Return the skill of the last player."""
        return self.skills[-1]

    def difficulty(self, features: Vector, task: str = "") -> float:
        """Return the difficulty of a task in logits; without plays of the task it follows from its features."""
        explained = sum(value * self._weight(name) for name, value in features.items())
        return explained + self.residuals.get(task, 0.0)

    def failure_rate(self, features: Vector, task: str = "") -> float:
        """Return the probability that the last player fails a task.

        For a task that was never played this is the mean over its unknown residual, by the approximation of D. MacKay,
        "The Evidence Framework Applied to Classification Networks" (1992).
        """
        distance = self.difficulty(features, task) - self.skill
        spread = 1.0 if task in self.residuals else math.sqrt(1 + math.pi * RESIDUAL_SD**2 / 8)
        return 1 / (1 + math.exp(-distance / spread))

    def _weight(self, name: str) -> float:
        return self.weights[name] if name in self.weights else prior_of(name).mean


def fit(plays: Sequence[Plays], features: Mapping[str, Vector]) -> Fit:
    """Return the fit to some plays; ``features`` holds those of each task. The order of the plays does not matter."""
    if not plays:
        return Fit()
    problem = _Problem(plays, features)
    skills, weights, residuals = problem.solve()
    return Fit(
        skills=[round(float(value), _DIGITS) for value in skills],
        weights={name: round(float(value), _DIGITS) for name, value in zip(problem.names, weights, strict=True)},
        residuals={task: round(float(value), _DIGITS) for task, value in zip(problem.tasks, residuals, strict=True)},
    )


class _Problem:
    """The posterior as arrays: skills and weights are the shared parameters, residuals belong to one task each."""

    def __init__(self, plays: Sequence[Plays], features: Mapping[str, Vector]) -> None:
        import numpy as np

        self.tasks = sorted({item.task for item in plays})
        self.names = sorted({name for task in self.tasks for name in features[task]})
        ordered = sorted(plays, key=lambda item: (item.player, item.task))
        place = {task: number for number, task in enumerate(self.tasks)}
        self.players = 1 + max(item.player for item in plays)
        self.player = np.array([item.player for item in ordered])
        self.task = np.array([place[item.task] for item in ordered])
        self.tries = np.array([float(item.tries) for item in ordered])
        self.solved = np.array([float(item.solved) for item in ordered])
        rows = [[features[task].get(name, 0.0) for name in self.names] for task in self.tasks]
        table = np.array(rows, dtype=float).reshape(len(self.tasks), len(self.names))
        one_hot = np.zeros((len(ordered), self.players))
        one_hot[np.arange(len(ordered)), self.player] = 1.0
        self.design = np.hstack([one_hot, -table[self.task]])
        priors = [prior_of(name) for name in self.names]
        self.mean = np.array([0.0] * self.players + [prior.mean for prior in priors])
        self.precision = _precision(self.players, priors)

    def solve(self) -> tuple[Array, Array, Array]:
        """Return skills, weights and residuals at the mode of the posterior."""
        import numpy as np

        shared, residuals = self.mean.copy(), np.zeros(len(self.tasks))
        value = self._loss(shared, residuals)
        for _ in range(_MOST_STEPS):
            step_shared, step_residuals = self._newton_step(shared, residuals)
            size = 1.0
            while size > _TOLERANCE:
                candidate = shared - size * step_shared, residuals - size * step_residuals
                if (lower := self._loss(*candidate)) <= value:
                    break
                size /= 2
            else:
                break  # no smaller loss along the step: this is the mode, up to rounding
            gain, value = value - lower, lower
            shared, residuals = candidate
            if gain < _TOLERANCE:
                break
        return shared[: self.players], shared[self.players :], residuals

    def _logits(self, shared: Array, residuals: Array) -> Array:
        return self.design @ shared - residuals[self.task]

    def _loss(self, shared: Array, residuals: Array) -> float:
        """Return the negative logarithm of the posterior, up to a constant."""
        import numpy as np

        logits, away = self._logits(shared, residuals), shared - self.mean
        likelihood = np.sum(self.tries * np.logaddexp(0.0, logits) - self.solved * logits)
        return float(likelihood + away @ self.precision @ away / 2 + residuals @ residuals / RESIDUAL_SD**2 / 2)

    def _newton_step(self, shared: Array, residuals: Array) -> tuple[Array, Array]:
        """Return the Newton step; the diagonal block of the residuals is eliminated (Schur complement)."""
        import numpy as np

        chance = 1 / (1 + np.exp(-self._logits(shared, residuals)))
        error, weight = self.tries * chance - self.solved, self.tries * chance * (1 - chance)
        count = len(self.tasks)
        gradient = self.design.T @ error + self.precision @ (shared - self.mean)
        own_gradient = residuals / RESIDUAL_SD**2 - np.bincount(self.task, error, count)
        own_curvature = np.bincount(self.task, weight, count) + 1 / RESIDUAL_SD**2
        weighted = self.design * weight[:, None]
        mixed = np.zeros((self.design.shape[1], count))
        np.add.at(mixed.T, self.task, -weighted)
        complement = weighted.T @ self.design + self.precision - (mixed / own_curvature) @ mixed.T
        step = np.linalg.solve(complement, gradient - mixed @ (own_gradient / own_curvature))
        return step, (own_gradient - mixed.T @ step) / own_curvature


def _precision(players: int, priors: Sequence[Prior]) -> Array:
    """Return the inverse covariance of skills (a random walk) and weights (independent)."""
    import numpy as np

    precision = np.diag([0.0] * players + [1 / prior.sd**2 for prior in priors])
    precision[0, 0] += 1 / FIRST_SKILL_SD**2
    for later in range(1, players):
        pair = slice(later - 1, later + 1)
        precision[pair, pair] += np.array([[1.0, -1.0], [-1.0, 1.0]]) / SKILL_STEP_SD**2
    return precision
