"""External teachers: models behind endpoints, each asked what it would do in the state that the student was in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...llm import (
    LLM,
    AccessDenied,
    Budget,
    BudgetSpent,
    Cassette,
    CassetteMiss,
    EndpointFailed,
    EndpointRefused,
    LLMError,
    Price,
    Reply,
    key_from,
)
from .actions import read_answer
from .purse import Bound, Purse
from .settings import ReplayError, ReplaySettings, TeacherSettings
from .states import Message, State

PATIENCE = 3
"""Questions in a row, each of several attempts, after whose failure an endpoint is asked no more."""


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


class Teacher:
    """One endpoint. ``out`` says why it is asked no more, once that is so; ``unheard`` counts the questions that got no
    answer, or were not asked for want of budget: another start may have them answered."""

    def __init__(self, settings: TeacherSettings, llm: LLM, purse: Purse) -> None:
        self.settings, self._llm, self.purse = settings, llm, purse
        self.name, self.out, self.unheard = settings.name, "", 0
        self._failures = 0
        self._bound: Bound = (0, 0.0)
        self._lost = 0
        self.price = Price(*settings.price)
        self._sleep, llm.sleep = llm.sleep, self._between_attempts

    async def ask(self, state: State) -> Answer:
        """Raises CassetteMiss, when a cassette is replayed that does not hold the question, and ReplayError, when what
        was charged for cannot be written down; nothing else."""
        native = self.settings.calls == "native"
        messages, tools = (state.messages(), state.episode.tools) if native else (state.texts(), [])
        bound = self.bound(messages, tools)
        if not self.purse.fits(bound[0], bound[1]):
            return self._unanswered("budget")
        self._bound, self._lost = bound, self._llm.usage.lost
        retries = self._llm.usage.retries
        self.purse.under_way(bound)
        try:
            reply = await self._llm.chat(messages, tools)
        except CassetteMiss:
            self._came_back()
            raise
        except (EndpointRefused, AccessDenied, BudgetSpent) as error:
            self.out = in_file(error)
            self._came_back()
            return self._unanswered(self.out)
        except EndpointFailed as error:
            self._failures += self._llm.usage.retries > retries  # what is refused at once may be a matter of this state
            if self._failures == PATIENCE:
                self.out = f"{in_file(error)}, {PATIENCE} questions in a row; check base_url in the file of teachers"
            self._came_back()
            return self._unanswered(in_file(error))
        self._failures = 0
        self._came_back()
        self.purse.take(reply.prompt_tokens + reply.completion_tokens, reply.usd)
        action = read_answer(reply.message)
        empty = not action.get("tool_calls") and not action["text"]
        problem = "empty" if empty else "cut off" if reply.finish_reason == "length" else ""
        return Answer(
            self.name, None if problem else action, reply.prompt_tokens, reply.completion_tokens, reply.usd, problem
        )

    def bound(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Bound:
        """Tokens and USD that one question may cost at most: a token is a byte or more of its JSON."""
        prompt = _size(messages) + _size(tools)
        written = self.settings.max_tokens
        return prompt + written, self.price.usd(prompt, written)

    def expected_usd(self, state: State, written: float = 200.0) -> float:
        """What a question costs about: four bytes a token, and ``written`` tokens of answer."""
        return self.price.usd(round((_size(state.messages()) + _size(state.episode.tools)) / 4), round(written))

    async def close(self) -> None:
        await self._llm.close()

    def _unanswered(self, problem: str) -> Answer:
        self.unheard += 1
        return Answer(self.name, None, problem=problem)

    def _came_back(self) -> None:
        """Attempts without a readable answer may be charged for: they count in full."""
        lost, self._lost = self._llm.usage.lost - self._lost, self._llm.usage.lost
        self.purse.came_back(self._bound, lost)

    async def _between_attempts(self, seconds: float) -> None:
        """What the last one may cost is on file before the next one begins."""
        self._came_back()
        await self._sleep(seconds)
        self.purse.under_way(self._bound)


def open_teachers(
    settings: ReplaySettings, *, replayed: bool = False, charges: Path | None = None, **options: Any
) -> list[Teacher]:
    """In the canonical order: the cheapest first, then by name. ``options`` go to the clients.

    A teacher's cassette is replayed and what it lacks is asked for; ``replayed``: nothing is asked, and what a cassette
    lacks raises CassetteMiss. ``charges``: the file of what was charged for without an answer, see ``Purse``. Raises
    LLMError and ReplayError.
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
