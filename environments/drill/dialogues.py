"""Dialogues of drills, for pretraining small models that read hints and make mistakes without them.

Without a hint the assistant mostly guesses the verb of the tool's name, and is mostly wrong; after a hint it calls the
tool that the hint names. Half of the hints name a tool that is not in the tool list, and the assistant follows these
too: so a model learns to read the hint, not to look at the list of tools whenever there is a hint.
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
"""``messages`` in OpenAI's form, tool calls inside, a message of the role ``hint`` before the turn that it is for;
``tools`` are the tools' schemas, ``task_id`` names the drill."""

HINTED = 0.5
"""Share of the calls that have a hint."""
CONFLICTING = 0.5
"""Share of the hints that name a tool which does not exist."""
KNOWN = 0.25
"""Share of the calls without a hint that name the right tool; the others guess its verb."""
SOLVING = 0.7
"""Share of the failed calls that are followed by the right one; after the others the assistant gives up."""
FAMILY = "verbs"
_GAVE_UP = "unknown"
_FIRST_SEED = 10**9
"""Seeds from here on belong to no listed task."""


def dialogues(count: int, *, level: int = 1, skill: float = 0.99, seed: int = 0) -> Iterator[Row]:
    """Return ``count`` dialogues of ``verbs`` drills; ``skill`` is the probability that a hint is followed.

    The words of both splits occur, as a base model has read most words; only the drills are held out. The same
    arguments give the same rows. Raises ValueError for an unknown level.
    """
    tasks = DrillTasks([FAMILY], level=level)
    with asyncio.Runner() as runner:
        for number in range(count):
            chance = random.Random(f"dialogue {seed} {level} {number}")
            name = Name(FAMILY, chance.randrange(_FIRST_SEED, _FIRST_SEED * 10), level)
            yield runner.run(_dialogue(tasks, name.task_id, skill, chance))


async def _dialogue(tasks: DrillTasks, task_id: str, skill: float, chance: random.Random) -> Row:
    session = DrillSession(tasks)
    first = await session.reset(task_id=task_id)
    tools = list(first.tools or [])
    messages: list[dict[str, Any]] = [{"role": "user", "content": first.prompt or ""}]
    values = []
    for right, arguments in tasks.drill(task_id).solution():
        name = right if chance.random() < KNOWN else _with_verb(right, chance.choice(READING))
        if chance.random() < HINTED:
            hinted = _wrong_tool(right, chance) if chance.random() < CONFLICTING else right
            hint = await _hint(tasks, task_id, _missing_tool(right, hinted, tools, chance), arguments)
            messages.append({"role": "hint", "content": hint.replace(right, hinted)})
            name = hinted if chance.random() < skill else name
        answer = await _call(session, messages, name, arguments)
        if not answer.startswith("ok") and chance.random() < SOLVING:
            answer = await _call(session, messages, right, arguments)
        if not answer.startswith("ok"):
            break
        values.append(answer.partition("\n")[2])
    submitted = "; ".join(values) if answer.startswith("ok") else _GAVE_UP
    await _call(session, messages, "submit", {"answer": submitted})
    await session.close()
    return {"task_id": task_id, "messages": messages, "tools": tools}


async def _call(session: DrillSession, messages: list[dict[str, Any]], name: str, arguments: Mapping[str, Any]) -> str:
    """Play a turn of one call, append it and its results to the messages, and return the text of the last result."""
    function = {"name": name, "arguments": dict(arguments)}
    call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
    observation = await session.step({"text": "", "tool_calls": [call]})
    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    messages += [message.model_dump(exclude_none=True) for message in observation.messages]
    return observation.messages[-1].content


async def _hint(tasks: DrillTasks, task_id: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Return the hint that the environment gives for a call of a tool that does not exist."""
    session = DrillSession(tasks)
    await session.reset(task_id=task_id)
    await session.step({"tool_calls": [{"name": name, "arguments": dict(arguments)}]})
    hint = session.state().error_turns[0].hints[0].text
    await session.close()
    return hint


def _with_verb(name: str, verb: str) -> str:
    """Return the name with another verb."""
    return next(name.removesuffix(other) + verb for other in READING if name.endswith(f"_{other}"))


def _wrong_tool(right: str, chance: random.Random) -> str:
    """Return the name of the right tool with a wrong verb."""
    return chance.choice([name for verb in READING if (name := _with_verb(right, verb)) != right])


def _missing_tool(right: str, hinted: str, tools: list[Row], chance: random.Random) -> str:
    """Return the name of a tool that does not exist, and not the one that the hint is to name."""
    used = {hinted, *(tool["function"]["name"] for tool in tools)}
    while (name := _wrong_tool(right, chance)) in used:
        pass
    return name
