"""The world of experiment (C): repairs of tiny modules on the coding environment, sandboxed and graded."""

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
from etude.research.error_turns.worlds.world import Calls, World, first_calls
from etude.trainers.recipe.recipe import Environment, Sizes
from etude.trainers.rollouts.local_server import local_server
from etude.trainers.rollouts.rollout import Rollout

TURNS = 3
"""A wrong edit, the right one, and submit."""
EDIT, SUBMIT = "edit_file", "submit"
_MISSING = "no such file: "
SEED = 0
PLAYED = 10**5
"""Seeds from here on are those that pairs are made from; held-out ones are below."""
FIRST, LAST = 10**6, 10**9
"""Seeds that are trained on; those of pretraining are above."""


# --- the tasks ---------------------------------------------------------------------------------------------------


def held_out(split: str, number: int) -> list[str]:
    return _from(0, split, number)


def played(number: int) -> list[str]:
    return _from(PLAYED, "train", number)


def learned(seed: int, number: int) -> list[str]:
    chance = random.Random(f"repairs {seed}")
    return [task_id(chance.randrange(FIRST, LAST, 10) + chance.randrange(9)) for _ in range(number)]


def _from(first: int, split: str, number: int) -> list[str]:
    """Return the first so many of the split from this seed on."""
    seeds = (seed for seed in range(first, first + 10 * number) if repairs.split_of(seed) == split)
    return [task_id(seed) for seed, _ in zip(seeds, range(number), strict=False)]


def of_id(name: str) -> Repair:
    return repair(int(name.removeprefix("repair-")))


@contextmanager
def serving(folder: Path, task_ids: Sequence[str]) -> Iterator[str]:
    """The tasks are written to FOLDER/tasks, unless they are there. Raises RecipeError."""
    knobs = {"turns": TURNS, "tools": repairs.TOOLS}
    with local_server(Environment(serve=str(written(folder / "tasks", task_ids)), knobs=knobs)) as url:
        yield url


def written(folder: Path, task_ids: Sequence[str]) -> Path:
    """Raises Refused for a folder of tasks that were made otherwise."""
    file, wanted = folder / FILE_NAME, dict.fromkeys(task_ids)
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    known = [row["task_id"] for row in rows]
    if any(row["problem_statement"] != of_id(row["task_id"]).statement for row in rows):
        raise Refused(f"{folder} holds other repairs under the same names: use another --out")
    if not set(wanted) <= set(known):
        on = repairs.snapshot()
        folder.mkdir(parents=True, exist_ok=True)
        write_tasks(folder, (repairs.task(of_id(name), on) for name in wanted | dict.fromkeys(known)))
    return folder


# --- the bases ---------------------------------------------------------------------------------------------------


def sizes(name: str) -> Sizes:
    return Sizes(skill=SKILL[name])


def dialogues(of: Sizes) -> Iterable[Mapping[str, Any]]:
    return repair_dialogues.dialogues(of.dialogues, skill=of.skill, seed=SEED)


def right_hints(task_ids: Sequence[str]) -> dict[str, str]:
    """Return what the environment says to a first edit in a folder where the module is not."""
    with asyncio.Runner() as runner:
        return {
            prompt(repairs.task(of), repairs.TOOLS): runner.run(repair_dialogues.hint(of, _elsewhere(of)[0]))
            for of in map(of_id, task_ids)
        }


def _elsewhere(of: Repair) -> list[str]:
    """The folders where the module is not."""
    return [folder for folder in FOLDERS if of.edit(folder)["path"] != of.path]


# --- what is counted ---------------------------------------------------------------------------------------------


def edits_first(rollout: Rollout) -> bool:
    """Return whether its first turn edits, wherever: one that submits at once cannot err."""
    return any(call["name"] == EDIT for call in first_calls(rollout))


def edits_what_is_listed(name: str, calls: Calls) -> bool:
    listed = of_id(name).listed
    return bool(calls) and all(call["name"] == EDIT and _path(call["arguments"]) in listed for call in calls)


def _path(arguments: Any) -> Any:
    return arguments.get("path") if isinstance(arguments, Mapping) else None


def retold(error: ErrorTurn, call: Mapping[str, Any]) -> str | None:
    path, missing = _path(call["arguments"]), error.message.removeprefix(_MISSING)
    if call["name"] != EDIT or not isinstance(path, str) or missing == error.message:
        return None
    return f"There is no `{missing}`; the nearest path is {path}."


class Repairs:
    """What teachers know. Wrong is an edit in a folder where the module is not."""

    def right(self, task_id: str, messages: Messages) -> Call:
        """Return the edit, until it was made; then submit."""
        edit = (EDIT, of_id(task_id).edit())
        return (SUBMIT, {"summary": EDITED}) if edit in calls_made(messages) else edit

    def wrong(self, task_id: str, messages: Messages, chance: random.Random) -> Call:
        of = of_id(task_id)
        return EDIT, of.edit(chance.choice(_elsewhere(of)))


REPAIRS = World(
    served=serving,
    held_out=held_out,
    learned=learned,
    played=played,
    knows=Repairs,
    right_hints=right_hints,
    sizes=sizes,
    dialogues=dialogues,
    errs=0.5,
    hinted={"strong": (0.0, 0.15), "weak": (0.1, 0.45)},
    tries=edits_first,
    works=edits_what_is_listed,
    retold=retold,
    prompts=2,
    group=8,
    held=32,
    parts=3,
    updates=24,
    max_ids=640,
    max_turn_ids=48,
    telling=frozenset({"file_not_found"}),
)
