"""A recording of an episode while ``rollout`` plays it, as the training trace that OpenEnv's trainers read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...models import Observation, Reward, State
from ..chat.chat_policy import TemplateChat
from ..chat.templates import answers_of
from ..rollouts.rollout import Rollout, Sample, Span, Written
from .episodes import Episode, Outcome


@dataclass
class Turn:
    """One sampled turn; ``message`` is its text and calls in OpenAI's shape, once ``is_read``."""

    ids: list[int]
    """Ids before the turn."""
    begin: int
    """Index in ``ids`` where the generation prompt begins."""
    sample: Sample
    messages_before: int
    """Number of messages before the turn."""
    message: dict[str, Any]
    is_read: bool = False


class RecordedEpisode:
    """Chat and wire of an episode that has begun; ``rollout`` plays through it, and it records the turns.

    At ``deadline``, in the event loop's time, a turn that is being sampled ends with TimeoutError. The environment is
    never interrupted, so the episode can still be graded.
    """

    def __init__(self, chat: TemplateChat, episode: Episode, first: Observation, deadline: float | None = None) -> None:
        self._chat, self._episode, self._first, self._deadline = chat, episode, first, deadline
        self.turns: list[Turn] = []
        self.messages: list[dict[str, Any]] = []
        self.truncated = False
        """Whether the policy's context was full before the episode was over."""
        self._begin = 0

    # --- rollouts.Chat ------------------------------------------------------------------------------------------

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        """Record the first messages and return their ids."""
        self.messages = [dict(message) for message in messages]
        written = self._chat.prompt(messages, tools)
        self._begin = written.generation
        return written

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        """Sample and record a turn. Raises TimeoutError at the deadline."""
        async with asyncio.timeout_at(self._deadline):
            sample = await self._chat.sample(ids, room)
        self.turns.append(Turn(list(ids), self._begin, sample, len(self.messages), {"role": "assistant"}))
        return sample

    def action(self, ids: Sequence[int]) -> dict[str, Any]:
        """Read the sampled turn and record its message."""
        turn, action = self.turns[-1], self._chat.action(ids)
        turn.message = _openai_message(action, len(self.turns) - 1)
        turn.is_read = True
        return action

    def reply(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> Written:
        """Return the ids of the environment's messages."""
        written = self._chat.reply(ids, messages)
        self._begin = len(self.turns[-1].ids) + len(ids) + written.generation
        return written

    # --- rollouts.Wire ------------------------------------------------------------------------------------------

    async def reset(self, **arguments: Any) -> Observation:
        """Return the first observation: the episode has begun already."""
        return self._first

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play a turn. ``rollout`` ends an episode without room by a step without a turn. Raises ServerError."""
        if not (self.turns and self.turns[-1].is_read):
            await self._episode.settle()
            return Observation(done=True)
        turn = self.turns[-1]
        turn.is_read = False
        observation = await self._episode.step(action)
        answers = answers_of([message.model_dump() for message in observation.messages])
        self.messages += [_with_answered_ids(turn.message, answers), *answers]
        return observation

    async def state(self) -> State:
        """Return an empty state: the result of the episode is its Outcome."""
        return State()

    # --- the trace ----------------------------------------------------------------------------------------------

    def entries(self, model: str, name: str, outcome: Outcome) -> list[dict[str, Any]]:
        """Return one entry per turn for OpenEnv's ``TrainingTrace.from_entries``; ``name`` is the episode's."""
        request = {"model": model, "tools": list(self._first.tools or [])}
        return [
            {
                "prompt_token_ids": turn.ids,
                "completion_token_ids": turn.sample.ids,
                "per_token_logps": turn.sample.logprobs,
                "loss_mask": [0] * len(turn.ids) + [1] * len(turn.sample.ids),
                "request": {**request, "messages": self.messages[: turn.messages_before]},
                "response": {"choices": [{"index": 0, "message": turn.message, "finish_reason": self._finish(turn)}]},
                "metadata": {"node_id": f"{name}:{number}", **_metadata(number, turn, outcome)},
            }
            for number, turn in enumerate(self.turns)
        ]

    def rollout(self, outcome: Outcome) -> Rollout | None:
        """Return the turns so far as ``rollouts.rollout`` records them; None without a turn."""
        if not self.turns:
            return None
        prompt, last = len(self.turns[0].ids), self.turns[-1]
        ids = [*last.ids, *last.sample.ids]
        logprobs, spans = [0.0] * (len(ids) - prompt), list[Span]()
        for turn in self.turns:
            start, end = len(turn.ids), len(turn.ids) + len(turn.sample.ids)
            spans.append(Span(turn.begin, start, end))
            logprobs[start - prompt : end - prompt] = turn.sample.logprobs
        valid = outcome.reward is not None
        return Rollout(
            task_id=outcome.task_id,
            episode_id=outcome.episode_id,
            ids=ids,
            prompt=prompt,
            turns=spans,
            logprobs=logprobs,
            reward=Reward(value=outcome.reward or 0.0, components=outcome.components, valid=valid),
            end=outcome.end,
            truncated=self.truncated,
            error_turns=list(outcome.error_turns),
            findings=list(outcome.findings),
            messages=self.messages,
        )

    def _finish(self, turn: Turn) -> str:
        if not turn.sample.ids or turn.sample.ids[-1] not in self._chat.stops:
            return "length"
        return "tool_calls" if turn.message.get("tool_calls") else "stop"


def _metadata(number: int, turn: Turn, outcome: Outcome) -> dict[str, Any]:
    """Return metadata for the trainer, never for the policy.

    The hint of an ``erring`` turn goes before ``begin`` of its span, that of a ``recovery`` before ``begin`` of the
    next turn's. The three positions of a span count from the episode's first id.
    """
    errors = [error for error in outcome.error_turns if error.turn == number]
    start = len(turn.ids)
    return {
        "turn": number,
        "task_id": outcome.task_id,
        "span": {"begin": turn.begin, "start": start, "end": start + len(turn.sample.ids)},
        "error_turns": [error.model_dump(mode="json") for error in errors],
    }


def _openai_message(action: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a turn in OpenAI's shape; arguments that are not JSON stay text, and a call may lack any part."""
    message: dict[str, Any] = {"role": "assistant", "content": action["text"]}
    calls = []
    for place, call in enumerate(action.get("tool_calls", ())):
        function = {"name": str(call.get("name") or ""), "arguments": _text(call.get("arguments"))}
        calls.append({"id": str(call.get("id") or f"call_{number}_{place}"), "type": "function", "function": function})
    return {**message, "tool_calls": calls} if calls else message


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)


def _with_answered_ids(message: dict[str, Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give a message's calls the ids that the environment used in its answers; changes the message."""
    results = [answer for answer in answers if answer["role"] == "tool"]
    for call, result in zip(message.get("tool_calls", ()), results, strict=False):
        call["id"] = result.get("tool_call_id", call["id"])
    return message
