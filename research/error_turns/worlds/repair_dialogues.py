"""Dialogues of repairs for the pretraining of small models: they follow hints, and guess the folder without one.

The counterpart for drills is ``etude.environments.drill.dialogues``. Prompts, schemas, results and hints come from the
coding environment, which works on files in memory.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

from etude.environments.annotations import annotated
from etude.environments.coding.prompt import prompt
from etude.environments.coding.tools import run_tool, schemas
from etude.environments.sandbox import WORKSPACE, Limits, Sandbox
from etude.environments.tool_protocol import Context, answer_call
from etude.hints.transcript.parsing import parse_turn
from etude.hints.transcript.tool_schemas import parameters_of
from etude.models import Episode, ToolMessage, Turn
from etude.research.error_turns.worlds.repairs import FOLDERS, TOOLS, Repair, repair, task, task_id

Row = dict[str, Any]
"""A dialogue as one JSON row."""

HINTED = 0.5
"""Share of first edits that have a hint."""
CONFLICTING = 0.5
"""Share of hints that name another folder than the list; the assistant follows the hint."""
KNOWN = 0.25
"""Share of right guesses; wrong ones are spread evenly over the other folders."""
SOLVING = 0.5
"""Share of failed edits that the right one follows; after the others the assistant gives up."""
EDITED, GAVE_UP = "edited", "gave up"
"""Summaries of a submission, because one without a summary would be another error turn."""
_FIRST = 10**9
"""First seed of the dialogues; no task of the experiment has so large a seed."""


class Files:
    """The part of a Sandbox that ``edit_file`` uses, over a dictionary of paths below the workspace."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = {f"{WORKSPACE}/{path}": data for path, data in files.items()}

    async def read(self, path: str, limit: int) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    async def write(self, path: str, data: bytes) -> None:
        self.files[path] = data


def dialogues(count: int, *, skill: float = 0.99, seed: int = 0, known: float = KNOWN) -> Iterator[Row]:
    """Yield ``count`` dialogues; ``skill`` is the share of hints that are followed, ``known`` that of right guesses.

    They have the words of both splits: tasks are held out, not words. The same arguments give the same rows.
    """
    with asyncio.Runner() as runner:
        for number in range(count):
            rng = random.Random(f"repair dialogue {seed} {number}")
            exercise = repair(rng.randrange(_FIRST, _FIRST * 10))
            yield runner.run(_dialogue(exercise, skill, known, rng))


async def hint(exercise: Repair, wrong: str, right: str | None = None) -> str:
    """Return the environment's hint after an edit in the folder ``wrong``.

    ``right`` is the folder that holds the module then; None for its own. Raises ValueError for an edit that works.
    """
    module, edited_task = exercise.modules[0], task(exercise)
    moved = module if right is None else module._replace(path=exercise.edit(right)["path"])
    files = replace(exercise, modules=(moved, *exercise.modules[1:])).files()
    context, messages = Context(cast(Sandbox, Files(files)), edited_task, Limits()), list[Row]()
    if await _call(context, messages, "edit_file", exercise.edit(wrong)):
        raise ValueError(f"the edit of {moved.path} works, so that there is no hint; name another folder")
    action, answer = messages
    episode = Episode(
        episode_id=edited_task.task_id,
        task_id=edited_task.task_id,
        prompt=prompt(edited_task, TOOLS),
        tools=schemas(TOOLS),
        files=sorted(files),
        turns=[Turn(action=action, messages=[ToolMessage(**answer)])],
    )
    return annotated(episode)[0].hints[0].text


async def _dialogue(exercise: Repair, skill: float, known: float, rng: random.Random) -> Row:
    exercise_task, right = task(exercise), exercise.path.partition("/")[0]
    context = Context(cast(Sandbox, Files(exercise.files())), exercise_task, Limits())
    messages: list[Row] = [{"role": "user", "content": prompt(exercise_task, TOOLS)}]
    folder = right if rng.random() < known else _other(rng, right)
    if rng.random() < HINTED:
        advised = _other(rng, right) if rng.random() < CONFLICTING else right
        messages.append({"role": "hint", "content": await hint(exercise, _other(rng, right, advised), advised)})
        folder = advised if rng.random() < skill else folder
    worked = await _call(context, messages, "edit_file", exercise.edit(folder))
    if not worked and rng.random() < SOLVING:
        worked = await _call(context, messages, "edit_file", exercise.edit())
    await _call(context, messages, "submit", {"summary": EDITED if worked else GAVE_UP})
    return {"task_id": task_id(exercise.seed), "messages": messages, "tools": schemas(TOOLS)}


async def _call(context: Context, messages: list[Row], name: str, arguments: dict[str, str]) -> bool:
    """Play a call, add the turn and its result to the messages, and return whether the call worked."""
    function = {"name": name, "arguments": arguments}
    calls = [{"id": f"call_{len(messages)}", "type": "function", "function": function}]
    (call,) = parse_turn({"text": "", "tool_calls": calls}, len(messages)).calls
    content = await answer_call(call, parameters_of(schemas(TOOLS)), partial(run_tool, context))
    answer = ToolMessage(tool_call_id=call.id, name=call.name, content=content)
    messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    messages.append(answer.model_dump(exclude_none=True))
    return content.startswith("ok")


def _other(rng: random.Random, *folders: str) -> str:
    return rng.choice([folder for folder in FOLDERS if folder not in folders])
