"""A ``Chat`` whose ids are characters, around a policy that answers messages with a message: no model, no torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etude.trainers.rollouts.rollout import Sample, Written

Policy = Callable[[list[dict[str, Any]], Sequence[Mapping[str, Any]]], dict[str, Any]]
GENERATION = "\nassistant: "


def ids_of(text: str) -> list[int]:
    return [ord(character) for character in text]


class LetterChat:
    """Plays one episode at a time. A sampled turn is the JSON of the policy's message."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._messages: list[dict[str, Any]] = []
        self._tools: Sequence[Mapping[str, Any]] = []

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        self._messages, self._tools = [dict(message) for message in messages], tools
        return self._written(messages)

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        message = self._policy(self._messages, self._tools)
        self._messages.append(message)
        sampled = ids_of(json.dumps(message))[:room]
        return Sample(sampled, [-0.5] * len(sampled))

    def action(self, ids: Sequence[int]) -> dict[str, Any]:
        message = json.loads("".join(map(chr, ids)))
        return {"text": message["content"], "tool_calls": message.get("tool_calls", [])}

    def reply(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> Written:
        self._messages += [dict(message) for message in messages]
        return self._written(messages)

    def _written(self, messages: Sequence[Mapping[str, Any]]) -> Written:
        text = "".join(f"\n{message['role']}: {message['content']}" for message in messages)
        return Written(ids_of(text + GENERATION), len(text))
