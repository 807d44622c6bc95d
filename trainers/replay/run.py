"""``etude replay``: turns stored episodes, turn by turn, into preference pairs, and reports what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ...client import Client
from ...errors import ReplayError
from ...models import Episode
from .ask_policy import Gate, features, total_if_all
from .asked_turn import AskedTurn
from .external_models import Answer, Teacher
from .files import new_files, write_row
from .in_flight import DEFAULT_IN_FLIGHT, MOST_IN_FLIGHT, InFlight, learned_turns, question_key
from .pairs import Decision, Pair, Reliability, decide, disagreed
from .report import Report, TeacherAccount
from .settings import ReplaySettings
from .turns.action_equality import wire_action
from .turns.executor import Executor
from .turns.prefixes import State, states

Write = Callable[[Pair | None, Mapping[str, Any]], None]
"""Writes what became of a turn: its pair, if any, and its row of the log."""


async def replay(
    episodes: Sequence[Episode],
    teachers: Sequence[Teacher],
    client: Client | Sequence[Client] | None,
    out: Path,
    *,
    settings: ReplaySettings,
    tokens: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda number, total: None,
    in_flight: int = DEFAULT_IN_FLIGHT,
) -> Report:
    """Write the pairs to ``out``, a line each, and every turn's propensity and cost to ``OUT.turns.jsonl``.

    ``teachers`` come from ``open_teachers``. ``client`` is connected to a server that plays the episodes' tasks; with
    several clients as many turns are executed at the same time, and with None agreement alone decides. ``tokens`` are
    those of sessions whose episodes that server still stores. ``in_flight`` is the number of turns, from 1 to 32, that
    are asked about at the same time; it does not change the files (see ``in_flight.py``). After an error neither file
    exists. Raises ReplayError (``out`` exists, no teacher answers, the teachers are not those of ``settings``),
    CassetteMiss, and ConnectionLost.
    """
    if {teacher.name for teacher in teachers} != {one.name for one in settings.teachers}:
        raise ReplayError("the teachers are not those of the settings; open them with open_teachers(settings)")
    if not 1 <= in_flight <= MOST_IN_FLIGHT:
        raise ReplayError(f"in_flight must be 1 to {MOST_IN_FLIGHT}, got {in_flight}")
    clients = [] if client is None else [client] if isinstance(client, Client) else list(client)
    replayer = _Replayer(teachers, clients, settings, tokens or {})
    every_state = list(states(episodes, settings.system))
    with new_files(out) as (pairs, turns):

        def write(pair: Pair | None, row: Mapping[str, Any]) -> None:
            progress(replayer.report.turns - 1, len(every_state))
            write_row(turns, row)
            if pair is not None:
                write_row(pairs, pair.model_dump(exclude_defaults=False))

        if every_state:
            await replayer.begin(every_state[0])
        await replayer.replay_all(every_state, in_flight, write)
        progress(len(every_state), len(every_state))
        return replayer.finished_report()


class _Replayer:
    """One replay: the gate and the reliabilities as they learn, the sessions, and the report."""

    def __init__(
        self,
        teachers: Sequence[Teacher],
        clients: Sequence[Client],
        settings: ReplaySettings,
        tokens: Mapping[str, str],
    ) -> None:
        self.teachers, self.settings, self.report = list(teachers), settings, Report()
        self._gate = Gate(settings.gate)
        self._reliability = Reliability({teacher.name: teacher.settings.accuracy for teacher in teachers})
        self._clients, self._tokens = list(clients), tokens
        self._idle: asyncio.Queue[Client] = asyncio.Queue()
        self._ledger = teachers[0].ledger
        self._gains: list[tuple[str, float, float]] = []
        self.report.teachers = {teacher.name: TeacherAccount() for teacher in teachers}

    async def begin(self, first: State) -> None:
        """Raise ReplayError, before any teacher is asked, when the server does not play these episodes.

        Sessions after the first one that the server has no room for are not used.
        """
        if not self._clients:
            return
        if problem := await Executor(self._clients[0], self.settings.value).problem_with(first):
            raise ReplayError(
                f"the server cannot play {first.episode.task_id!r} of this run ({problem}); serve the tasks that the "
                "run was played on, or omit --url to use agreement alone"
            )
        self._idle.put_nowait(self._clients[0])
        checks = (Executor(client, self.settings.value).problem_with(first) for client in self._clients[1:])
        for client, refusal in zip(
            self._clients[1:], await asyncio.gather(*checks, return_exceptions=True), strict=True
        ):
            if refusal:
                await client.close()
            else:
                self._idle.put_nowait(client)

    async def replay_all(self, every_state: Sequence[State], in_flight: int, write: Write) -> None:
        """Replay the turns in order, up to ``in_flight`` at the same time, and ``write`` them in order."""
        flight, started, finished = InFlight(in_flight, self._ledger.fits), list[AskedTurn](), 0

        async def finish(turns: Sequence[AskedTurn]) -> None:
            for turn in turns:
                await flight.finish(turn.number)
                write(*self._finished(turn))

        try:
            for number, state in enumerate(every_state):
                await finish(started[finished : learned_turns(number)])
                finished = max(finished, learned_turns(number))
                key = question_key(state, follows=self.settings.value.follow > 0)
                bounds = [teacher.bound(state) for teacher in self.teachers if not teacher.out]
                bound = (sum(tokens for tokens, _ in bounds), sum(usd for _, usd in bounds))
                await flight.admit(key, bound)
                if self.report.stopped or any(turn.stopped for turn in started[finished:]):
                    break
                started.append(self._look(number, state))
                if started[-1].look.ask:
                    flight.start(number, key, bound, self._ask(started[-1]))
            while finished < len(started) and not self.report.stopped:
                await finish(started[finished : finished + 1])
                finished += 1
            self.report.unreached = len(every_state) - finished
            await flight.drain()
        finally:
            await flight.close()

    def _look(self, number: int, state: State) -> AskedTurn:
        """Let the gate decide whether the teachers are asked about a turn."""
        able = [teacher for teacher in self.teachers if not teacher.out]
        costs = {teacher.name: teacher.expected_usd(state) for teacher in able}
        row = features(state)
        look = self._gate.look(row, sum(costs.values()))
        kind = state.error.kind if state.error else ""
        accuracies = {teacher.name: self._reliability.accuracy(teacher.name, kind) for teacher in self.teachers}
        return AskedTurn(number, state, row, look, able, costs, accuracies, self.settings)

    async def _ask(self, turn: AskedTurn) -> None:
        async with self._session() as client:
            await turn.ask(client, self._tokens)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Client | None]:
        """Yield an idle session, or None without a server."""
        if not self._clients:
            yield None
            return
        client = await self._idle.get()
        try:
            yield client
        finally:
            self._idle.put_nowait(client)

    def _finished(self, turn: AskedTurn) -> tuple[Pair | None, dict[str, Any]]:
        """Learn from a finished turn and count it. Return the pair, if any, and the log's row."""
        self.report.turns += 1
        log_row: dict[str, Any] = {"turn": turn.state.key, "features": turn.row, **turn.look.__dict__}
        if not turn.look.ask:
            self._gains.append((turn.state.episode.episode_id, 0.0, turn.look.propensity))
            return None, log_row
        self._count(turn)
        decision = decide(turn.student, turn.own_value.score, turn.answers, self.settings.consensus)
        pair = self._pair(turn, decision) if decision.kind else None
        self._learn(turn, decision)
        self._gains.append((turn.state.episode.episode_id, float(pair is not None), turn.look.propensity))
        received = [question.answer for question in turn.questions]
        log_row["usd"] = {answer.teacher: answer.usd for answer in received}
        log_row["problems"] = {answer.teacher: answer.problem for answer in received if answer.problem}
        return pair, {**log_row, "kind": decision.kind, "reason": decision.reason}

    def finished_report(self) -> Report:
        """Return the report with its totals. Raises ReplayError when no teacher answered any question."""
        report = self.report
        # Rounded, because a sum of floats depends on the order in which the answers came.
        report.usd, report.tokens = round(self._ledger.usd, 12), self._ledger.tokens
        report.reliability = self._reliability.table()
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

    def _count(self, turn: AskedTurn) -> None:
        """Add a turn to the report, and let the teachers learn from their answers."""
        self.report.questioned += bool(turn.teachers)
        self.report.executed += turn.executed
        self.report.stopped = turn.stopped
        for problem, number in turn.problems.items():
            self.report.not_executed[problem] = self.report.not_executed.get(problem, 0) + number
        by_name = {teacher.name: teacher for teacher in self.teachers}
        answers = [question.answer for question in turn.questions]
        for answer in [*answers, *turn.continuations]:
            by_name[answer.teacher].learn(answer)
        for answer in answers:
            self._count_answer(answer)

    def _count_answer(self, answer: Answer) -> None:
        account = self.report.teachers[answer.teacher]
        if answer.problem != "budget":
            account.questions += 1
            account.problem = answer.problem or account.problem
        account.answered += answer.action is not None
        account.tokens += answer.prompt_tokens + answer.completion_tokens
        account.usd += answer.usd

    def _learn(self, turn: AskedTurn, decision: Decision) -> None:
        for question in turn.questions:
            if question.value is not None:
                self._reliability.observe(question.answer.teacher, turn.kind, question.value.score)
        self.report.reasons[decision.reason] += 1
        self.report.pairs.update([decision.kind] if decision.kind else [])
        if not turn.answers:
            return
        differed = disagreed(turn.student, turn.own_value.score, turn.answers, decision, self.settings.consensus)
        cost, cost_of_all = sum(turn.costs[q.answer.teacher] for q in turn.questions), sum(turn.costs.values())
        share = cost / cost_of_all if cost_of_all else 1.0
        self._gate.learn(turn.row, disagreed=differed, paired=bool(decision.kind), share=share)

    def _pair(self, turn: AskedTurn, decision: Decision) -> Pair:
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
            weights={a.teacher: turn.accuracies[a.teacher] for a in answers},
            values={"student": turn.own_value.score, **{name: value.score for name, value in values.items()}},
            how={"student": turn.own_value.source, **{name: value.source for name, value in values.items()}},
            tokens={a.teacher: (a.prompt_tokens, a.completion_tokens) for a in answers},
            usd={a.teacher: a.usd for a in answers},
            propensity=turn.look.propensity,
        )
