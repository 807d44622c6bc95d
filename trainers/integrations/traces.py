"""An episode on its way through ``rollout``, turn by turn, as the trace that OpenEnv's trainers read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...models import Observation, State
from ..chat.chat_policy import TemplateChat
from ..chat.templates import answers_of
from ..rollouts.rollout import Sample, Written
from .episodes import Episode, Outcome


@dataclass
class Turn:
    """One sampled turn. ``ids`` are those before it, of which the ones from ``begin`` on are the generation prompt.

    ``asked`` is how many messages it follows; ``message`` is what it says in OpenAI's shape, as far as it was read.
    """

    ids: list[int]
    begin: int
    sample: Sample
    asked: int
    message: dict[str, Any]
    read: bool = False


class Watched:
    """The chat and the wire of an episode that has begun: ``rollout`` plays through it, and it keeps what goes by.

    ``deadline``, in the event loop's time, ends a turn that is being sampled: TimeoutError. What the environment is
    busy with is never cut short, so the episode can still be graded.
    """

    def __init__(self, chat: TemplateChat, episode: Episode, first: Observation, deadline: float | None = None) -> None:
        self._chat, self._episode, self._first, self._deadline = chat, episode, first, deadline
        self.turns: list[Turn] = []
        self.messages: list[dict[str, Any]] = []
        self._begin = 0

    # --- rollouts.Chat ------------------------------------------------------------------------------------------

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        self.messages = [dict(message) for message in messages]
        written = self._chat.prompt(messages, tools)
        self._begin = written.generation
        return written

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        async with asyncio.timeout_at(self._deadline):
            sample = await self._chat.sample(ids, room)
        self.turns.append(Turn(list(ids), self._begin, sample, len(self.messages), {"role": "assistant"}))
        return sample

    def action(self, ids: Sequence[int]) -> dict[str, Any]:
        turn, action = self.turns[-1], self._chat.action(ids)
        turn.message = _said(action, len(self.turns) - 1)
        turn.read = True
        return action

    def reply(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> Written:
        written = self._chat.reply(ids, messages)
        self._begin = len(self.turns[-1].ids) + len(ids) + written.generation
        return written

    # --- rollouts.Wire ------------------------------------------------------------------------------------------

    async def reset(self, **arguments: Any) -> Observation:
        return self._first

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Raises ServerError. A step without a turn is how ``rollout`` ends an episode that has no room left."""
        if not (self.turns and self.turns[-1].read):
            await self._episode.settle()
            return Observation(done=True)
        turn = self.turns[-1]
        turn.read = False
        seen = await self._episode.step(action)
        answers = answers_of([message.model_dump() for message in seen.messages])
        self.messages += [_named(turn.message, answers), *answers]
        return seen

    async def state(self) -> State:
        """Nothing: what the episode came to is its Outcome."""
        return State()

    # --- what went by -------------------------------------------------------------------------------------------

    def entries(self, model: str, name: str, outcome: Outcome) -> list[dict[str, Any]]:
        """A turn each, as OpenEnv's ``TrainingTrace.from_entries`` takes them; ``name`` is the episode's."""
        asked = {"model": model, "tools": list(self._first.tools or [])}
        return [
            {
                "prompt_token_ids": turn.ids,
                "completion_token_ids": turn.sample.ids,
                "per_token_logps": turn.sample.logprobs,
                "loss_mask": [0] * len(turn.ids) + [1] * len(turn.sample.ids),
                "request": {**asked, "messages": self.messages[: turn.asked]},
                "response": {"choices": [{"index": 0, "message": turn.message, "finish_reason": self._finish(turn)}]},
                "metadata": {"node_id": f"{name}:{number}", **_metadata(number, turn, outcome)},
            }
            for number, turn in enumerate(self.turns)
        ]

    def _finish(self, turn: Turn) -> str:
        if not turn.sample.ids or turn.sample.ids[-1] not in self._chat.stops:
            return "length"
        return "tool_calls" if turn.message.get("tool_calls") else "stop"


def _metadata(number: int, turn: Turn, outcome: Outcome) -> dict[str, Any]:
    """For whoever trains, never for the policy. A hint to an ``erring`` turn belongs before ``begin`` of its span, to a
    ``recovery`` before that of the next turn; the three count from the episode's first id."""
    errors = [error for error in outcome.error_turns if error.turn == number]
    start = len(turn.ids)
    return {
        "turn": number,
        "task_id": outcome.task_id,
        "span": {"begin": turn.begin, "start": start, "end": start + len(turn.sample.ids)},
        "error_turns": [error.model_dump(mode="json") for error in errors],
    }


def _said(action: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A turn in OpenAI's shape. Arguments that are no JSON stay the text that they are; a call may lack any part."""
    message: dict[str, Any] = {"role": "assistant", "content": action["text"]}
    calls = [
        {
            "id": str(call.get("id") or f"call_{number}_{place}"),
            "type": "function",
            "function": {"name": str(call.get("name") or ""), "arguments": _text(call.get("arguments"))},
        }
        for place, call in enumerate(action.get("tool_calls", ()))
    ]
    return {**message, "tool_calls": calls} if calls else message


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)


def _named(message: dict[str, Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same message; its calls have the ids that the environment answered them by."""
    results = [answer for answer in answers if answer["role"] == "tool"]
    for call, result in zip(message.get("tool_calls", ()), results, strict=False):
        call["id"] = result.get("tool_call_id", call["id"])
    return message
