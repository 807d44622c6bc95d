"""A world in which what teachers know and cost is set beforehand, to see what a way of asking them is worth.

Every turn has one right action and ``wrongs`` wrong ones, of which the first is the commonest. The student is wrong as
often as its turn's context says; the environment sees some of its errors. A teacher is right with its accuracy,
independently of the others unless the turn is hard: then every teacher is right only half as often. What decides is the
code that decides for real: the gate, the inquiry, the consensus.

The value of a pair is that of correcting the student: +1 when the right action is chosen over the student's wrong one,
-1 whenever the rejected action is the right one, 0 when both are wrong. A right action of the student, chosen over a
teacher's wrong one, counts ``World.kept``: the student seldom does what it is there told not to do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .action_equality import Canonical, CanonicalCall
from .ask_policy import Gate, Inquiry, Look, prior_wrong
from .pairs import Heard, Reliability, decide, disagreed
from .settings import Consensus, GateSettings


@dataclass(frozen=True)
class SimulatedTeacher:
    """``usd`` for one answer."""

    name: str
    accuracy: float
    usd: float


@dataclass(frozen=True)
class Context:
    """A kind of turn: how often it comes, how often the student is wrong in it."""

    name: str
    share: float
    wrong: float


@dataclass(frozen=True)
class World:
    """``seen``: the share of wrong actions that the environment calls an error; ``alarms``: of right ones.
    ``executes``: answers are played, and errors seen in them too. ``hard``: the share of turns hard for every teacher.
    ``common``: the probability that who is wrong does the commonest wrong action. ``kept``: see above.
    """

    teachers: tuple[SimulatedTeacher, ...]
    contexts: tuple[Context, ...]
    seen: float = 0.5
    alarms: float = 0.02
    executes: bool = True
    hard: float = 0.0
    common: float = 0.4
    wrongs: int = 4
    kept: float = 0.0


@dataclass(frozen=True)
class SimulatedTurn:
    """0 is the right action. ``answers`` are the teachers', in the world's order; ``error``: whether the environment
    sees one in each action."""

    episode: str
    number: int
    context: str
    student: int
    answers: tuple[int, ...]
    error: tuple[bool, ...]


@dataclass
class Outcome:
    """What a way of asking came to over a run of turns."""

    usd: float = 0.0
    value: float = 0.0
    right: int = 0
    wrong: int = 0
    asked: int = 0
    answers: int = 0
    brought: list[tuple[str, float, float]] = field(default_factory=list)


def majority(accuracies: Sequence[float]) -> float:
    """The probability that more than half of independent teachers are right."""
    total = 0.0
    for outcome in range(2 ** len(accuracies)):
        right = [bool(outcome >> k & 1) for k in range(len(accuracies))]
        if 2 * sum(right) > len(accuracies):
            total += math.prod(p if r else 1 - p for p, r in zip(accuracies, right, strict=True))
    return total


def turns(world: World, episodes: int, length: int, seed: int) -> Iterator[SimulatedTurn]:
    """The same for every way of asking."""
    chance = random.Random(f"world {seed}")
    names, shares = [c.name for c in world.contexts], [c.share for c in world.contexts]
    rates = {c.name: c.wrong for c in world.contexts}
    for episode in range(episodes):
        for number in range(length):
            context = chance.choices(names, shares)[0]
            hard = chance.random() < world.hard
            student = _action(chance, world, 1 - rates[context])
            answers = tuple(_action(chance, world, t.accuracy * (0.5 if hard else 1.0)) for t in world.teachers)
            seen = [chance.random() < (world.seen if a else world.alarms) for a in range(1 + world.wrongs)]
            yield SimulatedTurn(str(episode), number, context, student, answers, tuple(seen))


def run(world: World, played: Sequence[SimulatedTurn], gate: GateSettings, rules: Consensus) -> Outcome:
    """Ask about these turns in their order."""
    order = sorted(range(len(world.teachers)), key=lambda k: (world.teachers[k].usd, world.teachers[k].name))
    doors, reliability = Gate(gate), Reliability({teacher.name: 0.85 for teacher in world.teachers})
    outcome, all_of_them = Outcome(), sum(teacher.usd for teacher in world.teachers)
    retries, episode = 0, ""
    for turn in played:
        flagged = turn.error[turn.student]
        retries, episode = retries if turn.episode == episode else 0, turn.episode
        row = _features(turn, flagged, retries)
        retries = retries + 1 if flagged else 0
        look = doors.look(row, all_of_them)
        value = _one(world, turn, order, look, (doors, gate, rules, reliability), outcome, row) if look.ask else 0.0
        outcome.brought.append((turn.episode, value, look.propensity))
    return outcome


_Tools = tuple[Gate, GateSettings, Consensus, Reliability]


def _one(
    world: World,
    turn: SimulatedTurn,
    order: Sequence[int],
    look: Look,
    tools: _Tools,
    outcome: Outcome,
    row: dict[str, float],
) -> float:
    """One turn that is asked about: its pair's value, 0 without one."""
    doors, gate, rules, reliability = tools
    flagged, kind = turn.error[turn.student], "seen" if turn.error[turn.student] else ""
    named = [world.teachers[k] for k in order]
    accuracies = [reliability.accuracy(teacher.name, kind) for teacher in named]
    student = _canonical(turn.student)
    own = -1.0 if flagged else 0.0
    inquiry = Inquiry(student, accuracies, prior_wrong(look, flagged), rules, gate, own)
    heard: list[tuple[int, Heard]] = []
    spent = 0.0
    while (index := inquiry.next()) is not None:
        answer = turn.answers[order[index]]
        value = (-1.0 if turn.error[answer] else 0.0) if world.executes else None
        inquiry.hear(index, _canonical(answer), value)
        heard.append((answer, Heard(_canonical(answer), accuracies[index], value)))
        spent += named[index].usd
        if value is not None:
            reliability.observe(named[index].name, kind, value)
    answers = [each for _, each in heard]
    decision = decide(student, own, answers, rules)
    differed = disagreed(student, own, answers, decision, rules)
    whole = sum(teacher.usd for teacher in world.teachers)
    doors.learn(row, disagreed=differed, paired=bool(decision.kind), share=spent / whole)
    worth = 0.0
    if decision.kind:
        other = heard[decision.answer][0]
        chosen, rejected = (other, turn.student) if decision.kind == "correct" else (turn.student, other)
        worth = pair_value(chosen, rejected, turn.student, world.kept)
    outcome.usd, outcome.value = outcome.usd + spent, outcome.value + worth
    outcome.asked, outcome.answers = outcome.asked + 1, outcome.answers + len(heard)
    outcome.right, outcome.wrong = outcome.right + (worth > 0), outcome.wrong + (worth < 0)
    return worth


def pair_value(chosen: int, rejected: int, student: int, kept: float = 0.0) -> float:
    """See the top of this page; 0 is the right action."""
    if rejected == 0:
        return -1.0
    if chosen != 0:
        return 0.0
    return kept if student == 0 else 1.0


def _action(chance: random.Random, world: World, right: float) -> int:
    if chance.random() < right:
        return 0
    return 1 if world.wrongs == 1 or chance.random() < world.common else chance.randint(2, world.wrongs)


def _canonical(action: int) -> Canonical:
    return Canonical((CanonicalCall(f"do_{action}"),))


def _features(turn: SimulatedTurn, flagged: bool, retries: int) -> dict[str, float]:
    """What the gate sees for real, too: never the truth. A context shows as the tool that was called."""
    return {
        "one": 1.0,
        "error": float(flagged),
        "retries": min(retries, 4) / 4,
        "turn": math.log1p(turn.number) / math.log1p(64),
        f"tool {turn.context}": 1.0,
    }
