"""Continuations of stored episodes: the turns before an error turn are played once; continuations are forks of that."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ...errors import (
    BudgetSpent,
    ConnectionLost,
    EndpointFailed,
    InfrastructureError,
    ServerError,
    ServerFull,
    ServerInfrastructureError,
    SessionError,
)
from ...llm import LLM
from ...models import Observation, State, Task, Turn
from .. import agents
from ..rng import stream
from ..runs.play import Opened, Player, Players
from ..tasks.task_set import Tasks
from .fork_points import Place
from .hint_policy import Policy
from .trials import Trial

_VOID = (EndpointFailed, BudgetSpent, InfrastructureError, ServerInfrastructureError, ServerFull, ConnectionLost)
"""Failures of the machine or the endpoint: the trial is void."""
_REFUSED = (SessionError, ServerError)


class AgentFactory(Protocol):
    """Makes an agent that continues an episode after ``past``, with ``hint`` as a user message ('': none).

    The factory of a registered agent that takes these arguments is one, once its variant is bound. ``seed`` is for an
    agent that draws random numbers; it differs between continuations.
    """

    def __call__(self, task: Task, *, past: Sequence[Turn], hint: str, seed: int) -> agents.Agent: ...


@dataclass(frozen=True)
class _Past:
    """The episode to fork: the turns before a place, played again; ``diverged`` when their results were different."""

    episode_id: str
    turns: list[Turn]
    diverged: bool


@dataclass(frozen=True)
class Measurement:
    """What all trials of a measurement have in common."""

    tasks: Tasks
    open_player: Players
    make_agent: AgentFactory
    policy: Policy
    seed: int
    llm: LLM | None


class Continuations:
    """Player of the trials of one place, in a session that is opened when needed and after the machine failed."""

    def __init__(self, measurement: Measurement, place: Place, stack: AsyncExitStack) -> None:
        self._run, self._place, self._stack = measurement, place, stack
        self._task = measurement.tasks.by_id(place.stored.episode.task_id)
        self._opened: Opened | None = None
        self._past: _Past | None = None

    async def play(self, planned: Trial) -> Trial:
        """Play a planned trial and return its outcome; ``cause`` says why a trial could not be played."""
        try:
            if self._run.llm is not None:
                self._run.llm.meter.check()
            return await self._play(planned)
        except _VOID as error:
            self._opened = self._past = None
            await self._stack.aclose()
            return replace(planned, cause=str(error))
        except _REFUSED as error:  # its past cannot be played here
            return replace(planned, cause=str(error))

    async def _play(self, planned: Trial) -> Trial:
        player, past = await self._ready()
        observation, replayed = await self._start(player, past)
        if observation.done:
            return replace(planned, cause="played again, the episode ends before its error turn", diverged=True)
        hint = self._place.hints()[planned.arm].text if planned.arms else ""
        seed = stream(self._run.seed, self._place.seeded, " ".join(map(str, planned.key[1:]))).getrandbits(48)
        agent = self._run.make_agent(self._task, past=past.turns, hint=hint, seed=seed)
        gave_up = False
        while not observation.done and not gave_up:
            action = await agents.next_move(agent, observation.model_dump(mode="json"))
            gave_up = action is None
            if action is not None:
                observation = await player.step(action)
        state = await _state(player)
        reward = state.reward
        # Giving up is the agent's doing, and counts as a failure of the hint that led to it.
        value = reward.value if reward is not None and not gave_up else 0.0
        return replace(
            planned,
            valid=gave_up or (reward is not None and reward.valid),
            success=value == 1.0,
            value=value,
            end="give_up" if gave_up else state.end,
            turns=state.step_count - len(past.turns),
            replayed=replayed,
            diverged=past.diverged,
            usage=dict(getattr(agent, "usage", {})),
        )

    async def _ready(self) -> tuple[Player, _Past]:
        """Return the player, after it has played the past once, and that past."""
        if self._opened is None:
            self._opened = await self._stack.enter_async_context(self._run.open_player(self._task))
        player, finished = self._opened
        if self._past is None:
            await player.reset(**self._replay_arguments())
            episode = await finished()
            stored = self._place.stored.episode.turns[: self._place.turn]
            diverged = [turn.messages for turn in episode.turns] != [turn.messages for turn in stored]
            self._past = _Past(episode.episode_id, list(episode.turns), diverged)
        return player, self._past

    async def _start(self, player: Player, past: _Past) -> tuple[Observation, bool]:
        """Return the observation before the place, and whether the past was replayed because forks are refused."""
        try:
            return await player.reset(fork_of=past.episode_id, turn=len(past.turns)), False
        except _VOID:
            raise
        except _REFUSED:
            return await player.reset(**self._replay_arguments()), True

    def _replay_arguments(self) -> dict[str, Any]:
        episode = self._place.stored.episode
        actions = [turn.action for turn in episode.turns[: self._place.turn]]
        arguments = {"task_id": episode.task_id, "seed": episode.seed, "replay": actions}
        faults = self._place.stored.settings.get("faults")
        return arguments if faults is None else {**arguments, "faults": faults}


async def _state(player: Player) -> State:
    state = player.state()
    return await state if inspect.isawaitable(state) else state
