"""External teachers: models behind endpoints, each asked what it would do in the state that the student was in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

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
from ...llm import LLM, Budget, Cassette, Price, Reply, key_from
from .action_equality import read_answer
from .budget_ledger import Bound, Purse
from .prefixes import Message, State
from .settings import ReplaySettings, TeacherSettings

PATIENCE = 3
"""Questions in a row that an endpoint did not answer, or not to the end: it is asked no more."""
_NOTHING: Bound = (0, 0.0)


@dataclass(frozen=True)
class Answer:
    """What a teacher would do, and what asking took. ``action`` None: it gave no answer, ``problem`` says why."""

    teacher: str
    action: dict[str, Any] | None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    problem: str = ""


class Chat(Protocol):
    """What is asked: ``etude.llm.LLM``, or anything like it."""

    async def chat(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> Reply: ...


@dataclass
class _Usual:
    """What answers took so far. The first is made up: 1000 tokens read, of four bytes each, and 200 written."""

    answers: int = 1
    size: int = 4000
    read: int = 1000
    written: int = 200

    def learn(self, size: int, reply: Reply) -> None:
        """``size``: bytes of the question."""
        self.answers, self.size = self.answers + 1, self.size + size
        self.read, self.written = self.read + reply.prompt_tokens, self.written + reply.completion_tokens

    def tokens(self, size: int) -> tuple[int, int]:
        """Of a question and its answer."""
        return round(size * self.read / self.size), round(self.written / self.answers)


class Teacher:
    """One endpoint. ``out`` says why it is asked no more, once that is so; ``unheard`` counts the questions that got no
    answer, or were not asked for want of budget: another start may have them answered."""

    def __init__(self, settings: TeacherSettings, llm: LLM, purse: Purse) -> None:
        self.settings, self._llm, self.purse = settings, llm, purse
        self.name, self.out, self.unheard = settings.name, "", 0
        self.price = Price(*settings.price)
        self._usual, self._failures = _Usual(), 0
        self._bound, self._held, self._lost = _NOTHING, _NOTHING, 0
        self._sleep, llm.sleep = llm.sleep, self._between_attempts

    async def ask(self, state: State) -> Answer:
        """Raises CassetteMiss, when a cassette is replayed that does not hold the question, and ReplayError, when what
        is paid for cannot be written down; nothing else."""
        messages, tools = self._question(state)
        kept = self._llm.holds(messages, tools)
        try:
            reply = await (self._llm.chat(messages, tools) if kept else self._paid(messages, tools))
        except BudgetSpent:
            return self._unanswered("budget")
        except (EndpointRefused, AccessDenied) as error:
            self.out = in_file(error)
            return self._unanswered(self.out)
        except ContextFull as error:
            return Answer(self.name, None, problem=in_file(error))  # nor will another start have it answered
        except EndpointFailed as error:
            if isinstance(error, EndpointUnavailable):  # another failure may be a matter of this state
                self._failed(in_file(error), "check base_url in the file of teachers, or start again later")
            return self._unanswered(in_file(error))
        self._usual.learn(_size(messages) + _size(tools), reply)
        return self._answer(reply, state)

    def bound(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Bound:
        """Tokens and USD that one question may cost at most: a token is a byte or more of its JSON."""
        prompt = _size(messages) + _size(tools)
        written = self.settings.max_tokens
        return prompt + written, self.price.usd(prompt, written)

    def expected_usd(self, state: State) -> float:
        """What a question costs about, by what this teacher's answers took so far."""
        messages, tools = self._question(state)
        return self.price.usd(*self._usual.tokens(_size(messages) + _size(tools)))

    async def close(self) -> None:
        await self._llm.close()

    def _question(self, state: State) -> tuple[list[Message], list[dict[str, Any]]]:
        """Its messages and tools."""
        return (state.messages(), state.plain_tools()) if self.settings.calls == "native" else (state.texts(), [])

    async def _paid(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Reply:
        """An answer that no cassette holds; what it took is in the purse. Raises LLMError, ReplayError."""
        self._bound, self._lost = self.bound(messages, tools), self._llm.usage.unanswered
        self._begin()
        try:
            reply = await self._llm.chat(messages, tools)
        except LLMError:
            self._came_back()
            raise
        self._came_back(reply.prompt_tokens + reply.completion_tokens, reply.usd)
        return reply

    def _answer(self, reply: Reply, state: State) -> Answer:
        action, problem = read_answer(reply.message, state.episode.tools), ""
        if reply.finish_reason == "length":
            problem = f"cut off at max_tokens = {self.settings.max_tokens}"
            self._failed(problem, "raise max_tokens in the file of teachers")
        else:
            self._failures = 0
            problem = "" if action.get("tool_calls") or action["text"] else "empty"
        return Answer(
            self.name, None if problem else action, reply.prompt_tokens, reply.completion_tokens, reply.usd, problem
        )

    def _unanswered(self, problem: str) -> Answer:
        self.unheard += 1
        return Answer(self.name, None, problem=problem)

    def _failed(self, problem: str, remedy: str) -> None:
        self._failures += 1
        if self._failures == PATIENCE:
            self.out = f"{problem}, {PATIENCE} questions in a row; {remedy}"

    def _begin(self) -> None:
        """What an attempt may cost is on file before it begins. Raises BudgetSpent where that does not fit."""
        if not self.purse.fits(*self._bound):
            raise BudgetSpent("budget")
        self.purse.under_way(self._bound)
        self._held = self._bound

    def _came_back(self, tokens: int = 0, usd: float = 0.0) -> None:
        """The attempt is over. One without a readable answer may be charged for: it counts in full."""
        lost, self._lost = self._llm.usage.unanswered - self._lost, self._llm.usage.unanswered
        self.purse.came_back(self._held, tokens + lost * self._bound[0], usd + lost * self._bound[1])
        self._held = _NOTHING

    async def _between_attempts(self, seconds: float) -> None:
        self._came_back()
        await self._sleep(seconds)
        self._begin()


def open_teachers(
    settings: ReplaySettings, *, replayed: bool = False, charges: Path | None = None, **options: Any
) -> list[Teacher]:
    """In the canonical order: the cheapest first, then by name. ``options`` go to the clients.

    A teacher's cassette is replayed and what it lacks is asked for; ``replayed``: nothing is asked, and what a cassette
    lacks raises CassetteMiss. ``charges``: the file of what was paid for, see ``Purse``. Raises LLMError, ReplayError.
    """
    purse = Purse(settings.budget, kept=charges)
    ordered = sorted(settings.teachers, key=lambda one: (*sorted(one.price, reverse=True), one.name))
    return [Teacher(one, _open(one, replayed, options), purse) for one in ordered]


def _open(settings: TeacherSettings, replayed: bool, options: Mapping[str, Any]) -> LLM:
    if replayed and not settings.cassette:
        raise LLMError(f"the teacher {settings.name} has no cassette to replay: give it cassette = FILE")
    cassette = Cassette(Path(settings.cassette), record=not replayed) if settings.cassette else None
    try:
        key = "" if replayed else key_from(settings.api_key_env, settings.base_url)
    except LLMError as error:
        raise ReplayError(f"the teacher {settings.name}: {in_file(error)}") from None
    return LLM(
        settings.model,
        settings.base_url,
        key,
        price=Price(*settings.price),
        budget=Budget(),
        max_tokens=settings.max_tokens,
        options={} if settings.temperature is None else {"temperature": settings.temperature},
        timeout_s=settings.timeout_s,
        cassette=cassette,
        **options,
    )


def in_file(error: LLMError) -> str:
    """Its message for whoever wrote a file of teachers: what are options elsewhere are keys there."""
    return str(error).replace("--api-key-env", "api_key_env").replace("--base-url", "base_url")


def _size(value: Any) -> int:
    import json

    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))
