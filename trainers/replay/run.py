"""``etude replay``: stored episodes, turn by turn, into preference pairs, with an account of what they took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...client import Client
from ...errors import ReplayError
from ...models import Episode
from .action_equality import Canonical, canonical, wire
from .ask_policy import Gate, Inquiry, Look, features, prior_wrong, total_if_all
from .budget_ledger import Purse
from .executor import Executor, Value, recorded
from .external_models import Answer, Teacher
from .files import write, written
from .pairs import Decision, Heard, Pair, Reliability, decide, disagreed
from .prefixes import State, states
from .report import Report
from .settings import ReplaySettings

_SAID = frozenset(("false_claim", "style"))


@dataclass
class _Turn:
    """One turn that is asked about. ``costs``: USD that each teacher's answer was to take."""

    state: State
    student: Canonical
    own: Value
    look: Look
    costs: Mapping[str, float]
    answers: list[Answer] = field(default_factory=list)
    actions: list[Canonical | None] = field(default_factory=list)
    values: list[Value | None] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.state.error.kind if self.state.error else ""

    def heard(self) -> list[int]:
        return [index for index, action in enumerate(self.actions) if action is not None]


async def replay(
    episodes: Sequence[Episode],
    teachers: Sequence[Teacher],
    client: Client | None,
    out: Path,
    *,
    settings: ReplaySettings,
    tokens: Mapping[str, str] | None = None,
    entropies: Mapping[str, float] | None = None,
    progress: Callable[[int, int], None] = lambda done, all_of_them: None,
) -> Report:
    """Write pairs to ``out``, a line each, and every turn's propensity and cost to ``OUT.turns.jsonl``; or neither.

    ``teachers`` are ``open_teachers``'; ``client`` is connected to a server that plays the episodes' tasks, or None,
    when agreement alone must do. ``tokens``: of sessions whose episodes that server still keeps. ``entropies``: the
    student's, by ``EPISODE:TURN``. Raises ReplayError (``out`` is there already, no teacher answers, the teachers are
    not those of ``settings``), CassetteMiss, and ConnectionLost.
    """
    if {teacher.name for teacher in teachers} != {one.name for one in settings.teachers}:
        raise ReplayError("the teachers are not those of the settings: open them with open_teachers(settings)")
    replayer = _Replayer(teachers, client, settings, tokens or {})
    every = list(states(episodes, settings.system))
    with written(out) as (pairs, turns):
        if every:
            await replayer.begin(every[0])
        for number, state in enumerate(every):
            progress(number, len(every))
            look, pair, row = await replayer.one(state, (entropies or {}).get(state.key))
            write(turns, row)
            if pair is not None:
                write(pairs, pair.model_dump(exclude_defaults=False))
            if replayer.report.stopped:
                replayer.report.unreached = len(every) - number - 1
                break
        progress(len(every), len(every))
        return replayer.finished()


class _Replayer:
    def __init__(
        self, teachers: Sequence[Teacher], client: Client | None, settings: ReplaySettings, tokens: Mapping[str, str]
    ) -> None:
        self.teachers, self.settings, self.report = list(teachers), settings, Report()
        self._gate = Gate(settings.gate)
        self._reliability = Reliability({teacher.name: teacher.settings.accuracy for teacher in teachers})
        self._executor = None if client is None else Executor(client, settings.value, self._further, tokens)
        self._purse: Purse = teachers[0].purse
        self._brought: list[tuple[str, float, float]] = []
        for teacher in teachers:
            account = {"asked": 0, "answered": 0, "tokens": 0, "usd": 0.0, "problem": "", "out": ""}
            self.report.teachers[teacher.name] = account

    async def begin(self, first: State) -> None:
        """Raises ReplayError, before anybody is asked, for a server that does not play these episodes."""
        if self._executor is not None and (problem := await self._executor.problem_with(first)):
            raise ReplayError(
                f"the server cannot play {first.episode.task_id!r} of this run ({problem}): serve the tasks that the "
                "run was played on, or leave --url out and let agreement do"
            )

    async def one(self, state: State, entropy: float | None) -> tuple[Look, Pair | None, dict[str, Any]]:
        """A turn: looked at, perhaps asked about, perhaps a pair, and its line in the log."""
        row = features(state, entropy)
        able = [teacher for teacher in self.teachers if not teacher.out]
        costs = {teacher.name: teacher.expected_usd(state) for teacher in able}
        look = self._gate.look(row, sum(costs.values()))
        self.report.turns += 1
        told: dict[str, Any] = {"turn": state.key, "features": row, **look.__dict__}
        if not look.ask:
            self._brought.append((state.episode.episode_id, 0.0, look.propensity))
            return look, None, told
        turn = _Turn(state, canonical(state.action, state.episode.tools), await self._own(state), look, costs)
        await self._ask(turn, able)
        heard = self._heard(turn)
        decision = decide(turn.student, turn.own.score, heard, self.settings.consensus)
        pair = self._pair(turn, decision) if decision.kind else None
        self._learn(turn, row, heard, decision)
        self._brought.append((state.episode.episode_id, float(pair is not None), look.propensity))
        told["usd"] = {answer.teacher: answer.usd for answer in turn.answers}
        told["problems"] = {answer.teacher: answer.problem for answer in turn.answers if answer.problem}
        return look, pair, {**told, "kind": decision.kind, "reason": decision.reason}

    def finished(self) -> Report:
        report = self.report
        report.usd, report.tokens = self._purse.usd, self._purse.tokens
        report.reliability = self._reliability.table()
        report.not_executed = dict(self._executor.problems) if self._executor else {}
        estimate = total_if_all(self._brought)
        report.pairs_if_all = (estimate.value, estimate.low, estimate.high)
        report.regret = estimate.value - sum(report.pairs.values())
        for teacher in self.teachers:
            report.teachers[teacher.name]["out"] = teacher.out
        report.unheard = sum(teacher.unheard for teacher in self.teachers)
        if report.asked and not any(each["answered"] for each in report.teachers.values()):
            accounts = report.teachers.values()
            whys = [*(each["out"] for each in accounts), *(each["problem"] for each in accounts)]
            raise ReplayError(f"no teacher answered: {next(filter(None, whys), 'the budget is too small')}")
        return report

    async def _own(self, state: State) -> Value:
        """The student's action: what the episode tells, unless more can be found out."""
        told = recorded(state)
        if self._executor is None or told.score or not self._executor.looks_ahead:
            return told
        self.report.executed += 1
        return await self._executor.value(state, state.action) or told

    async def _ask(self, turn: _Turn, able: Sequence[Teacher]) -> None:
        """The cheapest first, until it is clear."""
        wrong = prior_wrong(turn.look, turn.state.error is not None)
        accuracies = [self._reliability.accuracy(teacher.name, turn.kind) for teacher in able]
        rules, gate = self.settings.consensus, self.settings.gate
        inquiry = Inquiry(turn.student, accuracies, wrong, rules, gate, turn.own.score)
        self.report.asked += bool(able)
        while (index := inquiry.next()) is not None:
            answer = await able[index].ask(turn.state)
            account = self.report.teachers[answer.teacher]
            if answer.problem != "budget":
                account["asked"] += 1
                account["problem"] = answer.problem or account["problem"]
            account["answered"] += answer.action is not None
            account["tokens"] += answer.prompt_tokens + answer.completion_tokens
            account["usd"] += answer.usd
            action = None if answer.action is None else canonical(answer.action, turn.state.episode.tools)
            value = None if answer.action is None or action is None else await self._value(turn, answer.action, action)
            turn.answers.append(answer)
            turn.actions.append(action)
            turn.values.append(value)
            inquiry.hear(index, action, None if value is None else value.score)
        if not able or (turn.answers and all(answer.problem == "budget" for answer in turn.answers)):
            self.report.stopped = "no teacher is left to ask" if not able else "the budget is spent"

    async def _value(self, turn: _Turn, given: dict[str, Any], action: Canonical) -> Value | None:
        """An answer that is the student's, or another's, is not played again; unless it was what the student said
        beside its calls that was wrong: of an answer, calls alone count."""
        if self._executor is None:
            return None
        if action == turn.student and not (action.calls and turn.own.error in _SAID):
            return turn.own
        for known, value in zip(turn.actions, turn.values, strict=True):
            if known == action:
                return value
        self.report.executed += 1
        return await self._executor.value(turn.state, wire(given))

    async def _further(self, state: State) -> dict[str, Any] | None:
        """The cheapest teacher plays on."""
        able = [teacher for teacher in self.teachers if not teacher.out]
        return (await able[0].ask(state)).action if able else None

    def _heard(self, turn: _Turn) -> list[Heard]:
        return [
            Heard(action, self._reliability.accuracy(turn.answers[i].teacher, turn.kind), _score(turn.values[i]))
            for i, action in enumerate(turn.actions)
            if action is not None
        ]

    def _learn(self, turn: _Turn, row: Mapping[str, float], heard: Sequence[Heard], decision: Decision) -> None:
        for answer, value in zip(turn.answers, turn.values, strict=True):
            if value is not None:
                self._reliability.observe(answer.teacher, turn.kind, value.score)
        self.report.reasons[decision.reason] += 1
        self.report.pairs.update([decision.kind] if decision.kind else [])
        if not heard:
            return
        differed = disagreed(turn.student, turn.own.score, heard, decision, self.settings.consensus)
        whole = sum(turn.costs.values())
        share = sum(turn.costs[answer.teacher] for answer in turn.answers) / whole if whole else 1.0
        self._gate.learn(row, disagreed=differed, paired=bool(decision.kind), share=share)

    def _pair(self, turn: _Turn, decision: Decision) -> Pair:
        answer = turn.answers[turn.heard()[decision.answer]]
        assert answer.action is not None and decision.agreement is not None
        own, other = wire(turn.state.action), wire(answer.action)
        chosen, rejected = (other, own) if decision.kind == "correct" else (own, other)
        named = {a.teacher: v for a, v in zip(turn.answers, turn.values, strict=True) if v is not None}
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
            reason=decision.reason if named else f"{decision.reason}, by agreement alone",
            share=decision.agreement.share,
            margin=decision.agreement.margin,
            teachers={each.teacher: None if each.action is None else wire(each.action) for each in turn.answers},
            weights={a.teacher: self._reliability.accuracy(a.teacher, turn.kind) for a in turn.answers},
            values={"student": turn.own.score, **{name: value.score for name, value in named.items()}},
            how={"student": turn.own.how, **{name: value.how for name, value in named.items()}},
            tokens={each.teacher: (each.prompt_tokens, each.completion_tokens) for each in turn.answers},
            usd={each.teacher: each.usd for each in turn.answers},
            propensity=turn.look.propensity,
        )


def _score(value: Value | None) -> float | None:
    return None if value is None else value.score
