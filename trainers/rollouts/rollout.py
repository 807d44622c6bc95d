"""One episode, played by a policy over the wire, as the token ids a trainer learns from.

``rollout(task, chat, client)`` needs nothing but the wire's client: any framework that can turn messages into ids and
ids into more ids (a ``Chat``) can use it. Ids are recorded as they were sampled and as the template wrote them between;
nothing is ever tokenised again, so masks and spans are exact.
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
    """One turn in a Rollout's ``ids``: [begin, start) is the template's generation prompt, [start, end) was sampled."""

    begin: int
    start: int
    end: int


@dataclass(frozen=True)
class Sample:
    """A sampled turn. ``logprobs`` has one number for each id, or is empty when the sampler gives none. ``cut``: its
    room ended it."""

    ids: list[int]
    logprobs: list[float] = field(default_factory=list)
    cut: bool = False


@dataclass(frozen=True)
class Written:
    """Ids that the template writes; those from ``generation`` on are the generation prompt."""

    ids: list[int]
    generation: int


@dataclass
class Rollout:
    """An Episode as ids: ``ids[:prompt]`` is the prompt, then come sampled turns and, between them, the environment's.

    ``logprobs`` belongs to ``ids[prompt:]`` and is 0.0 where the environment wrote; empty when the sampler gave none.
    ``truncated``: the policy's context was full before the episode was over; what was there is graded.
    """

    task_id: str
    episode_id: str
    ids: list[int]
    prompt: int
    turns: list[Span]
    logprobs: list[float]
    reward: Reward
    end: str | None
    truncated: bool = False
    error_turns: list[ErrorTurn] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def mask(self) -> list[int]:
        """1 where ``ids[prompt:]`` was sampled, 0 where the environment wrote."""
        mask = [0] * (len(self.ids) - self.prompt)
        for turn in self.turns:
            mask[turn.start - self.prompt : turn.end - self.prompt] = [1] * (turn.end - turn.start)
        return mask


class Chat(Protocol):
    """A policy behind its chat template. ``room`` is how many more ids a turn may take, at most."""

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written: ...

    async def sample(self, ids: Sequence[int], room: int) -> Sample: ...

    def action(self, ids: Sequence[int]) -> dict[str, Any]:
        """A turn as the wire takes it: text and tool calls, broken ones as they are."""
        ...

    def reply(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> Written:
        """What follows the sampled ``ids``: the end of the turn if they lack it, the results, a generation prompt."""
        ...


class Wire(Protocol):
    """What an episode is played through: ``client.Client``, or whoever stands in for it."""

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
    """Play one episode. ``task`` are the arguments of ``reset``: ``task_id``, or ``split`` and ``index``, and more.

    The episode ends when the environment says so, or when the next turn does not fit into ``max_ids``: it is then
    submitted without a word, and so graded. An episode that the server's machine spoils comes back with an invalid
    reward, its cause in the log: it is data for nobody, and no crash. Raises ServerError for anything else that the
    server refuses.
    """
    first = await client.reset(**task)
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": first.prompt or ""})
    written = chat.prompt(messages, first.tools or [])
    played = _Played(list(written.ids), len(written.ids), written.generation)
    seen, truncated = first, False
    try:
        while not seen.done:
            left = max_ids - len(played.ids)
            if left <= 0:
                truncated = True
                seen = await client.step({"tool_calls": [{"id": "end", "name": "submit", "arguments": {}}]})
                break
            sample = await chat.sample(played.ids, min(max_turn_ids, left))
            truncated = sample.cut and len(sample.ids) >= left
            action = chat.action(sample.ids)
            seen = await client.step(action)
            played.turn(sample)
            answers = [message.model_dump(exclude_none=True) for message in seen.messages]
            messages += [{"role": "assistant", **action}, *answers]
            if not seen.done:
                played.write(chat.reply(sample.ids, answers))
    except ServerInfrastructureError as error:
        logger.warning("an episode of %s is not valid: %s", task.get("task_id", "a task"), error)
        seen = Observation(done=True)
        return await _finished(played, client, seen, messages, truncated=truncated, void=True)
    return await _finished(played, client, seen, messages, truncated=truncated, void=False)


class _Played:
    """The ids so far. ``begin`` is where the next turn's generation prompt starts."""

    def __init__(self, ids: list[int], prompt: int, generation: int) -> None:
        self.ids, self.prompt, self.begin = ids, prompt, generation
        self.turns: list[Span] = []
        self.logprobs: list[float] = []
        self.scored = True

    def turn(self, sample: Sample) -> None:
        start = len(self.ids)
        self.ids += sample.ids
        self.turns.append(Span(self.begin, start, len(self.ids)))
        self.scored = self.scored and len(sample.logprobs) == len(sample.ids)
        self.logprobs += sample.logprobs

    def write(self, written: Written) -> None:
        self.begin = len(self.ids) + written.generation
        self.ids += written.ids
        self.logprobs += [0.0] * len(written.ids)


async def _finished(
    played: _Played, client: Wire, seen: Observation, messages: list[dict[str, Any]], *, truncated: bool, void: bool
) -> Rollout:
    state = await client.state()
    end = played.turns[-1].end if played.turns else played.prompt
    reward = state.reward if state.reward is not None and not void else Reward(valid=False)
    return Rollout(
        task_id=state.task_id or "",
        episode_id=state.episode_id or "",
        ids=played.ids[:end],
        prompt=played.prompt,
        turns=played.turns,
        logprobs=played.logprobs[: end - played.prompt] if played.scored else [],
        reward=reward,
        end=state.end,
        truncated=truncated,
        error_turns=[error for error in state.error_turns if error.turn < len(played.turns)],
        findings=list(state.findings),
        messages=messages,
    )
