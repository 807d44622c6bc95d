"""The world of experiment C: repairs of tiny modules on the coding environment, sandboxed and graded."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from etude.environments.coding.prompt import prompt
from etude.environments.tasks.task_set import FILE_NAME, write_tasks
from etude.models import ErrorTurn
from etude.research.error_turns.driver import Refused
from etude.research.error_turns.real_stack.scripted_teachers import Call, Messages, calls_made
from etude.research.error_turns.small_world.bases import SKILL
from etude.research.error_turns.worlds import repair_dialogues, repairs
from etude.research.error_turns.worlds.repair_dialogues import EDITED
from etude.research.error_turns.worlds.repairs import FOLDERS, Repair, repair, task_id
from etude.research.error_turns.worlds.world import PLAYED, Calls, World, first_calls, learned_seeds, split_seeds
from etude.trainers.recipe.recipe import Environment, Sizes
from etude.trainers.rollouts.local_server import local_server
from etude.trainers.rollouts.rollout import Rollout

TURNS = 3
"""Turns of an episode: a wrong edit, the right one, and submit."""
EDIT, SUBMIT = "edit_file", "submit"
_MISSING = "no such file: "
SEED = 0


# --- the tasks ---------------------------------------------------------------------------------------------------


def held_out(split: str, number: int) -> list[str]:
    return [task_id(seed) for seed in split_seeds(0, split, number)]


def played(number: int) -> list[str]:
    return [task_id(seed) for seed in split_seeds(PLAYED, "train", number)]


def learned(seed: int, number: int) -> list[str]:
    return [task_id(seed) for seed in learned_seeds("repairs", seed, number)]


def of_id(name: str) -> Repair:
    """Return the exercise of a task id."""
    return repair(int(name.removeprefix("repair-")))


@contextmanager
def serving(folder: Path, task_ids: Sequence[str]) -> Iterator[str]:
    """Serve the tasks, which are written to FOLDER/tasks unless they are there. Raises RecipeError."""
    knobs = {"turns": TURNS, "tools": repairs.TOOLS}
    with local_server(Environment(serve=str(written(folder / "tasks", task_ids)), knobs=knobs)) as url:
        yield url


def written(folder: Path, task_ids: Sequence[str]) -> Path:
    """Write the tasks that the folder lacks, and return the folder. Raises Refused when it holds other tasks."""
    file, required = folder / FILE_NAME, dict.fromkeys(task_ids)
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    stored = [row["task_id"] for row in rows]
    if any(row["problem_statement"] != of_id(row["task_id"]).statement for row in rows):
        raise Refused(f"{folder} holds other repairs under the same names: use another --out")
    if not set(required) <= set(stored):
        snapshot = repairs.snapshot()
        folder.mkdir(parents=True, exist_ok=True)
        write_tasks(folder, (repairs.task(of_id(name), snapshot) for name in required | dict.fromkeys(stored)))
    return folder


# --- the bases ---------------------------------------------------------------------------------------------------


def sizes(name: str) -> Sizes:
    return Sizes(skill=SKILL[name])


def dialogues(sizes: Sizes) -> Iterable[Mapping[str, Any]]:
    return repair_dialogues.dialogues(sizes.dialogues, skill=sizes.skill, seed=SEED)


def right_hints(task_ids: Sequence[str]) -> dict[str, str]:
    """Return the environment's hint after a first edit in a folder that lacks the module, by the task's prompt."""
    with asyncio.Runner() as runner:
        return {
            prompt(repairs.task(exercise), repairs.TOOLS): runner.run(
                repair_dialogues.hint(exercise, _wrong_folders(exercise)[0])
            )
            for exercise in map(of_id, task_ids)
        }


def _wrong_folders(exercise: Repair) -> list[str]:
    """Return the folders that lack the module."""
    return [folder for folder in FOLDERS if exercise.edit(folder)["path"] != exercise.path]


# --- what is counted ---------------------------------------------------------------------------------------------


def edits_first(rollout: Rollout) -> bool:
    """Return whether the first turn edits any path; one that submits at once cannot err."""
    return any(call["name"] == EDIT for call in first_calls(rollout))


def edits_listed_files(name: str, calls: Calls) -> bool:
    """Return whether there are calls, and all of them edit files that the statement lists."""
    listed = of_id(name).listed
    return bool(calls) and all(call["name"] == EDIT and _path(call["arguments"]) in listed for call in calls)


def _path(arguments: Any) -> Any:
    return arguments.get("path") if isinstance(arguments, Mapping) else None


def retold(error: ErrorTurn, call: Mapping[str, Any]) -> str | None:
    """Return the environment's hint for a missing file, with the path of ``call`` as its advice."""
    path, missing = _path(call["arguments"]), error.message.removeprefix(_MISSING)
    if call["name"] != EDIT or not isinstance(path, str) or missing == error.message:
        return None
    return f"There is no `{missing}`; the nearest path is {path}."


class Repairs:
    """Knowledge of the scripted teachers. A wrong call edits in a folder that lacks the module."""

    def right(self, task_id: str, messages: Messages) -> Call:
        """Return the right edit; once it was made, submit."""
        edit = (EDIT, of_id(task_id).edit())
        return (SUBMIT, {"summary": EDITED}) if edit in calls_made(messages) else edit

    def wrong(self, task_id: str, messages: Messages, rng: random.Random) -> Call:
        exercise = of_id(task_id)
        return EDIT, exercise.edit(rng.choice(_wrong_folders(exercise)))


REPAIRS = World(
    served=serving,
    held_out=held_out,
    learned=learned,
    played=played,
    knows=Repairs,
    right_hints=right_hints,
    sizes=sizes,
    dialogues=dialogues,
    tries=edits_first,
    works=edits_listed_files,
    retold=retold,
    prompts=2,
    held=32,
    parts=3,
    updates=24,
    max_ids=640,
    task_specific=frozenset({"file_not_found"}),
)
