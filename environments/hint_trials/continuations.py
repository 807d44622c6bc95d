"""Play on from the middle of stored episodes, again and again: the past is played once, the rest in forks of it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

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
from ...models import Episode, Observation, State, Task, Turn
from ..agents import scripted as agents
from ..rng import stream
from ..runs.play import Players, Tasks
from .fork_points import Place
from .hint_policy import Policy
from .log import Trial

_VOID = (
    EndpointFailed,
    BudgetSpent,
    InfrastructureError,
    ServerInfrastructureError,
    ServerFull,
    ConnectionLost,
)
"""What the machine or the endpoint does wrong: the trial is void."""
_REFUSED = (SessionError, ServerError)


class Forking(Protocol):
    """What trials ask of a session or a client."""

    async def reset(self, **arguments: Any) -> Observation: ...

    async def step(self, action: Mapping[str, Any]) -> Observation: ...

    def state(self) -> State | Awaitable[State]: ...


class GoesOn(Protocol):
    """Makes an agent that plays on after ``past``, having been ``told`` something ('': nothing) as the user.

    An agent's factory that takes these arguments is one, once its task and variant are bound. ``seed`` differs between
    continuations, for an agent that throws dice.
    """

    def __call__(self, task: Task, *, past: Sequence[Turn], told: str, seed: int) -> agents.Agent: ...


@dataclass(frozen=True)
class _Base:
    """The past of a place, played again: an episode to fork."""

    episode_id: str
    past: list[Turn]
    diverged: bool


@dataclass(frozen=True)
class Continuing:
    """What all trials share."""

    tasks: Tasks
    open_player: Players
    make_agent: GoesOn
    policy: Policy
    seed: int
    llm: LLM | None


class Seat:
    """A session for the trials of one place, opened when needed, and again after the machine failed."""

    def __init__(self, run: Continuing, place: Place, stack: AsyncExitStack) -> None:
        self._run, self._place, self._stack = run, place, stack
        self._player: Forking | None = None
        self._finished: Callable[[], Awaitable[Episode]] | None = None
        self._base: _Base | None = None

    async def play(self, planned: Trial) -> Trial:
        """The trial, played. Whatever voids it is written into it."""
        try:
            if self._run.llm is not None:
                self._run.llm.meter.check()
            return await self._play(planned)
        except _VOID as error:
            self._player = self._base = None
            await self._stack.aclose()
            return replace(planned, cause=str(error))
        except _REFUSED as error:  # its past cannot be played here
            return replace(planned, cause=str(error))

    async def _play(self, planned: Trial) -> Trial:
        player, base = await self._ready()
        place, task = self._place, self._run.tasks.by_id(planned.task_id)
        observation, replayed = await self._start(player, base)
        if observation.done:
            return replace(planned, cause="played again, the episode ends before its error turn", diverged=True)
        told = place.hints()[planned.arm].text if planned.arms else ""
        seed = stream(self._run.seed, place.seeded, " ".join(map(str, planned.key[1:]))).getrandbits(48)
        agent = self._run.make_agent(task, past=base.past, told=told, seed=seed)
        gave_up = False
        while not observation.done and not gave_up:
            action = await agents.next_move(agent, observation.model_dump(mode="json"))
            gave_up = action is None
            if action is not None:
                observation = await player.step(action)
        state = await _state(player)
        reward = state.reward
        # Giving up is the agent's own doing: a hint that leads to it must not be spared for it.
        value = reward.value if reward is not None and not gave_up else 0.0
        return replace(
            planned,
            valid=gave_up or (reward is not None and reward.valid),
            success=value == 1.0,
            value=value,
            end="give_up" if gave_up else state.end,
            turns=state.step_count - len(base.past),
            replayed=replayed,
            diverged=base.diverged,
            usage=dict(getattr(agent, "usage", {})),
        )

    async def _ready(self) -> tuple[Forking, _Base]:
        """The session, and the past in it."""
        if self._player is None:
            player, self._finished = await self._stack.enter_async_context(self._run.open_player())
            self._player = cast(Forking, player)
        if self._base is None:
            assert self._finished is not None
            await self._player.reset(**self._from_the_start())
            episode = await self._finished()
            self._base = _Base(episode.episode_id, list(episode.turns), self._differs(episode.turns))
        return self._player, self._base

    async def _start(self, player: Forking, base: _Base) -> tuple[Observation, bool]:
        """The state before the place: a fork, or, where none is to be had, the past played again (and whether)."""
        try:
            return await player.reset(fork_of=base.episode_id, turn=len(base.past)), False
        except _VOID:
            raise
        except _REFUSED:
            return await player.reset(**self._from_the_start()), True

    def _from_the_start(self) -> dict[str, Any]:
        stored = self._place.stored
        past = [turn.action for turn in stored.episode.turns[: self._place.turn]]
        given = {"task_id": stored.episode.task_id, "seed": stored.episode.seed, "replay": past}
        faults = stored.settings.get("faults")
        return given if faults is None else {**given, "faults": faults}

    def _differs(self, turns: Sequence[Turn]) -> bool:
        stored = self._place.stored.episode.turns[: self._place.turn]
        return [turn.messages for turn in turns] != [turn.messages for turn in stored]


async def _state(player: Forking) -> State:
    state = player.state()
    return await state if inspect.isawaitable(state) else state
