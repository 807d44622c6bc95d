"""The language model that a generator may ask.

A generator that asks a model derives from ``AsksModel``; ``generate`` gives it the endpoint that ``--llm`` names.
Answers are recorded in the folder of the task set, so a run that is repeated or resumed asks nothing twice and writes
the same rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..errors import NotApplicable
from ..llm import LLM, Cassette, key_from

ANSWERS = "answers.jsonl"
"""Recorded answers, in the folder of a task set."""


@dataclass(frozen=True)
class ModelEndpoint:
    """One model behind an OpenAI-compatible endpoint."""

    url: str
    """Address of the endpoint."""
    model: str
    """Name of the model, as the endpoint knows it."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds its key; an endpoint on this machine needs none."""
    answers: Path | None = None
    """File of recorded answers; None records nothing."""

    def ask(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str:
        """Return the text of one answer; empty when it has none. ``options`` are added to the request.

        The same request gets the answer that was recorded. Raises LLMError.
        """
        return asyncio.run(self._ask(messages, options))

    def client(self, **options: Any) -> LLM:
        """Return a client that records its answers, for several questions; ``options`` are added to each request.

        Raises LLMError.
        """
        cassette = None if self.answers is None else Cassette(self.answers, record=True)
        key = key_from(self.api_key_env, self.url)
        return LLM(self.model, self.url, key, cassette=cassette, options=options)

    async def _ask(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
        async with self.client(**options) as llm:
            reply = await llm.chat(messages)
        text = reply.message.get("content")
        return text if isinstance(text, str) else ""


class AsksModel:
    """Base of a generator that asks a language model. Rows should record the model's name among the knobs."""

    name: ClassVar[str]
    endpoint: ModelEndpoint | None = None
    """The endpoint to ask; None when the user gave none."""

    def required_endpoint(self) -> ModelEndpoint:
        """Return the endpoint. Raises NotApplicable without one, so that ``all`` leaves the generator out."""
        if self.endpoint is None:
            raise NotApplicable(f"{self.name} asks a language model; name its endpoint with --llm URL --model NAME")
        return self.endpoint
