"""Hints by a model: another one (``llm``), or the policy itself (``introspect``). Checked, cut to length, cached.

The budget is that of the ``llm`` passed in. Where an answer cannot be used, the template's hint takes its place.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...errors import BudgetSpent, EndpointFailed, LLMError
from ...llm import Reply
from ...llm.cassettes import complete_lines
from ...models import AnswerVerifier, ErrorTurn, Hint, Task
from ..foreign import read
from .hint_leaks import reveals
from .prompting import Source, ask, read_hint, texts_before
from .templates import hints_for

OUTCOMES = ("accepted", "failed", "budget", "unreadable", "leaked")
"""How one request for a hint ends; all but the first fall back to the template."""


class Chat(Protocol):
    """The model that is asked: ``etude.llm.LLM``, or anything like it."""

    @property
    def model(self) -> str: ...

    async def chat(self, messages: Sequence[Mapping[str, Any]]) -> Reply: ...


@dataclass(frozen=True)
class WrittenHint:
    """A hint for an ErrorTurn: the model's when ``outcome`` is ``accepted``, else the template's, if it has one.

    ``cached`` says that the answer had been paid for before.
    """

    hint: Hint | None
    outcome: str
    cached: bool


class HintCache:
    """Answers by the hash of the request: a hint, or '' for an answer that could not be read, which was paid for too.

    In memory, and in a file of JSON lines when ``path`` is given, without a last line that was cut off. Raises LLMError
    for a file that cannot be read.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._hints: dict[str, str] = {}
        if path is None or not path.exists():
            return
        try:
            for row in map(json.loads, complete_lines(path, repair=True)):
                self._hints[str(row["key"])] = str(row["hint"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LLMError(f"the hints in {path} cannot be read ({error}): remove the file") from None

    def get(self, key: str) -> str | None:
        return self._hints.get(key)

    def put(self, key: str, hint: str) -> None:
        self._hints[key] = hint
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "hint": hint}) + "\n")


class LLMHints:
    """Writer of hints that asks ``llm`` once for each; other ``settings`` give another answer, so they ask again."""

    def __init__(
        self,
        llm: Chat,
        source: Source = "llm",
        cache: HintCache | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._llm = llm
        self._source: Source = source
        self._settings = dict(settings or {})
        self._cache = HintCache() if cache is None else cache
        self._locks: dict[str, asyncio.Lock] = {}

    async def hint(
        self,
        error: ErrorTurn,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        statement: str,
        secrets: Sequence[str] = (),
        files: Sequence[str] = (),
    ) -> WrittenHint:
        """Return a hint for one ErrorTurn of a transcript, which does not give ``secrets`` away (see ``secrets_of``).

        Raises LLMError when nothing can be asked at all (EndpointRefused, CassetteMiss).
        """
        turns = read(messages, tools)
        text, outcome, cached = await self._text(ask(self._source, error, turns, tools, statement))
        if text and given_away(text, secrets, [statement, *texts_before(error, turns)]):
            outcome = "leaked"
        if outcome == "accepted":
            return WrittenHint(Hint(text=text, source=self._source), outcome, cached)
        templates = hints_for(error, turns, tools, files)
        return WrittenHint(templates[0] if templates else None, outcome, cached)

    async def _text(self, prompt: Sequence[Mapping[str, Any]]) -> tuple[str, str, bool]:
        """Return the model's hint, the outcome, and whether it was cached; equal requests wait for one answer."""
        request = [self._llm.model, self._source, self._settings, prompt]
        key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        async with self._locks.setdefault(key, asyncio.Lock()):
            text, cached = self._cache.get(key), True
            if text is None:
                try:
                    reply = await self._llm.chat(prompt)
                except BudgetSpent:
                    return "", "budget", False
                except EndpointFailed:
                    return "", "failed", False
                text, cached = read_hint(reply.message) or "", False
                self._cache.put(key, text)
        return text, "accepted" if text else "unreadable", cached


def secrets_of(task: Task) -> list[str]:
    """Return what a hint for an episode of ``task`` must not give away."""
    secrets = [task.patch, task.test_patch, *task.FAIL_TO_PASS]
    if isinstance(task.verifier, AnswerVerifier):
        secrets += [task.verifier.answer, *task.verifier.effects.values()]
    return [secret for secret in secrets if secret.strip()]


def given_away(text: str, secrets: Sequence[str], public_texts: Sequence[str]) -> str | None:
    """Return the words of a hint that give a secret away; ``None`` when none do. A short secret counts as a whole."""
    for secret in (secret.strip() for secret in secrets):
        if 4 <= len(secret) <= 200 and "\n" not in secret:
            whole = re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)", re.IGNORECASE)
            if whole.search(text) and not any(map(whole.search, public_texts)):
                return secret
    return reveals(text, secrets, public_texts)
