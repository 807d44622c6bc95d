"""Ask policy: which turns are worth asking about, and when enough teachers have been asked.

A turn is asked about when P(disagree) x P(consensus | disagree) x the value of a right pair exceeds the cost of asking.
Both probabilities come from logistic models that learn from every turn that was asked about. A small random share of
the other turns is asked about as well, and the log records each turn's probability of being asked. That makes it
possible to estimate what asking about all turns would have brought (Horvitz and Thompson 1952), and shows the models
the turns that they would have missed.

Within a turn the cheapest teacher goes first. Bayes' rule turns the answers so far, each teacher's accuracy and a fixed
number of equally likely wrong answers into the odds that the student was wrong and which answer is right. Asking stops
when the odds are clear (after Wald's sequential test, 1945).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...hints.transcript.parsing import parse_turn
from ...intervals import Interval
from .pairs import WeightedAnswer, clusters_of, is_students_answer
from .settings import Consensus, GateSettings
from .turns.action_equality import Canonical
from .turns.prefixes import State, own_error_turns

Features = Mapping[str, float]
_WRONG_ANSWERS = 4
"""Number of wrong answers that are taken to be equally likely."""
_LEARNING_RATE = 0.3
_REPORTED_ERROR_PRIOR = 0.97
"""Probability that the student was wrong when the environment reported an error."""


def features(state: State) -> dict[str, float]:
    """Return what is known of a turn before any teacher is asked; each value lies roughly in [0, 1]."""
    episode, turn = state.episode, state.turn
    erred = own_error_turns(episode)
    retries = 0
    while turn - 1 - retries in erred:
        retries += 1
    calls = state.action.get("tool_calls")
    return {
        "one": 1.0,
        "error": float(state.error is not None),
        "retries": min(retries, 4) / 4,
        "turn": math.log1p(turn) / math.log1p(64),
        "unsolved": float(episode.reward is None or episode.reward.value < 1),
        f"tool {_first_tool(state)}": 1.0,
        "several calls": float(isinstance(calls, list) and len(calls) > 1),
    }


class Logistic:
    """Online logistic regression with AdaGrad steps (Duchi et al. 2011); any name can be a feature."""

    def __init__(self, initial_weights: Mapping[str, float]) -> None:
        self._weights = dict(initial_weights)
        self._squares: dict[str, float] = {}

    def probability(self, row: Features) -> float:
        """Return the predicted probability for a row of features."""
        total = sum(self._weights.get(name, 0.0) * value for name, value in row.items())
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    def learn(self, row: Features, happened: bool) -> None:
        """Take one gradient step of the log loss."""
        residual = self.probability(row) - float(happened)
        for name, value in row.items():
            slope = residual * value
            self._squares[name] = self._squares.get(name, 0.1) + slope * slope
            self._weights[name] = self._weights.get(name, 0.0) - _LEARNING_RATE * slope / math.sqrt(self._squares[name])


@dataclass(frozen=True)
class Look:
    """The gate's decision on a turn: ``ask``, the probability of that decision, and the numbers behind it."""

    ask: bool
    propensity: float
    disagree: float
    consensus: float
    gain: float


class Gate:
    """Decision whether to ask about each turn, in order; learns from the turns that were asked about."""

    def __init__(self, settings: GateSettings) -> None:
        self.settings = settings
        self._rng = random.Random(f"gate {settings.seed}")
        self._disagree = Logistic({"one": -1.5, "error": 4.0})
        self._consensus = Logistic({"one": 0.5})
        self._share = 1.0

    def look(self, row: Features, usd: float) -> Look:
        """Decide whether to ask about a turn; ``usd`` is the cost of asking all teachers about it."""
        disagree, consensus = self._disagree.probability(row), self._consensus.probability(row)
        gain = disagree * consensus * self.settings.worth - usd * self._share
        which = self.settings.which
        worth_it = which == "all" or (which == "voi" and gain > 0)
        propensity = 1.0 if worth_it else self.settings.rate if which == "random" else self.settings.explore
        return Look(self._rng.random() < propensity, propensity, disagree, consensus, gain)

    def learn(self, row: Features, *, disagreed: bool, paired: bool, share: float) -> None:
        """Learn from a turn that was asked about; ``share`` is its cost divided by that of asking all teachers."""
        self._disagree.learn(row, disagreed)
        if disagreed:
            self._consensus.learn(row, paired)
        self._share += 0.02 * (share - self._share)


@dataclass
class Inquiry:
    """The questions about one turn: decides which teacher is asked next, and when the answer is clear."""

    student: Canonical
    accuracies: Sequence[float]
    """Accuracies of the teachers, the cheapest teacher first."""
    wrong: float
    """Probability that the student is wrong, before any teacher is asked."""
    rules: Consensus
    settings: GateSettings
    value: float | None = None
    """Executed value of the student's action, if known."""
    answers: dict[int, WeightedAnswer] = field(default_factory=dict)
    next_teacher: int = 0

    def next(self) -> int | None:
        """Return the index of the next teacher, or None when the answers are clear or all teachers were asked."""
        if self.next_teacher >= len(self.accuracies) or (self.settings.tiers and self.answers and self._is_clear()):
            return None
        self.next_teacher += 1
        return self.next_teacher - 1

    def hear(self, teacher: int, action: Canonical | None, value: float | None = None) -> None:
        """Add a teacher's answer (None: it gave none) and its executed value, if it was executed."""
        if action is not None:
            self.answers[teacher] = WeightedAnswer(action, self.accuracies[teacher], value)

    def _is_clear(self) -> bool:
        if any(answer.value is not None and answer.value > 0 for answer in self.answers.values()):
            return True
        right, best, votes = self._odds()
        if 1 - right < 1 - self.settings.sure:
            return True
        return best > self.settings.sure and votes >= self.rules.least

    def _odds(self) -> tuple[float, float, int]:
        """Return P(the student is right), P(the likeliest other answer is right), and the votes for that answer."""
        groups = self._groups()
        wrong = min(max(self.wrong, 1e-3), _REPORTED_ERROR_PRIOR)
        unseen = max(_WRONG_ANSWERS - (len(groups) - 1), 1)
        mass = [self._likelihood(group, values) for group, values in groups]
        weights = [mass[0] * (1 - wrong), *(group_mass * wrong / _WRONG_ANSWERS for group_mass in mass[1:])]
        total = sum(weights) + self._likelihood(set(), []) * wrong * unseen / _WRONG_ANSWERS
        others = [(weights[i] / total, len(groups[i][0])) for i in range(1, len(groups))]
        best = max(others, default=(0.0, 0))
        return weights[0] / total, best[0], best[1]

    def _groups(self) -> list[tuple[set[int], list[float]]]:
        """Return groups of teachers that agree, with their executed values; the first group agrees with the student."""
        agreeing = {
            teacher
            for teacher, answer in self.answers.items()
            if is_students_answer(self.student, self.value, answer, self.rules)
        }
        others = [teacher for teacher in self.answers if teacher not in agreeing]
        clusters = clusters_of([self.answers[teacher] for teacher in others], self.rules.tau)
        groups = [agreeing, *({others[index] for index in cluster} for cluster in clusters)]
        values = [[self.answers[teacher].value for teacher in sorted(group)] for group in groups]
        return [(group, [v for v in column if v is not None]) for group, column in zip(groups, values, strict=True)]

    def _likelihood(self, group: set[int], values: Sequence[float]) -> float:
        """Return the likelihood of all answers if this group's answer is the right one."""
        product = 0.02 if any(value < 0 for value in values) else 1.0
        for teacher in self.answers:
            accuracy = min(max(self.accuracies[teacher], 0.02), 0.98)
            product *= accuracy if teacher in group else (1 - accuracy) / _WRONG_ANSWERS
        return product


def prior_wrong(look: Look, is_error: bool) -> float:
    """Return P(the student is wrong) before any teacher is asked; nearly 1 where the environment reported an error."""
    return _REPORTED_ERROR_PRIOR if is_error else look.disagree


def total_if_all(rows: Sequence[tuple[str, float, float]], draws: int = 1000) -> Interval:
    """Estimate what asking about every turn would have brought: the sum of gain / p (Horvitz and Thompson 1952).

    ``rows`` are (episode, gain of the turn or 0 when it was not asked about, its probability p of being asked about).
    The 95 % interval is the bootstrap's over episodes.
    """
    sums: dict[str, float] = {}
    for episode, gain, propensity in rows:
        sums[episode] = sums.get(episode, 0.0) + gain / propensity
    totals = list(sums.values())
    rng = random.Random(0)
    drawn = sorted(sum(rng.choices(totals, k=len(totals))) for _ in range(draws)) if totals else [0.0]
    last = len(drawn) - 1
    return Interval(sum(totals), drawn[math.floor(0.025 * last)], drawn[math.ceil(0.975 * last)])


def _first_tool(state: State) -> str:
    calls = parse_turn(state.action, 0).calls
    return calls[0].name if calls else "none"
