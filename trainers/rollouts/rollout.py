"""One episode, played by a policy through the client, as the token ids that a trainer learns from.

``rollout(task, chat, client)`` needs the client only: any framework that turns messages into ids and ids into more ids
(a ``Chat``) can use it. Ids are recorded as they were sampled and as the chat template wrote them between the turns.
Nothing is tokenised a second time, so masks and spans are exact.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...errors import ServerInfrastructureError
from ...models import ErrorTurn, Finding, Observation, Reward, State

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Span:
    """Place of one turn in ``Rollout.ids``: [begin, start) is the generation prompt, [start, end) was sampled."""

    begin: int
    start: int
    end: int


@dataclass(frozen=True)
class Sample:
    """One sampled turn."""

    ids: list[int]
    logprobs: list[float] = field(default_factory=list)
    """One log-probability for each id; empty if the sampler gives none."""
    cut: bool = False
    """Whether the turn ended because its room was used up."""


@dataclass(frozen=True)
class Written:
    """Ids that the chat template writes; those from ``generation`` on are the generation prompt."""

    ids: list[int]
    generation: int


@dataclass
class Rollout:
    """One episode as ids: the prompt, then sampled turns with the environment's messages between them."""

    task_id: str
    episode_id: str
    ids: list[int]
    """All ids, [T]."""
    prompt: int
    """Length of the prompt: ``ids[:prompt]``."""
    turns: list[Span]
    """The sampled turns, in order."""
    logprobs: list[float]
    """Log-probabilities of ``ids[prompt:]``, 0.0 where the environment wrote; empty if the sampler gave none."""
    reward: Reward
    end: str | None
    """Why the environment ended the episode."""
    truncated: bool = False
    """Whether the policy's context was full before the episode was over; the unfinished work was graded."""
    error_turns: list[ErrorTurn] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def erring_turns(self) -> set[int]:
        """Return the numbers of the turns with an error turn."""
        return {error.turn for error in self.error_turns}

    @property
    def mask(self) -> list[int]:
        """Return 1 for each of ``ids[prompt:]`` that was sampled, and 0 where the environment wrote."""
        mask = [0] * (len(self.ids) - self.prompt)
        for turn in self.turns:
            mask[turn.start - self.prompt : turn.end - self.prompt] = [1] * (turn.end - turn.start)
        return mask


class Chat(Protocol):
    """Policy behind its chat template."""

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        """Return the ids of the first messages and of a generation prompt."""
        ...

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        """Return a turn of at most ``room`` ids."""
        ...

    def action(self, ids: Sequence[int]) -> dict[str, Any]:
        """Return a turn as the environment takes it: text and tool calls, malformed ones unchanged."""
        ...

    def reply(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> Written:
        """Return the ids after a sampled turn: its end if it lacks one, the tool results, a generation prompt."""
        ...


class Wire(Protocol):
    """Session that plays an episode: ``client.Client``, or anything with the same three methods."""

    async def reset(self, **arguments: Any) -> Observation: ...

    async def step(self, action: Mapping[str, Any]) -> Observation: ...

    async def state(self) -> State: ...


async def rollout(
    task: Mapping[str, Any],
    chat: Chat,
    client: Wire,
    *,
    system: str = "",
    max_ids: int = 32_768,
    max_turn_ids: int = 4096,
) -> Rollout:
    """Play one episode. ``task`` holds the arguments of ``reset``: ``task_id``, or ``split`` and ``index``, and more.

    The episode ends when the environment ends it, or when the next turn does not fit into ``max_ids``; it is then
    submitted without an answer, and so graded. An episode that fails because of the server's machine comes back with
    an invalid reward, and its cause is logged. Raise ServerError for anything else that the server refuses.
    """
    first = await client.reset(**task)
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": first.prompt or ""})
    written = chat.prompt(messages, first.tools or [])
    recording = _Recording(list(written.ids), len(written.ids), written.generation)
    observation, truncated = first, False
    try:
        while not observation.done:
            room = max_ids - len(recording.ids)
            if room <= 0:
                truncated = True
                await client.step({"tool_calls": [{"id": "end", "name": "submit", "arguments": {}}]})
                break
            sample = await chat.sample(recording.ids, min(max_turn_ids, room))
            truncated = sample.cut and len(sample.ids) >= room
            action = chat.action(sample.ids)
            observation = await client.step(action)
            recording.add_turn(sample)
            answers = [message.model_dump(exclude_none=True) for message in observation.messages]
            messages += [{"role": "assistant", **action}, *answers]
            if not observation.done:
                recording.add_written(chat.reply(sample.ids, answers))
    except ServerInfrastructureError as error:
        logger.warning("an episode of %s is not valid: %s", task.get("task_id", "a task"), error)
        return _finish(recording, await client.state(), messages, truncated=truncated, valid=False)
    return _finish(recording, await client.state(), messages, truncated=truncated, valid=True)


class _Recording:
    """Ids of an episode so far. ``begin`` is where the next turn's generation prompt starts."""

    def __init__(self, ids: list[int], prompt: int, generation: int) -> None:
        self.ids, self.prompt, self.begin = ids, prompt, generation
        self.turns: list[Span] = []
        self.logprobs: list[float] = []
        self.scored = True

    def add_turn(self, sample: Sample) -> None:
        start = len(self.ids)
        self.ids += sample.ids
        self.turns.append(Span(self.begin, start, len(self.ids)))
        self.scored = self.scored and len(sample.logprobs) == len(sample.ids)
        self.logprobs += sample.logprobs

    def add_written(self, written: Written) -> None:
        self.begin = len(self.ids) + written.generation
        self.ids += written.ids
        self.logprobs += [0.0] * len(written.ids)


def _finish(
    recording: _Recording, state: State, messages: list[dict[str, Any]], *, truncated: bool, valid: bool
) -> Rollout:
    end = recording.turns[-1].end if recording.turns else recording.prompt
    return Rollout(
        task_id=state.task_id or "",
        episode_id=state.episode_id or "",
        ids=recording.ids[:end],
        prompt=recording.prompt,
        turns=recording.turns,
        logprobs=recording.logprobs[: end - recording.prompt] if recording.scored else [],
        reward=state.reward if state.reward is not None and valid else Reward(valid=False),
        end=state.end,
        truncated=truncated,
        error_turns=[error for error in state.error_turns if error.turn < len(recording.turns)],
        findings=list(state.findings),
        messages=messages,
    )
