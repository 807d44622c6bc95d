"""Dialogues of drills, to pretrain small models on: they read hints, and err without.

Without a hint the assistant mostly guesses the verb of the tool's name, and is mostly wrong; behind a hint it takes
the tool that the hint tells. In half of the hints that tool is not the one of the tool list: the hint wins all the
same, so that a model learns to read hints, not to look at tools because a hint is there.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from typing import Any

from .session import DrillSession
from .tasks import DrillTasks, Name
from .words import READING

Row = dict[str, Any]
"""``messages`` in OpenAI's form, tool calls inside; a message of the role ``hint`` stands before the turn that it is
for. ``tools`` are their schemas, ``task_id`` the drill."""

HINTED = 0.5
"""How many calls have a hint."""
CONFLICTING = 0.5
KNOWN = 0.25
"""How often the right tool is called without a hint; the other times its verb is a guess."""
SOLVING = 0.7
"""How many failed calls are followed by the right one; at the others the assistant gives up."""
FAMILY = "verbs"
_GAVE_UP = "unknown"
_FIRST = 10**9
"""Seeds from here on: no listed task has them."""


def dialogues(count: int, *, level: int = 1, skill: float = 0.99, seed: int = 0) -> Iterator[Row]:
    """``count`` dialogues of ``verbs`` drills; ``skill`` is how often a hint is heeded, not guessed as without one.

    Both splits' words are read, as a base has read most words: what is held out are the drills. The same arguments
    give the same rows. Raises ValueError for a level that there is not.
    """
    tasks = DrillTasks([FAMILY], level=level)
    with asyncio.Runner() as runner:
        for number in range(count):
            chance = random.Random(f"dialogue {seed} {level} {number}")
            name = Name(FAMILY, chance.randrange(_FIRST, _FIRST * 10), level)
            yield runner.run(_dialogue(tasks, name.task_id, skill, chance))


async def _dialogue(tasks: DrillTasks, task_id: str, skill: float, chance: random.Random) -> Row:
    session = DrillSession(tasks)
    first = await session.reset(task_id=task_id)
    tools = list(first.tools or [])
    messages: list[dict[str, Any]] = [{"role": "user", "content": first.prompt or ""}]
    found = []
    for right, arguments in tasks.drill(task_id).solution():
        name = right if chance.random() < KNOWN else _verb(right, chance.choice(READING))
        if chance.random() < HINTED:
            told = _other(right, chance) if chance.random() < CONFLICTING else right
            hint = await _hint(tasks, task_id, _missing(right, told, tools, chance), arguments)
            messages.append({"role": "hint", "content": hint.replace(right, told)})
            name = told if chance.random() < skill else name
        answer = await _call(session, messages, name, arguments)
        if not answer.startswith("ok") and chance.random() < SOLVING:
            answer = await _call(session, messages, right, arguments)
        if not answer.startswith("ok"):
            break
        found.append(answer.partition("\n")[2])
    said = "; ".join(found) if answer.startswith("ok") else _GAVE_UP
    await _call(session, messages, "submit", {"answer": said})
    await session.close()
    return {"task_id": task_id, "messages": messages, "tools": tools}


async def _call(session: DrillSession, messages: list[dict[str, Any]], name: str, arguments: Mapping[str, Any]) -> str:
    """A turn and its results, added to the messages; the last result's text."""
    function = {"name": name, "arguments": dict(arguments)}
    call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
    action = {"text": "", "tool_calls": [call]}
    seen = await session.step(action)
    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    messages += [message.model_dump(exclude_none=True) for message in seen.messages]
    return seen.messages[-1].content


async def _hint(tasks: DrillTasks, task_id: str, name: str, arguments: Mapping[str, Any]) -> str:
    """What the environment says to a call of a tool that there is not."""
    session = DrillSession(tasks)
    await session.reset(task_id=task_id)
    await session.step({"tool_calls": [{"name": name, "arguments": dict(arguments)}]})
    hint = session.state().error_turns[0].hints[0].text
    await session.close()
    return hint


def _verb(name: str, verb: str) -> str:
    """The name with another verb."""
    return next(name.removesuffix(each) + verb for each in READING if name.endswith(f"_{each}"))


def _other(right: str, chance: random.Random) -> str:
    return chance.choice([name for each in READING if (name := _verb(right, each)) != right])


def _missing(right: str, told: str, tools: list[Row], chance: random.Random) -> str:
    """A guess that is no tool, and not the one that the hint is to tell."""
    names = {told, *(tool["function"]["name"] for tool in tools)}
    while (name := _other(right, chance)) in names:
        pass
    return name
