"""``etude replay``: turns stored episodes, turn by turn, into preference pairs, and reports what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...client import Client
from ...errors import ReplayError
from ...models import Episode
from .ask_policy import Gate, Inquiry, Look, features, prior_wrong, total_if_all
from .external_models import Answer, Teacher
from .files import new_files, write_row
from .pairs import Decision, Pair, Reliability, WeightedAnswer, decide, disagreed
from .report import Report, TeacherAccount
from .settings import ReplaySettings
from .turns.action_equality import Canonical, canonical, wire_action
from .turns.executor import Executor, Value, recorded
from .turns.prefixes import State, states

_TEXT_ERRORS = frozenset(("false_claim", "style"))
"""Kinds of error that lie in a turn's words, not in its calls."""


@dataclass(frozen=True)
class _Question:
    """One question to a teacher: its answer, the normalised action (None without one) and its executed value."""

    answer: Answer
    action: Canonical | None
    value: Value | None


@dataclass
class _AskedTurn:
    """A turn that is asked about; ``costs`` are the USD that each teacher's answer was expected to cost."""

    state: State
    student: Canonical
    own_value: Value
    look: Look
    costs: Mapping[str, float]
    questions: list[_Question] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Return the kind of the student's error; '' without one."""
        return self.state.error.kind if self.state.error else ""


async def replay(
    episodes: Sequence[Episode],
    teachers: Sequence[Teacher],
    client: Client | None,
    out: Path,
    *,
    settings: ReplaySettings,
    tokens: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda number, total: None,
) -> Report:
    """Write the pairs to ``out``, a line each, and every turn's propensity and cost to ``OUT.turns.jsonl``.

    ``teachers`` come from ``open_teachers``. ``client`` is connected to a server that plays the episodes' tasks; with
    None, agreement alone decides. ``tokens`` are those of sessions whose episodes that server still stores. After an
    error neither file exists. Raises ReplayError (``out`` exists, no teacher answers, the teachers are not those of
    ``settings``), CassetteMiss, and ConnectionLost.
    """
    if {teacher.name for teacher in teachers} != {one.name for one in settings.teachers}:
        raise ReplayError("the teachers are not those of the settings; open them with open_teachers(settings)")
    replayer = _Replayer(teachers, client, settings, tokens or {})
    every_state = list(states(episodes, settings.system))
    with new_files(out) as (pairs, turns):
        if every_state:
            await replayer.begin(every_state[0])
        for number, state in enumerate(every_state):
            progress(number, len(every_state))
            pair, row = await replayer.replay_turn(state)
            write_row(turns, row)
            if pair is not None:
                write_row(pairs, pair.model_dump(exclude_defaults=False))
            if replayer.report.stopped:
                replayer.report.unreached = len(every_state) - number - 1
                break
        progress(len(every_state), len(every_state))
        return replayer.finished_report()


class _Replayer:
    """One replay: the gate and the reliabilities as they learn, the executor, and the report."""

    def __init__(
        self, teachers: Sequence[Teacher], client: Client | None, settings: ReplaySettings, tokens: Mapping[str, str]
    ) -> None:
        self.teachers, self.settings, self.report = list(teachers), settings, Report()
        self._gate = Gate(settings.gate)
        self._reliability = Reliability({teacher.name: teacher.settings.accuracy for teacher in teachers})
        self._executor = None if client is None else Executor(client, settings.value, self._follow, tokens)
        self._ledger = teachers[0].ledger
        self._gains: list[tuple[str, float, float]] = []
        self.report.teachers = {teacher.name: TeacherAccount() for teacher in teachers}

    async def begin(self, first: State) -> None:
        """Raise ReplayError, before any teacher is asked, when the server does not play these episodes."""
        if self._executor is not None and (problem := await self._executor.problem_with(first)):
            raise ReplayError(
                f"the server cannot play {first.episode.task_id!r} of this run ({problem}); serve the tasks that the "
                "run was played on, or omit --url to use agreement alone"
            )

    async def replay_turn(self, state: State) -> tuple[Pair | None, dict[str, Any]]:
        """Let the gate look at a turn, and ask about it if it says so. Return the pair, if any, and the log's row."""
        row = features(state)
        able = [teacher for teacher in self.teachers if not teacher.out]
        costs = {teacher.name: teacher.expected_usd(state) for teacher in able}
        look = self._gate.look(row, sum(costs.values()))
        self.report.turns += 1
        log_row: dict[str, Any] = {"turn": state.key, "features": row, **look.__dict__}
        if not look.ask:
            self._gains.append((state.episode.episode_id, 0.0, look.propensity))
            return None, log_row
        student = canonical(state.action, state.episode.tools)
        turn = _AskedTurn(state, student, await self._students_value(state), look, costs)
        answers = await self._ask(turn, able)
        decision = decide(turn.student, turn.own_value.score, answers, self.settings.consensus)
        pair = self._pair(turn, decision) if decision.kind else None
        self._learn(turn, row, answers, decision)
        self._gains.append((state.episode.episode_id, float(pair is not None), look.propensity))
        received = [question.answer for question in turn.questions]
        log_row["usd"] = {answer.teacher: answer.usd for answer in received}
        log_row["problems"] = {answer.teacher: answer.problem for answer in received if answer.problem}
        return pair, {**log_row, "kind": decision.kind, "reason": decision.reason}

    def finished_report(self) -> Report:
        """Return the report with its totals. Raises ReplayError when no teacher answered any question."""
        report = self.report
        report.usd, report.tokens = self._ledger.usd, self._ledger.tokens
        report.reliability = self._reliability.table()
        report.not_executed = dict(self._executor.problems) if self._executor else {}
        estimate = total_if_all(self._gains)
        report.pairs_if_all = (estimate.value, estimate.low, estimate.high)
        report.regret = estimate.value - sum(report.pairs.values())
        for teacher in self.teachers:
            report.teachers[teacher.name].out = teacher.out
        report.unanswered = sum(teacher.unanswered for teacher in self.teachers)
        accounts = report.teachers.values()
        if report.questioned and not any(account.answered for account in accounts):
            causes = [*(account.out for account in accounts), *(account.problem for account in accounts)]
            raise ReplayError(f"no teacher answered: {next(filter(None, causes), 'the budget is too small; raise it')}")
        return report

    async def _students_value(self, state: State) -> Value:
        """Return the value of the student's action: the recorded one, unless execution can show more."""
        value = recorded(state)
        if self._executor is None or value.score or not self._executor.looks_ahead:
            return value
        self.report.executed += 1
        return await self._executor.value(state, state.action) or value

    async def _ask(self, turn: _AskedTurn, able: Sequence[Teacher]) -> list[WeightedAnswer]:
        """Ask the teachers, the cheapest first, until the answer is clear. Return the answers with an action."""
        prior = prior_wrong(turn.look, turn.state.error is not None)
        accuracies = [self._reliability.accuracy(teacher.name, turn.kind) for teacher in able]
        rules, gate = self.settings.consensus, self.settings.gate
        inquiry = Inquiry(turn.student, accuracies, prior, rules, gate, turn.own_value.score)
        self.report.questioned += bool(able)
        while (index := inquiry.next()) is not None:
            answer = await able[index].ask(turn.state)
            self._count(answer)
            action = None if answer.action is None else canonical(answer.action, turn.state.episode.tools)
            value = None if answer.action is None or action is None else await self._value(turn, answer.action, action)
            turn.questions.append(_Question(answer, action, value))
            inquiry.hear(index, action, None if value is None else value.score)
        if not able or (turn.questions and all(question.answer.problem == "budget" for question in turn.questions)):
            self.report.stopped = "no teacher is left to ask" if not able else "the budget is spent"
        return list(inquiry.answers.values())

    def _count(self, answer: Answer) -> None:
        account = self.report.teachers[answer.teacher]
        if answer.problem != "budget":
            account.questions += 1
            account.problem = answer.problem or account.problem
        account.answered += answer.action is not None
        account.tokens += answer.prompt_tokens + answer.completion_tokens
        account.usd += answer.usd

    async def _value(self, turn: _AskedTurn, raw_action: dict[str, Any], action: Canonical) -> Value | None:
        """Return the value of an answer; None without a server.

        An answer that is the student's action, or another teacher's, is not played again. The exception is a student
        whose error lies in the words beside its calls: of an answer only the calls count.
        """
        if self._executor is None:
            return None
        if action == turn.student and not (action.calls and turn.own_value.error in _TEXT_ERRORS):
            return turn.own_value
        for question in turn.questions:
            if question.action == action:
                return question.value
        self.report.executed += 1
        return await self._executor.value(turn.state, wire_action(raw_action))

    async def _follow(self, state: State) -> dict[str, Any] | None:
        """Return the next action, from the cheapest teacher."""
        able = [teacher for teacher in self.teachers if not teacher.out]
        return (await able[0].ask(state)).action if able else None

    def _learn(
        self, turn: _AskedTurn, row: Mapping[str, float], answers: Sequence[WeightedAnswer], decision: Decision
    ) -> None:
        for question in turn.questions:
            if question.value is not None:
                self._reliability.observe(question.answer.teacher, turn.kind, question.value.score)
        self.report.reasons[decision.reason] += 1
        self.report.pairs.update([decision.kind] if decision.kind else [])
        if not answers:
            return
        differed = disagreed(turn.student, turn.own_value.score, answers, decision, self.settings.consensus)
        cost, cost_of_all = sum(turn.costs[q.answer.teacher] for q in turn.questions), sum(turn.costs.values())
        share = cost / cost_of_all if cost_of_all else 1.0
        self._gate.learn(row, disagreed=differed, paired=bool(decision.kind), share=share)

    def _pair(self, turn: _AskedTurn, decision: Decision) -> Pair:
        answered = [question.answer for question in turn.questions if question.action is not None]
        action = answered[decision.answer].action
        assert action is not None and decision.agreement is not None
        students, other = wire_action(turn.state.action), wire_action(action)
        chosen, rejected = (other, students) if decision.kind == "correct" else (students, other)
        answers = [question.answer for question in turn.questions]
        values = {question.answer.teacher: question.value for question in turn.questions if question.value is not None}
        return Pair(
            kind=decision.kind or "correct",
            episode_id=turn.state.episode.episode_id,
            task_id=turn.state.episode.task_id,
            turn=turn.state.turn,
            messages=turn.state.messages(decoded=True),
            tools=turn.state.episode.tools,
            chosen=chosen,
            rejected=rejected,
            error=turn.kind,
            reason=decision.reason if values else f"{decision.reason}, by agreement alone",
            share=decision.agreement.share,
            margin=decision.agreement.margin,
            teachers={a.teacher: None if a.action is None else wire_action(a.action) for a in answers},
            weights={a.teacher: self._reliability.accuracy(a.teacher, turn.kind) for a in answers},
            values={"student": turn.own_value.score, **{name: value.score for name, value in values.items()}},
            how={"student": turn.own_value.source, **{name: value.source for name, value in values.items()}},
            tokens={a.teacher: (a.prompt_tokens, a.completion_tokens) for a in answers},
            usd={a.teacher: a.usd for a in answers},
            propensity=turn.look.propensity,
        )
