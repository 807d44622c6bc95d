"""External teachers: models behind endpoints, each asked what it would do in the state that the student was in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import (
    AccessDenied,
    BudgetSpent,
    ContextFull,
    EndpointFailed,
    EndpointRefused,
    EndpointUnavailable,
    LLMError,
    ReplayError,
)
from ...llm import LLM, Cassette, Price, Reply, key_from
from ...llm.answers import size
from ...llm.budget import Cost
from .budget_ledger import BudgetLedger
from .settings import ReplaySettings, TeacherSettings
from .turns.action_equality import read_answer
from .turns.prefixes import Message, State

PATIENCE = 3
"""Questions in a row without a complete answer after which a teacher is dropped."""


@dataclass(frozen=True)
class Answer:
    """A teacher's answer and its cost; ``problem`` says why ``action`` is None."""

    teacher: str
    action: dict[str, Any] | None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    problem: str = ""
    question_bytes: int = 0
    """Size of the question; 0 when no reply came."""
    cut_off: bool = False
    """Whether the reply ended at ``max_tokens``."""
    retry: bool = False
    """Whether another start may get an answer."""


@dataclass
class _AverageAnswer:
    """Running sums of a teacher's answers; they start with an invented answer: 4000 bytes read, 200 tokens written."""

    answers: int = 1
    question_bytes: int = 4000
    tokens_read: int = 1000
    tokens_written: int = 200

    def learn(self, answer: Answer) -> None:
        self.answers, self.question_bytes = self.answers + 1, self.question_bytes + answer.question_bytes
        self.tokens_read += answer.prompt_tokens
        self.tokens_written += answer.completion_tokens

    def tokens(self, question_bytes: int) -> tuple[int, int]:
        """Estimate the tokens read and written for a question of this size."""
        read = round(question_bytes * self.tokens_read / self.question_bytes)
        return read, round(self.tokens_written / self.answers)


class Teacher:
    """One endpoint, which several questions may wait for at the same time.

    ``out`` says why it was dropped, '' when it was not. ``unanswered`` counts the questions that another start
    may have answered: those without an answer, and those that the budget did not allow.
    """

    def __init__(self, settings: TeacherSettings, llm: LLM, ledger: BudgetLedger, limit: asyncio.Semaphore) -> None:
        self.settings, self.ledger, self._llm, self._limit = settings, ledger, llm, limit
        self.name, self.out, self.unanswered = settings.name, "", 0
        self._average, self._unreachable, self._cut_off = _AverageAnswer(), 0, 0

    async def ask(self, state: State) -> Answer:
        """Ask for the action in a state. Raises CassetteMiss when a replayed cassette lacks the question, and
        ReplayError when the spending cannot be written down; nothing else.

        An endpoint that refuses, or that is unreachable ``PATIENCE`` times in a row, is dropped at once. All else that
        follows from an answer waits for ``learn``.
        """
        messages, tools = self._question(state)
        try:
            async with self._limit:
                reply = await self._llm.chat(messages, tools)
        except BudgetSpent:
            return self._no_answer("budget")
        except (EndpointRefused, AccessDenied) as error:
            self.out = with_file_keys(error)
            return self._no_answer(self.out)
        except ContextFull as error:  # another start would fare no better
            return Answer(self.name, None, problem=with_file_keys(error))
        except EndpointFailed as error:
            if isinstance(error, EndpointUnavailable):  # another failure may depend on this state
                self._unreachable += 1
                if self._unreachable == PATIENCE:
                    remedy = "check base_url in the file of teachers, or start again later"
                    self.out = f"{with_file_keys(error)}, {PATIENCE} questions in a row; {remedy}"
            return self._no_answer(with_file_keys(error))
        self._unreachable = 0
        return self._answer(reply, state, size(messages) + size(tools))

    def learn(self, answer: Answer) -> None:
        """Learn from an answer: the expected cost, and whether the teacher's answers are always cut off.

        Call it in the order of the turns, so that what is learned does not depend on which answer came first.
        """
        self.unanswered += answer.retry
        if answer.question_bytes:
            self._average.learn(answer)
            self._cut_off = self._cut_off + 1 if answer.cut_off else 0
        if answer.cut_off and self._cut_off == PATIENCE:
            self.out = f"{answer.problem}, {PATIENCE} questions in a row; raise max_tokens in the file of teachers"

    def expected_usd(self, state: State) -> float:
        """Estimate the cost of a question from what this teacher's answers took so far."""
        messages, tools = self._question(state)
        return self._llm.price.usd(*self._average.tokens(size(messages) + size(tools)))

    def bound(self, state: State) -> Cost:
        """Return the most tokens and USD that one attempt at a question may cost; nothing for a recorded answer."""
        question = self._question(state)
        return (0.0, 0.0) if self._llm.holds(*question) else self._llm.bound(*question)

    async def close(self) -> None:
        """Close the connections."""
        await self._llm.close()

    def _question(self, state: State) -> tuple[list[Message], list[dict[str, Any]]]:
        """Return the messages and the tools of a question."""
        return (state.messages(), state.plain_tools()) if self.settings.calls == "native" else (state.texts(), [])

    def _answer(self, reply: Reply, state: State, question_bytes: int) -> Answer:
        action, cut_off = read_answer(reply.message, state.episode.tools), reply.finish_reason == "length"
        problem = f"cut off at max_tokens = {self.settings.max_tokens}" if cut_off else ""
        if not cut_off:
            problem = "" if action.get("tool_calls") or action["text"] else "empty"
        usage = (reply.prompt_tokens, reply.completion_tokens, reply.usd)
        return Answer(self.name, None if problem else action, *usage, problem, question_bytes, cut_off)

    def _no_answer(self, problem: str) -> Answer:
        return Answer(self.name, None, problem=problem, retry=True)


def open_teachers(
    settings: ReplaySettings, *, replayed: bool = False, charges: Path | None = None, **options: Any
) -> list[Teacher]:
    """Return the teachers in the canonical order: the cheapest first, then by name. ``options`` go to the clients.

    A teacher's cassette is replayed, and what it lacks is asked for. ``replayed``: nothing is asked for, and a missing
    answer raises CassetteMiss. ``charges`` is the file of the ``BudgetLedger``. Raises LLMError, ReplayError.
    """
    ledger = BudgetLedger(settings.budget, charges)
    ordered = sorted(settings.teachers, key=lambda one: (*sorted(one.price, reverse=True), one.name))
    least: dict[str, int] = {}
    for one in ordered:
        least[one.base_url] = min(one.in_flight, least.get(one.base_url, one.in_flight))
    limits = {base_url: asyncio.Semaphore(most) for base_url, most in least.items()}
    return [Teacher(one, _open(one, ledger, replayed, options), ledger, limits[one.base_url]) for one in ordered]


def _open(settings: TeacherSettings, ledger: BudgetLedger, replayed: bool, options: Mapping[str, Any]) -> LLM:
    if replayed and not settings.cassette:
        raise LLMError(f"the teacher {settings.name} has no cassette to replay; give it cassette = FILE")
    cassette = Cassette(Path(settings.cassette), record=not replayed) if settings.cassette else None
    try:
        key = "" if replayed else key_from(settings.api_key_env, settings.base_url)
    except LLMError as error:
        raise ReplayError(f"the teacher {settings.name}: {with_file_keys(error)}") from None
    return LLM(
        settings.model,
        settings.base_url,
        key,
        price=Price(*settings.price),
        max_tokens=settings.max_tokens,
        options={} if settings.temperature is None else {"temperature": settings.temperature},
        timeout_s=settings.timeout_s,
        concurrency=settings.in_flight,
        cassette=cassette,
        shared_meter=ledger,
        **options,
    )


def with_file_keys(error: LLMError) -> str:
    """Return an error's message with the keys of the file of teachers in place of command-line options."""
    return str(error).replace("--api-key-env", "api_key_env").replace("--base-url", "base_url")
