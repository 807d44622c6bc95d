"""Simulated teachers and turns, with known accuracies and prices: measures what a policy for asking teachers is worth.

Each turn has one right action and ``World.wrong_actions`` wrong ones, of which the first is the most common. The
student errs at the rate of its turn's context; the environment reports some of its errors. A teacher is right with its
accuracy, independently of the other teachers, except on a hard turn, where every teacher is right half as often. The
decisions are made by the product's own code: the gate, the inquiry and the consensus of ``etude.trainers.replay``.

The value of a pair is that of correcting the student:

| chosen action | rejected action | value |
|---|---|---|
| any | the right one | -1 |
| the right one | the student's wrong one | +1 |
| the right one, by the student | a teacher's wrong one | ``World.confirmation_value`` (default 0) |
| a wrong one | a wrong one | 0 |
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from etude.trainers.replay.ask_policy import Gate, Inquiry, Look, prior_wrong
from etude.trainers.replay.pairs import Reliability, WeightedAnswer, decide, disagreed
from etude.trainers.replay.settings import Consensus, GateSettings
from etude.trainers.replay.turns.action_equality import Canonical, CanonicalCall


@dataclass(frozen=True)
class SimulatedTeacher:
    """A teacher with a known accuracy; ``usd`` is the price of one answer."""

    name: str
    accuracy: float
    usd: float


@dataclass(frozen=True)
class Context:
    """A kind of turn: the share of turns that are of this kind, and the rate at which the student errs in them."""

    name: str
    share: float
    error_rate: float


@dataclass(frozen=True)
class World:
    """Everything that a simulated run of turns depends on, except the seed."""

    teachers: tuple[SimulatedTeacher, ...]
    contexts: tuple[Context, ...]
    reported: float = 0.5
    """Share of wrong actions that the environment reports as errors."""
    false_alarms: float = 0.02
    """Share of right actions that the environment reports as errors."""
    executes: bool = True
    """Whether the teachers' answers are executed, so that errors are reported for them too."""
    hard: float = 0.0
    """Share of turns on which every teacher is right half as often."""
    common: float = 0.4
    """Probability that a wrong action is the most common wrong one."""
    wrong_actions: int = 4
    """Number of different wrong actions in each turn."""
    confirmation_value: float = 0.0
    """Value of a pair that prefers the student's right action to a teacher's wrong one."""


@dataclass(frozen=True)
class SimulatedTurn:
    """One turn; action 0 is the right one.

    ``answers`` are the teachers' actions in the world's order; ``reported[a]`` says whether the environment would
    report action ``a`` as an error.
    """

    episode: str
    number: int
    context: str
    student: int
    answers: tuple[int, ...]
    reported: tuple[bool, ...]


@dataclass
class Outcome:
    """Cost and value of one ask policy over a run of turns.

    ``contributions`` has (episode, value of the turn's pair or 0, probability of asking) for every turn, as
    ``total_if_all`` takes them.
    """

    usd: float = 0.0
    value: float = 0.0
    right: int = 0
    wrong: int = 0
    answers: int = 0
    contributions: list[tuple[str, float, float]] = field(default_factory=list)


def majority(accuracies: Sequence[float]) -> float:
    """Return the probability that more than half of independent teachers are right."""
    total = 0.0
    for outcome in range(2 ** len(accuracies)):
        right = [bool(outcome >> k & 1) for k in range(len(accuracies))]
        if 2 * sum(right) > len(accuracies):
            total += math.prod(p if r else 1 - p for p, r in zip(accuracies, right, strict=True))
    return total


def turns(world: World, episodes: int, length: int, seed: int) -> Iterator[SimulatedTurn]:
    """Yield the turns of ``episodes`` episodes; they depend on the seed alone, not on the ask policy."""
    rng = random.Random(f"world {seed}")
    names, shares = [c.name for c in world.contexts], [c.share for c in world.contexts]
    rates = {c.name: c.error_rate for c in world.contexts}
    for episode in range(episodes):
        for number in range(length):
            context = rng.choices(names, shares)[0]
            hard = rng.random() < world.hard
            student = _draw_action(rng, world, 1 - rates[context])
            answers = tuple(_draw_action(rng, world, t.accuracy * (0.5 if hard else 1.0)) for t in world.teachers)
            reported = [
                rng.random() < (world.reported if action else world.false_alarms)
                for action in range(1 + world.wrong_actions)
            ]
            yield SimulatedTurn(str(episode), number, context, student, answers, tuple(reported))


def run(world: World, played: Sequence[SimulatedTurn], settings: GateSettings, rules: Consensus) -> Outcome:
    """Ask about ``played`` turns in order, where the gate with ``settings`` says so, and return cost and value."""
    simulation = _Simulation(world, settings, rules)
    retries, episode = 0, ""
    for turn in played:
        is_reported = turn.reported[turn.student]
        retries, episode = retries if turn.episode == episode else 0, turn.episode
        simulation.play(turn, _features(turn, is_reported, retries))
        retries = retries + 1 if is_reported else 0
    return simulation.outcome


class _Simulation:
    """One run: the gate and the reliabilities as they learn, and the outcome so far."""

    def __init__(self, world: World, settings: GateSettings, rules: Consensus) -> None:
        self._world, self._settings, self._rules = world, settings, rules
        order = sorted(range(len(world.teachers)), key=lambda k: (world.teachers[k].usd, world.teachers[k].name))
        self._teachers = [(k, world.teachers[k]) for k in order]
        self._usd_of_all = sum(teacher.usd for teacher in world.teachers)
        self._gate = Gate(settings)
        self._reliability = Reliability({teacher.name: 0.85 for teacher in world.teachers})
        self.outcome = Outcome()

    def play(self, turn: SimulatedTurn, row: dict[str, float]) -> None:
        """Let the gate look at a turn, ask about it if the gate says so, and add the result to the outcome."""
        look = self._gate.look(row, self._usd_of_all)
        value = self._ask(turn, look, row) if look.ask else 0.0
        self.outcome.contributions.append((turn.episode, value, look.propensity))

    def _ask(self, turn: SimulatedTurn, look: Look, row: dict[str, float]) -> float:
        """Ask about one turn and return the value of its pair, 0 without a pair."""
        is_reported = turn.reported[turn.student]
        kind, student_value = ("reported", -1.0) if is_reported else ("", 0.0)
        accuracies = [self._reliability.accuracy(teacher.name, kind) for _, teacher in self._teachers]
        student = _canonical(turn.student)
        prior = prior_wrong(look, is_reported)
        inquiry = Inquiry(student, accuracies, prior, self._rules, self._settings, student_value)
        actions: list[int] = []
        answers: list[WeightedAnswer] = []
        spent = 0.0
        while (index := inquiry.next()) is not None:
            place, teacher = self._teachers[index]
            action = turn.answers[place]
            value = (-1.0 if turn.reported[action] else 0.0) if self._world.executes else None
            inquiry.hear(index, _canonical(action), value)
            actions.append(action)
            answers.append(WeightedAnswer(_canonical(action), accuracies[index], value))
            spent += teacher.usd
            if value is not None:
                self._reliability.observe(teacher.name, kind, value)
        decision = decide(student, student_value, answers, self._rules)
        differed = disagreed(student, student_value, answers, decision, self._rules)
        self._gate.learn(row, disagreed=differed, paired=bool(decision.kind), share=spent / self._usd_of_all)
        worth = 0.0
        if decision.kind:
            other = actions[decision.answer]
            chosen, rejected = (other, turn.student) if decision.kind == "correct" else (turn.student, other)
            worth = pair_value(chosen, rejected, turn.student, self._world.confirmation_value)
        self._add(spent, worth, len(answers))
        return worth

    def _add(self, spent: float, worth: float, answers: int) -> None:
        outcome = self.outcome
        outcome.usd, outcome.value = outcome.usd + spent, outcome.value + worth
        outcome.answers += answers
        outcome.right, outcome.wrong = outcome.right + (worth > 0), outcome.wrong + (worth < 0)


def pair_value(chosen: int, rejected: int, student: int, confirmation_value: float = 0.0) -> float:
    """Return the value of a pair by the table at the top of this module; action 0 is the right one."""
    if rejected == 0:
        return -1.0
    if chosen != 0:
        return 0.0
    return confirmation_value if student == 0 else 1.0


def _draw_action(rng: random.Random, world: World, right: float) -> int:
    if rng.random() < right:
        return 0
    return 1 if world.wrong_actions == 1 or rng.random() < world.common else rng.randint(2, world.wrong_actions)


def _canonical(action: int) -> Canonical:
    return Canonical((CanonicalCall(f"do_{action}"),))


def _features(turn: SimulatedTurn, is_reported: bool, retries: int) -> dict[str, float]:
    """Return the features that the real gate sees, never the truth; a context shows as the tool that was called."""
    return {
        "one": 1.0,
        "error": float(is_reported),
        "retries": min(retries, 4) / 4,
        "turn": math.log1p(turn.number) / math.log1p(64),
        f"tool {turn.context}": 1.0,
    }
