"""Episodes that the teacher of SDFT plays: before each turn it reads the demonstration of the call that is due."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import default_drills
from etude.environments.drill.words import READING
from etude.models import Observation, State
from etude.research.effort.dialogues import Call, with_verb
from etude.trainers.rollouts.rollout import Rollout, Sample, Written, rollout


def due_call(task_id: str, made: Sequence[Call]) -> Call | None:
    """Return the first call of the solution that was not made yet; None after the last one."""
    return next((call for call in default_drills().drill(task_id).solution() if call not in made), None)


def calls_of_turn(turn: Mapping[str, Any]) -> list[Call]:
    """Return the calls of a turn as the policy wrote them."""
    return [(call.get("name"), call.get("arguments")) for call in turn.get("tool_calls") or []]


def demonstration_text(task_id: str, due: Call) -> str:
    """Return the demonstration of a call, in the words of the hints that ``recipes/drill_base`` has learned to read.

    These hints correct a name with another verb. The verb that is corrected depends on the drill alone.
    """
    tools = [*(tool.name for tool in default_drills().drill(task_id).tools), "submit"]
    other = random.Random(task_id).choice([name for verb in READING if (name := with_verb(due[0], verb)) != due[0]])
    return f"Reminder: the available tools are {', '.join(tools)}. There is no tool {other!r}; use {due[0]}."


class Demonstrated:
    """Chat of one episode that samples every turn before which a call is due after the demonstration of that call.

    The demonstration is in the ids that are sampled from and not in the ids of the episode, as at a distillation site.
    """

    def __init__(self, chat: Any, task_id: str) -> None:
        self._chat, self._task_id = chat, task_id
        self._made: list[Call] = []
        self._opening, self._first = 0, True

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        return self._noted(self._chat.prompt(messages, tools), first=True)

    def reply(self, ids: Sequence[int], messages: Sequence[Mapping[str, Any]]) -> Written:
        return self._noted(self._chat.reply(ids, messages), first=False)

    def action(self, ids: Sequence[int]) -> dict[str, Any]:
        action: dict[str, Any] = self._chat.action(ids)
        self._made += calls_of_turn(action)
        return action

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        due = due_call(self._task_id, self._made)
        if due is not None:
            inserted = self._chat.hint(demonstration_text(self._task_id, due), self._first)
            place = len(ids) - self._opening - inserted.back
            ids = [*ids[:place], *inserted.ids, *ids[place:]]
        sample: Sample = await self._chat.sample(ids, room)
        return sample

    def _noted(self, written: Written, *, first: bool) -> Written:
        """Note how many ids the generation prompt has."""
        self._opening, self._first = len(written.ids) - written.generation, first
        return written


class Local:
    """Session in this process behind the methods of a client."""

    def __init__(self) -> None:
        self._session = DrillSession(default_drills())

    async def reset(self, **arguments: Any) -> Observation:
        return await self._session.reset(**arguments)

    async def step(self, action: Mapping[str, Any]) -> Observation:
        return await self._session.step(action)

    async def state(self) -> State:
        return self._session.state()


def play_demonstrated(trainer: Any, tasks: Sequence[str]) -> list[Rollout]:
    """Play one episode of each drill with the trainer's policy as a teacher."""
    limits, batcher = trainer.parts.limits, trainer._batcher

    async def play(task: str) -> Rollout:
        with batcher.playing():
            chat = Demonstrated(trainer._chat, task)
            sizes = {"max_ids": limits.max_ids, "max_turn_ids": limits.max_turn_ids}
            return await rollout({"task_id": task}, chat, Local(), **sizes)

    async def play_all() -> list[Rollout]:
        return list(await asyncio.gather(*map(play, tasks)))

    played: list[Rollout] = trainer._runner.run(play_all())
    return played
