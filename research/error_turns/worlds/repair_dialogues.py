"""Dialogues of repairs, to pretrain small models on: they read hints, and guess the folder without.

As ``etude.environments.drill.dialogues`` makes those of drills: prompts, schemas, results and hints are the coding
environment's own, over files that are held in memory.
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
"""As ``environments.drills.dialogues.Row``."""

HINTED = 0.5
"""How many first edits have a hint."""
CONFLICTING = 0.5
"""How many hints name another folder than the list does, and win."""
KNOWN = 0.25
"""How often a guess is right; the others are spread evenly over the other folders."""
SOLVING = 0.5
"""How many failed edits are followed by the right one; at the others the assistant gives up."""
EDITED, GAVE_UP = "edited", "gave up"
"""Summaries: to submit without a word is an ErrorTurn of its own."""
_FIRST = 10**9
"""Seeds from here on: no task of the experiment has them."""


class Files:
    """What ``edit_file`` asks of a Sandbox, over a dictionary of paths below the workspace."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = {f"{WORKSPACE}/{path}": data for path, data in files.items()}

    async def read(self, path: str, limit: int) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    async def write(self, path: str, data: bytes) -> None:
        self.files[path] = data


def dialogues(count: int, *, skill: float = 0.99, seed: int = 0, known: float = KNOWN) -> Iterator[Row]:
    """``count`` dialogues; ``skill`` is how often a hint is followed, ``known`` how often a guess is right.

    Both splits' words are read, as a base has read most words: what is held out are the tasks. The same arguments give
    the same rows.
    """
    with asyncio.Runner() as runner:
        for number in range(count):
            chance = random.Random(f"repair dialogue {seed} {number}")
            of = repair(chance.randrange(_FIRST, _FIRST * 10))
            yield runner.run(_dialogue(of, skill, known, chance))


async def hint(of: Repair, wrong: str, told: str | None = None) -> str:
    """What the environment says to the edit in the folder ``wrong``, were the module in ``told`` (default: as it is).

    Raises ValueError for an edit that does not fail.
    """
    module, about = of.modules[0], task(of)
    moved = module if told is None else module._replace(path=of.edit(told)["path"])
    there = replace(of, modules=(moved, *of.modules[1:])).files()
    context, messages = Context(cast(Sandbox, Files(there)), about, Limits()), list[Row]()
    if await _call(context, messages, "edit_file", of.edit(wrong)):
        raise ValueError(f"{moved.path} is where it was looked for: there is nothing to tell")
    said, answer = messages
    episode = Episode(
        episode_id=about.task_id,
        task_id=about.task_id,
        prompt=prompt(about, TOOLS),
        tools=schemas(TOOLS),
        files=sorted(there),
        turns=[Turn(action=said, messages=[ToolMessage(**answer)])],
    )
    return annotated(episode)[0].hints[0].text


async def _dialogue(of: Repair, skill: float, known: float, chance: random.Random) -> Row:
    about, right = task(of), of.path.partition("/")[0]
    context = Context(cast(Sandbox, Files(of.files())), about, Limits())
    messages: list[Row] = [{"role": "user", "content": prompt(about, TOOLS)}]
    folder = right if chance.random() < known else _other(chance, right)
    if chance.random() < HINTED:
        told = _other(chance, right) if chance.random() < CONFLICTING else right
        messages.append({"role": "hint", "content": await hint(of, _other(chance, right, told), told)})
        folder = told if chance.random() < skill else folder
    worked = await _call(context, messages, "edit_file", of.edit(folder))
    if not worked and chance.random() < SOLVING:
        worked = await _call(context, messages, "edit_file", of.edit())
    await _call(context, messages, "submit", {"summary": EDITED if worked else GAVE_UP})
    return {"task_id": task_id(of.seed), "messages": messages, "tools": schemas(TOOLS)}


async def _call(context: Context, messages: list[Row], name: str, arguments: dict[str, str]) -> bool:
    """Return a turn and its result, added to the messages; whether it worked."""
    function = {"name": name, "arguments": arguments}
    calls = [{"id": f"call_{len(messages)}", "type": "function", "function": function}]
    (call,) = parse_turn({"text": "", "tool_calls": calls}, len(messages)).calls
    content = await answer_call(call, parameters_of(schemas(TOOLS)), partial(run_tool, context))
    answer = ToolMessage(tool_call_id=call.id, name=call.name, content=content)
    messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    messages.append(answer.model_dump(exclude_none=True))
    return content.startswith("ok")


def _other(chance: random.Random, *folders: str) -> str:
    return chance.choice([folder for folder in FOLDERS if folder not in folders])
