"""Forks for people: one stored episode continued from any turn, with a hint or without, and written to a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import RunError
from ...llm import LLM
from ...models import Fork, Reward
from .. import agents
from ..agents.openai import ModelOptions
from ..runs.play import Players, player_for
from ..runs.reader import Stored
from ..runs.writer import FILE_NAME, Lines, complete_lines
from ..tasks.task_set import Tasks
from .measure import continuing_agent, tasks_of_episodes

MAX_HINT = 8000
"""Characters of the longest hint."""


@dataclass(frozen=True)
class ForkSettings:
    """Who continues an episode, and where."""

    agent: str
    """Agent that continues it, such as ``openai:MODEL``."""
    out: Path
    """Folder of the run that continuations are appended to."""
    tasks: Tasks | None = None
    """Tasks; default: those that an environment makes itself."""
    url: str | None = None
    """Server that plays; default: this process."""
    backend: str = "auto"
    """Sandbox in this process."""
    model: ModelOptions = ModelOptions()
    """Settings of a model that the agent asks."""
    players: Players | None = None
    """Replaces the sessions."""

    def check(self) -> None:
        """Raise UnknownName, RunError or LLMError for an agent that cannot continue an episode."""
        llm = self.open_llm()
        continuing_agent(self.agent, llm, self.model.tool_format)

    def open_llm(self) -> LLM | None:
        """Return a client of the agent's model; None for an agent that asks none. Raises LLMError."""
        if not agents.asks_model(self.agent):
            return None
        return self.model.open(self.agent.partition(":")[2], 1)


async def fork_episode(
    stored: Stored,
    turn: int,
    hint: str,
    settings: ForkSettings,
    progress: Callable[[int], None] = lambda turns: None,
) -> dict[str, Any]:
    """Continue an episode before ``turn``, with ``hint`` as a message of the user ('': without), and return its row.

    The turns before are played again. ``progress`` is called with the number of turns so far. Raises RunError for a
    turn or an episode that cannot be continued, and errors of the agent, the machine or the server.
    """
    check_fork(stored, turn, hint)
    tasks = settings.tasks if settings.tasks is not None else tasks_of_episodes([stored])
    task = tasks.by_id(stored.episode.task_id)
    players = settings.players or partial(player_for, tasks, settings.url, settings.backend)
    sample = len(complete_lines(settings.out / FILE_NAME))
    llm = settings.open_llm()
    usage: dict[str, Any] = {}
    try:
        make_agent = continuing_agent(settings.agent, llm, settings.model.tool_format)
        async with AsyncExitStack() as stack:
            player, finished = await stack.enter_async_context(players(task))
            observation = await player.reset(**_arguments(stored, turn))
            past = (await finished()).turns
            if observation.done:
                raise RunError("played again, the episode ends before this turn; choose an earlier one")
            agent = make_agent(task, past=past, hint=hint, seed=sample)
            turns = len(past)
            while not observation.done:
                action = await agents.next_move(agent, observation.model_dump(mode="json"))
                if action is None:
                    break
                observation = await player.step(action)
                turns += 1
                progress(turns)
            episode = await finished()
            usage = dict(getattr(agent, "usage", {}))
    finally:
        if llm is not None:
            await llm.close()
    episode.fork = Fork(episode_id=stored.episode.episode_id, turn=turn, replayed=turn)
    if episode.reward is None:
        episode.reward = Reward(valid=False, assurance=task.assurance)
    same = [one.messages for one in past] == [one.messages for one in stored.episode.turns[:turn]]
    about: dict[str, Any] = {"url": settings.url, "hint": hint or None, "replay_differed": not same}
    fields = {"agent": settings.agent, "cause": "", "sample": sample, "settings": about, "usage": usage}
    with Lines(settings.out / FILE_NAME) as lines:
        return lines.write(fields, episode)


def check_fork(stored: Stored, turn: int, hint: str) -> None:
    """Raise RunError when an episode cannot be continued before this turn with this hint."""
    if stored.log is not None:
        raise RunError(
            "this episode was read from a log of another tool; only episodes of `etude run` can be continued"
        )
    if not 0 <= turn <= len(stored.episode.turns):
        raise RunError(
            f"the episode has the turns 0 to {len(stored.episode.turns) - 1}, got {turn}; choose one of them"
        )
    if len(hint) > MAX_HINT:
        raise RunError(f"the hint has {len(hint)} characters; give {MAX_HINT} or fewer")


def _arguments(stored: Stored, turn: int) -> dict[str, Any]:
    """Return the arguments of a reset that plays the turns before ``turn`` again."""
    episode, faults = stored.episode, stored.settings.get("faults")
    actions = [one.action for one in episode.turns[:turn]]
    arguments = {"task_id": episode.task_id, "seed": episode.seed, "replay": actions}
    return arguments if faults is None else {**arguments, "faults": faults}
