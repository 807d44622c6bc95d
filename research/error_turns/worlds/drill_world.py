"""The world of experiment B: drills of the family ``verbs``, level 1, served by ``etude serve``."""

from __future__ import annotations

import asyncio
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
from etude.research.error_turns.worlds.world import PLAYED, Calls, World, first_calls, learned_seeds, split_seeds
from etude.trainers.recipe.recipe import Environment, Sizes
from etude.trainers.rollouts.local_server import local_server
from etude.trainers.rollouts.rollout import Rollout

FAMILY, LEVEL, SEED = "verbs", 1, 0
SERVED = Environment(serve="drill", knobs={"families": [FAMILY], "level": LEVEL})


# --- the tasks ---------------------------------------------------------------------------------------------------


def held_out(split: str, number: int) -> list[str]:
    return _task_ids(split_seeds(0, split, number))


def learned(seed: int, number: int) -> list[str]:
    return _task_ids(learned_seeds("drills", seed, number))


def played(number: int) -> list[str]:
    return _task_ids(split_seeds(PLAYED, "train", number))


def _task_ids(seeds: Iterable[int]) -> list[str]:
    return [Name(FAMILY, seed, LEVEL).task_id for seed in seeds]


@contextmanager
def serving(folder: Path, task_ids: Sequence[str]) -> Iterator[str]:
    """Serve all drills; the arguments are not used. Raises RecipeError."""
    with local_server(SERVED) as url:
        yield url


# --- the bases ---------------------------------------------------------------------------------------------------


def sizes(name: str) -> Sizes:
    return Sizes(skill=SKILL[name], level=LEVEL)


def dialogues(sizes: Sizes) -> Iterable[Mapping[str, Any]]:
    return drill_dialogues.dialogues(sizes.dialogues, level=LEVEL, skill=sizes.skill, seed=SEED)


def right_hints(task_ids: Sequence[str]) -> dict[str, str]:
    """Return the environment's hint after a first call of a tool that does not exist, by the task's prompt."""
    tasks = DrillTasks([FAMILY], level=LEVEL)
    with asyncio.Runner() as runner:
        return dict(runner.run(_right_hint(tasks, task_id)) for task_id in task_ids)


async def _right_hint(tasks: DrillTasks, task_id: str) -> tuple[str, str]:
    session = DrillSession(tasks)
    first = await session.reset(task_id=task_id)
    (right, arguments), *_ = tasks.drill(task_id).solution()
    existing = {tool["function"]["name"] for tool in first.tools or []}
    wrong = _missing_tools(right, existing)[0]
    await session.step({"tool_calls": [{"name": wrong, "arguments": dict(arguments)}]})
    hint = session.state().error_turns[0].hints[0].text
    await session.close()
    return first.prompt or "", hint


def _missing_tools(name: str, existing: set[str]) -> list[str]:
    """Return names of reading tools that do not exist: ``name`` with other verbs."""
    stem = next(name.removesuffix(verb) for verb in READING if name.endswith(f"_{verb}"))
    return [stem + verb for verb in READING if stem + verb not in existing]


# --- what is counted ---------------------------------------------------------------------------------------------


def reads_first(rollout: Rollout) -> bool:
    """Return whether the first turn calls a reading tool of any name; one that submits at once cannot err."""
    return any(call["name"].endswith(READING) for call in first_calls(rollout))


def reads_existing_tools(task_id: str, calls: Calls) -> bool:
    """Return whether there are calls, and all of them are of reading tools that exist."""
    existing = {tool.name for tool in DrillTasks([FAMILY], level=LEVEL).drill(task_id).tools}
    return bool(calls) and all(call["name"] in existing and call["name"].endswith(READING) for call in calls)


def retold(error: ErrorTurn, call: Mapping[str, Any]) -> str | None:
    """Return the environment's hint for a tool that does not exist, with the tool of ``call`` as its advice."""
    if error.kind != "tool_not_found" or not call["name"].endswith(READING):
        return None
    return f"There is no tool {error.tool!r}; use {call['name']}."


class Drills:
    """Knowledge of the scripted teachers. A wrong call is one of a reading tool that does not exist."""

    def __init__(self, family: str = FAMILY, level: int = LEVEL) -> None:
        self._tasks = DrillTasks([family], level=level)

    def right(self, task_id: str, messages: Messages) -> Call:
        """Return the solution's first call that was not made yet; after the last one submit the answer."""
        remaining = self._remaining(task_id, messages)
        return remaining[0] if remaining else ("submit", {"answer": self._tasks.drill(task_id).answer})

    def wrong(self, task_id: str, messages: Messages, rng: random.Random) -> Call:
        drill = self._tasks.drill(task_id)
        name, arguments = (self._remaining(task_id, messages) or drill.solution()[-1:])[0]
        return rng.choice(_missing_tools(name, {tool.name for tool in drill.tools})), arguments

    def _remaining(self, task_id: str, messages: Messages) -> list[Call]:
        made = calls_made(messages)
        return [call for call in self._tasks.drill(task_id).solution() if call not in made]


DRILLS = World(
    served=serving,
    held_out=held_out,
    learned=learned,
    played=played,
    knows=Drills,
    right_hints=right_hints,
    sizes=sizes,
    dialogues=dialogues,
    tries=reads_first,
    works=reads_existing_tools,
    retold=retold,
    prompts=4,
    held=48,
    parts=5,
    max_ids=512,
)
