"""The world of experiment (B): drills of the family ``verbs``, level 1, served by ``etude serve``."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from etude.environments.drill import dialogues as drill_dialogues
from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import DrillTasks, Name
from etude.environments.drill.words import READING
from etude.models import ErrorTurn
from etude.research.error_turns.real_stack.scripted_teachers import Call, Messages, calls_made
from etude.research.error_turns.small_world.bases import SKILL
from etude.research.error_turns.worlds.world import Calls, World, first_calls
from etude.trainers.recipe.recipe import Environment, Sizes
from etude.trainers.rollouts.local_server import local_server
from etude.trainers.rollouts.rollout import Rollout

FAMILY, LEVEL, SEED = "verbs", 1, 0
SERVED = Environment(serve="drill", knobs={"families": [FAMILY], "level": LEVEL})
PLAYED = 10**5
"""Seeds from here on are those that pairs are made from; held-out ones are below."""
FIRST, LAST = 10**6, 10**9
"""Seeds that are trained on; those of pretraining are above."""


# --- the tasks ---------------------------------------------------------------------------------------------------


def held_out(split: str, number: int) -> list[str]:
    seeds = [seed for seed in range(10 * number) if (seed % 10 == 9) == (split == "eval")]
    return [Name(FAMILY, seed, LEVEL).task_id for seed in seeds[:number]]


def learned(seed: int, number: int) -> list[str]:
    chance = random.Random(f"drills {seed}")
    seeds = [chance.randrange(FIRST, LAST, 10) + chance.randrange(9) for _ in range(number)]
    return [Name(FAMILY, each, LEVEL).task_id for each in seeds]


def played(number: int) -> list[str]:
    seeds = itertools.islice((seed for seed in itertools.count(PLAYED) if seed % 10 != 9), number)
    return [Name(FAMILY, seed, LEVEL).task_id for seed in seeds]


@contextmanager
def serving(folder: Path, task_ids: Sequence[str]) -> Iterator[str]:
    """All drills there are. Raises RecipeError."""
    with local_server(SERVED) as url:
        yield url


# --- the bases ---------------------------------------------------------------------------------------------------


def sizes(name: str) -> Sizes:
    return Sizes(skill=SKILL[name], level=LEVEL)


def dialogues(of: Sizes) -> Iterable[Mapping[str, Any]]:
    return drill_dialogues.dialogues(of.dialogues, level=LEVEL, skill=of.skill, seed=SEED)


def right_hints(task_ids: Sequence[str]) -> dict[str, str]:
    """Return what the environment says to a first call of a tool that there is not."""
    tasks = DrillTasks([FAMILY], level=LEVEL)
    with asyncio.Runner() as runner:
        return dict(runner.run(_right_hint(tasks, task_id)) for task_id in task_ids)


async def _right_hint(tasks: DrillTasks, task_id: str) -> tuple[str, str]:
    session = DrillSession(tasks)
    first = await session.reset(task_id=task_id)
    (right, arguments), *_ = tasks.drill(task_id).solution()
    known = {tool["function"]["name"] for tool in first.tools or []}
    stem = next(right.removesuffix(verb) for verb in READING if right.endswith(f"_{verb}"))
    wrong = next(name for verb in READING if (name := stem + verb) not in known)
    await session.step({"tool_calls": [{"name": wrong, "arguments": dict(arguments)}]})
    hint = session.state().error_turns[0].hints[0].text
    await session.close()
    return first.prompt or "", hint


# --- what is counted ---------------------------------------------------------------------------------------------


def reads_first(rollout: Rollout) -> bool:
    """Return whether its first turn calls a tool that reads, of whatever name: one that submits at once cannot err."""
    return any(call["name"].endswith(READING) for call in first_calls(rollout))


def reads_what_there_is(task_id: str, calls: Calls) -> bool:
    known = {tool.name for tool in DrillTasks([FAMILY], level=LEVEL).drill(task_id).tools}
    return bool(calls) and all(call["name"] in known and call["name"].endswith(READING) for call in calls)


def retold(error: ErrorTurn, call: Mapping[str, Any]) -> str | None:
    if error.kind != "tool_not_found" or not call["name"].endswith(READING):
        return None
    return f"There is no tool {error.tool!r}; use {call['name']}."


class Drills:
    """What teachers know. Wrong is a reading tool with another verb, which there is not."""

    def __init__(self, family: str = FAMILY, level: int = LEVEL) -> None:
        self._tasks = DrillTasks([family], level=level)

    def right(self, task_id: str, messages: Messages) -> Call:
        """Return the first of the solution's calls that is not made yet; then the answer is submitted."""
        left = self._left(task_id, messages)
        return left[0] if left else ("submit", {"answer": self._tasks.drill(task_id).answer})

    def wrong(self, task_id: str, messages: Messages, chance: random.Random) -> Call:
        drill = self._tasks.drill(task_id)
        name, arguments = (self._left(task_id, messages) or drill.solution()[-1:])[0]
        stem = next(name.removesuffix(verb) for verb in READING if name.endswith(f"_{verb}"))
        known = {tool.name for tool in drill.tools}
        return chance.choice([stem + verb for verb in READING if stem + verb not in known]), arguments

    def _left(self, task_id: str, messages: Messages) -> list[Call]:
        made = calls_made(messages)
        return [step for step in self._tasks.drill(task_id).solution() if step not in made]


DRILLS = World(
    served=serving,
    held_out=held_out,
    learned=learned,
    played=played,
    knows=Drills,
    right_hints=right_hints,
    sizes=sizes,
    dialogues=dialogues,
    errs=0.5,
    hinted={"strong": (0.0, 0.15), "weak": (0.1, 0.45)},
    tries=reads_first,
    works=reads_what_there_is,
    retold=retold,
    prompts=4,
    group=8,
    held=48,
    parts=5,
    max_ids=512,
    max_turn_ids=48,
)
