"""One turn of a replay: the questions about it, and the executed values of the answers.

Nothing here changes what other turns are decided with, so several turns can be asked about at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...client import Client
from .ask_policy import Features, Inquiry, Look, prior_wrong
from .external_models import Answer, Teacher
from .pairs import WeightedAnswer
from .settings import ReplaySettings
from .turns.action_equality import Canonical, canonical, wire_action
from .turns.executor import Executor, Value, recorded
from .turns.prefixes import State

_TEXT_ERRORS = frozenset(("false_claim", "style"))
"""Kinds of error that lie in a turn's words, not in its calls."""


@dataclass(frozen=True)
class Question:
    """One question to a teacher: its answer, the normalised action (None without one) and its executed value."""

    answer: Answer
    action: Canonical | None
    value: Value | None


@dataclass
class AskedTurn:
    """A turn, how the gate decided on it, and what came of the questions about it."""

    number: int
    state: State
    row: Features
    """Features that the gate decided with."""
    look: Look
    """The gate's decision."""
    teachers: Sequence[Teacher]
    """Teachers that are not dropped, the cheapest first."""
    costs: Mapping[str, float]
    """USD that each teacher's answer is expected to cost."""
    accuracies: Mapping[str, float]
    """Each teacher's accuracy at the student's kind of error, before this turn."""
    settings: ReplaySettings
    student: Canonical = field(init=False)
    own_value: Value = field(init=False)
    """Value of the student's action."""
    questions: list[Question] = field(default_factory=list)
    continuations: list[Answer] = field(default_factory=list)
    """Answers of the turns that were played after an action (``value.follow``)."""
    answers: list[WeightedAnswer] = field(default_factory=list)
    """Answers with an action, in the order of the teachers that gave them."""
    executed: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    """Number of actions that could not be executed, by reason."""
    stopped: str = ""
    """Why no later turn can be asked about; '' when one can."""
    _executor: Executor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.student = canonical(self.state.action, self.state.episode.tools)
        self.own_value = recorded(self.state)

    @property
    def kind(self) -> str:
        """Return the kind of the student's error; '' without one."""
        return self.state.error.kind if self.state.error else ""

    async def ask(self, client: Client | None, tokens: Mapping[str, str]) -> None:
        """Ask the teachers, the cheapest first, until the answer is clear.

        ``client`` is a session that no other turn uses meanwhile; with None, nothing is executed.
        Raises CassetteMiss, ReplayError and ConnectionLost.
        """
        if client is not None:
            self._executor = Executor(client, self.settings.value, self._follow, tokens)
        await self._look_ahead()
        prior = prior_wrong(self.look, self.state.error is not None)
        accuracies = [self.accuracies[teacher.name] for teacher in self.teachers]
        rules, gate = self.settings.consensus, self.settings.gate
        inquiry = Inquiry(self.student, accuracies, prior, rules, gate, self.own_value.score)
        while (index := inquiry.next()) is not None:
            answer = await self.teachers[index].ask(self.state)
            action = None if answer.action is None else canonical(answer.action, self.state.episode.tools)
            value = None if answer.action is None or action is None else await self._value(answer.action, action)
            self.questions.append(Question(answer, action, value))
            inquiry.hear(index, action, None if value is None else value.score)
        self.answers = list(inquiry.answers.values())
        if not self.teachers:
            self.stopped = "no teacher is left to ask"
        elif self.questions and all(question.answer.problem == "budget" for question in self.questions):
            self.stopped = "the budget is spent"
        if self._executor is not None:
            self.problems = dict(self._executor.problems)

    async def _look_ahead(self) -> None:
        """Execute the student's action where that can show more than the stored episode does."""
        if self._executor is None or self.own_value.score or not self._executor.looks_ahead:
            return
        self.executed += 1
        self.own_value = await self._executor.value(self.state, self.state.action) or self.own_value

    async def _value(self, raw_action: dict[str, Any], action: Canonical) -> Value | None:
        """Return the value of an answer; None without a server.

        An answer that is the student's action, or another teacher's, is not played again. The exception is a student
        whose error lies in the words beside its calls: of an answer only the calls count.
        """
        if self._executor is None:
            return None
        if action == self.student and not (action.calls and self.own_value.error in _TEXT_ERRORS):
            return self.own_value
        for question in self.questions:
            if question.action == action:
                return question.value
        self.executed += 1
        return await self._executor.value(self.state, wire_action(raw_action))

    async def _follow(self, state: State) -> dict[str, Any] | None:
        """Return the next action, from the cheapest teacher."""
        able = [teacher for teacher in self.teachers if not teacher.out]
        if not able:
            return None
        self.continuations.append(await able[0].ask(state))
        return self.continuations[-1].action
