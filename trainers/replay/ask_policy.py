"""Which turns are worth asking about, and when enough teachers have been asked.

A turn is asked about when P(disagree) x P(consensus | disagree) x what a right pair is worth exceeds what asking costs;
both probabilities come from logistic models that learn from every turn asked about. A small share of the other turns is
asked about all the same, and each turn's probability of being asked is kept: so what asking about all turns would have
brought can be estimated (Horvitz and Thompson 1952), and the models see what they would have missed.

Within a turn the cheapest teacher goes first. Given the answers so far, each teacher's accuracy, and a fixed number of
equally likely wrong answers, Bayes' rule gives the odds that the student was wrong and which answer is right; asking
stops when they are clear (after Wald's sequential test, 1945).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...hints.transcript.parsing import parse_turn
from ...intervals import Interval
from .action_equality import Canonical
from .pairs import Heard, is_students, linked
from .prefixes import State, is_own_error
from .settings import Consensus, GateSettings

Features = Mapping[str, float]
_ALTERNATIVES = 4
_RATE = 0.3
_KNOWN = 0.97
"""How sure an error that the environment saw makes us that the student was wrong."""


def features(state: State, entropy: float | None = None) -> dict[str, float]:
    """What is known of a turn before anybody is asked, all of it about in [0, 1]. ``entropy``: of the student at its
    action's first token, in nats, where it is known."""
    episode, turn = state.episode, state.turn
    erred = {error.turn for error in episode.error_turns if is_own_error(error, error.turn)}
    retries = 0
    while turn - 1 - retries in erred:
        retries += 1
    calls = state.action.get("tool_calls")
    found = {
        "one": 1.0,
        "error": float(state.error is not None),
        "retries": min(retries, 4) / 4,
        "turn": math.log1p(turn) / math.log1p(64),
        "unsolved": float(episode.reward is None or episode.reward.value < 1),
        f"tool {_first_tool(state)}": 1.0,
        "several calls": float(isinstance(calls, list) and len(calls) > 1),
    }
    return found if entropy is None else {**found, "entropy": min(entropy, 4.0) / 4}


class Logistic:
    """Online logistic regression with AdaGrad's steps (Duchi et al. 2011) and any names as features."""

    def __init__(self, first: Mapping[str, float]) -> None:
        self._weights = dict(first)
        self._squares: dict[str, float] = {}

    def probability(self, row: Features) -> float:
        total = sum(self._weights.get(name, 0.0) * value for name, value in row.items())
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    def learn(self, row: Features, happened: bool) -> None:
        wrong = self.probability(row) - float(happened)
        for name, value in row.items():
            slope = wrong * value
            self._squares[name] = self._squares.get(name, 0.1) + slope * slope
            self._weights[name] = self._weights.get(name, 0.0) - _RATE * slope / math.sqrt(self._squares[name])


@dataclass(frozen=True)
class Look:
    """Whether a turn is asked about, and with what probability it had been."""

    ask: bool
    propensity: float
    disagree: float
    consensus: float
    gain: float


class Gate:
    """Looks at turns in order and learns from those that were asked about."""

    def __init__(self, settings: GateSettings) -> None:
        self.settings = settings
        self._chance = random.Random(f"gate {settings.seed}")
        self._disagree = Logistic({"one": -1.5, "error": 4.0})
        self._consensus = Logistic({"one": 0.5})
        self._share = 1.0

    def look(self, row: Features, usd: float) -> Look:
        """``usd``: what all teachers together would cost here."""
        disagree, consensus = self._disagree.probability(row), self._consensus.probability(row)
        gain = disagree * consensus * self.settings.worth - usd * self._share
        which = self.settings.which
        worth_it = which == "all" or (which == "voi" and gain > 0)
        propensity = 1.0 if worth_it else self.settings.rate if which == "random" else self.settings.explore
        return Look(self._chance.random() < propensity, propensity, disagree, consensus, gain)

    def learn(self, row: Features, *, disagreed: bool, paired: bool, share: float) -> None:
        """``share``: of what all teachers would have cost."""
        self._disagree.learn(row, disagreed)
        if disagreed:
            self._consensus.learn(row, paired)
        self._share += 0.02 * (share - self._share)


@dataclass
class Inquiry:
    """One turn: who is asked next. ``accuracies`` are the teachers', the cheapest first; ``wrong`` is how likely the
    student is to be wrong before anybody is asked; ``value`` is its action's, where that is known."""

    student: Canonical
    accuracies: Sequence[float]
    wrong: float
    rules: Consensus
    settings: GateSettings
    value: float | None = None
    heard: dict[int, Heard] = field(default_factory=dict)
    asked: int = 0

    def next(self) -> int | None:
        """The index of the next teacher; None when nobody need be asked any more. No answer makes nothing clear."""
        if self.asked >= len(self.accuracies) or (self.settings.tiers and self.heard and self._clear()):
            return None
        self.asked += 1
        return self.asked - 1

    def hear(self, teacher: int, action: Canonical | None, value: float | None = None) -> None:
        """Its answer, if it gave one, and the answer's executed value, if it was executed."""
        if action is not None:
            self.heard[teacher] = Heard(action, self.accuracies[teacher], value)

    def _clear(self) -> bool:
        if any(each.value is not None and each.value > 0 for each in self.heard.values()):
            return True
        right, best, votes = self._odds()
        if 1 - right < 1 - self.settings.sure:
            return True
        return best > self.settings.sure and votes >= self.rules.least

    def _odds(self) -> tuple[float, float, int]:
        """P(the student is right), P(of the likeliest other answer), and how many gave that one."""
        groups = self._groups()
        wrong = min(max(self.wrong, 1e-3), _KNOWN)
        unseen = max(_ALTERNATIVES - (len(groups) - 1), 1)
        mass = [self._likelihood(group, values) for group, values in groups]
        weights = [mass[0] * (1 - wrong), *(each * wrong / _ALTERNATIVES for each in mass[1:])]
        total = sum(weights) + self._likelihood(set(), []) * wrong * unseen / _ALTERNATIVES
        others = [(weights[i] / total, len(groups[i][0])) for i in range(1, len(groups))]
        best = max(others, default=(0.0, 0))
        return weights[0] / total, best[0], best[1]

    def _groups(self) -> list[tuple[set[int], list[float]]]:
        """Who agrees with the student, then who with whom; with what executing their answers showed."""
        mine = {t for t, each in self.heard.items() if is_students(self.student, self.value, each, self.rules)}
        others = [teacher for teacher in self.heard if teacher not in mine]
        clusters = linked([self.heard[teacher] for teacher in others], self.rules.tau)
        groups = [mine, *({others[index] for index in cluster} for cluster in clusters)]
        values = [[self.heard[teacher].value for teacher in sorted(group)] for group in groups]
        return [(group, [v for v in known if v is not None]) for group, known in zip(groups, values, strict=True)]

    def _likelihood(self, group: set[int], values: Sequence[float]) -> float:
        """Of all answers, were this group's the right one."""
        product = 0.02 if any(value < 0 for value in values) else 1.0
        for teacher in self.heard:
            accuracy = min(max(self.accuracies[teacher], 0.02), 0.98)
            product *= accuracy if teacher in group else (1 - accuracy) / _ALTERNATIVES
        return product


def prior_wrong(look: Look, error: bool) -> float:
    """Before anybody is asked: what the gate expects, and nearly 1 where the environment saw an error."""
    return _KNOWN if error else look.disagree


def total_if_all(rows: Sequence[tuple[str, float, float]], draws: int = 1000, seed: int = 0) -> Interval:
    """Horvitz and Thompson's estimate of what asking about every turn would have brought: the sum of brought / p.

    ``rows`` are (episode, what asking brought or 0 when it was not asked, p). 95 % by the bootstrap over episodes.
    """
    sums: dict[str, float] = {}
    for episode, brought, propensity in rows:
        sums[episode] = sums.get(episode, 0.0) + brought / propensity
    each = list(sums.values())
    chance = random.Random(seed)
    drawn = sorted(sum(chance.choices(each, k=len(each))) for _ in range(draws)) if each else [0.0]
    last = len(drawn) - 1
    return Interval(sum(each), drawn[math.floor(0.025 * last)], drawn[math.ceil(0.975 * last)])


def _first_tool(state: State) -> str:
    calls = parse_turn(state.action, 0).calls
    return calls[0].name if calls else "none"
