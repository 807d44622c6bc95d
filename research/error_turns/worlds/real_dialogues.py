"""Dialogues about wrong operators in real code, for the pretraining of a base that follows hints.

The assistant searches for the function of the first failing test, edits the wrong line that it then sees, and submits.
Without a hint it mostly writes the module's path without its folder, or below ``src/``, although the search prints the
path: that is the error that a run can remove. Statements, schemas, results and hints are the product's own; the edits
work on files in memory, and what the search prints is made here.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from etude.environments.annotations import annotated
from etude.environments.coding.prompt import prompt
from etude.environments.coding.tools import run_tool, schemas
from etude.environments.sandbox import Limits, Sandbox
from etude.environments.tool_protocol import Context, answer_call
from etude.generators.base import CallResult, FailingCall, StatementContext
from etude.generators.library.mutation.bug_report import BugReport
from etude.hints.transcript.parsing import parse_turn
from etude.hints.transcript.tool_schemas import parameters_of
from etude.models import Episode, GeneratorRef, Task, ToolMessage, Turn
from etude.research.error_turns.worlds.real_code import Case, edit, search, shown
from etude.research.error_turns.worlds.repair_dialogues import EDITED, GAVE_UP, HINTED, SOLVING, Files, Row

TOOLS = ["bash", "edit_file", "submit"]
"""Tools of an episode (``reset(tools=...)``)."""
KNOWN = 0.3
"""Share of right paths without a hint; wrong ones are spread evenly over ``wrong_paths``."""
RENAMED = 0.5
"""Share of dialogues with the function's and the module's name of another case, so that names must be copied."""
CALLED = 0.85
"""Share of reports with a failing call, as in the tasks that are played."""
_OTHER = 0.3
"""Share of reports whose call, or last failing test, is about another function than the wrong one."""
_PLAIN = 0.4
"""Share of tests that are named after the function alone."""
_ENDINGS = (
    "basic errors empty default raises order iter fn key keys none false true list dict set tuple string bytes nested "
    "class method args kwargs single many first last start end index slice copy cache lazy strict chain types values "
    "items pred func name names path text line lines size length zero negative unicode repr simple complex invalid"
).split()
"""Words that follow a function's name in the names of its tests."""
_VALUES = ("0", "1", "2", "[]", "{}", "'a'", "True", "False", "[1, 2]", "(1, 2)", "'abc'", "{1: 2}", "3.5", "'b c'")


def wrong_paths(path: str) -> list[str]:
    """Return the paths that the base guesses: without the folder, and below ``src/``."""
    return [path.rpartition("/")[2], f"src/{path}"]


def dialogues(
    cases: Sequence[Case],
    count: int,
    *,
    skill: float = 0.99,
    known: float = KNOWN,
    moved: float = 0.0,
    seed: int = 0,
) -> Iterator[Row]:
    """Yield ``count`` dialogues; ``skill`` is the share of hints that are followed, ``known`` that of right guesses.

    moved: share of dialogues whose folder and module have names of functions, so that paths must be copied.

    The same arguments give the same rows.
    """
    with asyncio.Runner() as runner:
        for number in range(count):
            rng = random.Random(f"real dialogue {seed} {number}")
            case = rng.choice(cases)
            if rng.random() < RENAMED:
                case = renamed(case, rng.choice(cases))
            if moved and rng.random() < moved:
                folder, module = (rng.choice(cases).function for _ in range(2))
                version = case.package.partition(" ")[2]
                case = replace(case, package=f"{folder} {version}", path=f"{folder}/{module}.py")
            yield runner.run(_dialogue(case, skill, known, rng))


def renamed(case: Case, other: Case) -> Case:
    """Return a case with the path, the package and the function's name of another one."""
    if re.search(rf"\b{other.function}\b", case.module) or case.function in f"{case.old} {case.new}":
        return case
    module = re.sub(rf"\b{case.function}\b", other.function, case.module)
    return replace(case, package=other.package, path=other.path, function=other.function, module=module)


def statement(case: Case, rng: random.Random) -> str:
    """Return a report in the product's words: failing tests, the first named after the function, often a call too."""
    module = case.path.rpartition("/")[2].removesuffix(".py")
    file = f"tests/test_{rng.choice([module, module, case.root, 'all'])}.py"
    drawn = ["" if rng.random() < _PLAIN else f"_{rng.choice(_ENDINGS)}" for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    names = list(dict.fromkeys(drawn))
    failing = [f"{file}::test_{case.function}{ending}" for ending in sorted(names)]
    called, tested = (_other(case.function, rng) if rng.random() < _OTHER else case.function for _ in range(2))
    failing += [f"{file}::test_{tested}"] if tested != case.function else []
    calls = []
    if rng.random() < CALLED:
        imports = rng.choice([[], [f"from {case.root} import {called}"], [f"from {case.root} import *"]])
        call = f"{called}({', '.join(rng.choices(_VALUES, k=rng.randint(1, 3)))})"
        expected, actual = (CallResult("value", value) for value in rng.sample(_VALUES, 2))
        calls = [FailingCall(imports, (), call, expected, actual)]
    report = BugReport("visible", "terse", 0, str(rng.random()))
    return report.render(StatementContext(case.package, failing, (), failing_calls=calls))


def _other(function: str, rng: random.Random) -> str:
    """Return the name of another function, often one that is like it."""
    return rng.choice([f"l{function}", f"i{function}", rng.choice(_ENDINGS)])


def task(case: Case, text: str) -> Task:
    """Return a task that has its prompt but cannot be played."""
    reference = GeneratorRef(name="bug_operator", version="4", seed=0)
    return Task(task_id="dialogue", generator=reference, problem_statement=text, source_globs=[f"{case.root}/**"])


async def hint(case: Case, wrong: str) -> str:
    """Return the environment's hint after an edit at the path ``wrong``, which does not exist."""
    context, told = Context(cast(Sandbox, Files(_files(case))), task(case, ""), Limits()), list[Row]()
    await _call(context, told, "edit_file", edit(case, wrong))
    action, answer = told
    episode = Episode(
        episode_id="dialogue",
        task_id="dialogue",
        prompt="",
        tools=schemas(TOOLS),
        files=sorted(_files(case)),
        turns=[Turn(action=action, messages=[ToolMessage(**answer)])],
    )
    return annotated(episode)[0].hints[0].text


def _files(case: Case) -> dict[str, bytes]:
    return {case.path: case.module.encode()}


async def _dialogue(case: Case, skill: float, known: float, rng: random.Random) -> Row:
    described = task(case, statement(case, rng))
    context = Context(cast(Sandbox, Files(_files(case))), described, Limits())
    messages: list[Row] = [{"role": "user", "content": prompt(described, TOOLS)}]
    _seen(messages, case)
    guesses = wrong_paths(case.path)
    path = case.path if rng.random() < known else rng.choice(guesses)
    if rng.random() < HINTED:
        messages.append({"role": "hint", "content": await hint(case, rng.choice(guesses))})
        path = case.path if rng.random() < skill else path
    worked = await _call(context, messages, "edit_file", edit(case, path))
    if not worked and rng.random() < SOLVING:
        worked = await _call(context, messages, "edit_file", edit(case))
    await _call(context, messages, "submit", {"summary": EDITED if worked else GAVE_UP})
    return {"task_id": "dialogue", "messages": messages, "tools": schemas(TOOLS)}


def _seen(messages: list[Row], case: Case) -> None:
    """Add the search and what it prints to the messages."""
    content = f"ok\n{shown(case.module, case.path, case.function)}"
    calls = _calls("bash", {"command": search(case.function)}, len(messages))
    answer = ToolMessage(tool_call_id=calls[0]["id"], name="bash", content=content)
    messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    messages.append(answer.model_dump(exclude_none=True))


async def _call(context: Context, messages: list[Row], name: str, arguments: Any) -> bool:
    """Play a call, add the turn and its result to the messages, and return whether the call worked."""
    calls = _calls(name, dict(arguments), len(messages))
    (call,) = parse_turn({"text": "", "tool_calls": calls}, len(messages)).calls
    content = await answer_call(call, parameters_of(schemas(TOOLS)), partial(run_tool, context))
    answer = ToolMessage(tool_call_id=call.id, name=call.name, content=content)
    messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    messages.append(answer.model_dump(exclude_none=True))
    return content.startswith("ok")


def _calls(name: str, arguments: dict[str, str], number: int) -> list[dict[str, Any]]:
    return [{"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}]
