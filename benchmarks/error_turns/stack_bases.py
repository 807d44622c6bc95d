"""The bases of experiment (B), made by ``trainers.small`` from dialogues of drills, and the right hint of a drill."""

from __future__ import annotations

import asyncio
import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM
from transformers.utils import logging

from etude.benchmarks.error_turns import bases
from etude.benchmarks.error_turns.bases import SKILL, UnfitBase
from etude.environments.drill import DrillSession
from etude.environments.drills.dialogues import dialogues
from etude.environments.drills.tasks import DrillTasks
from etude.environments.drills.words import READING
from etude.trainers.recipe import Sizes
from etude.trainers.rollouts import Written
from etude.trainers.small.pretrain import is_made, make_base

FAMILY, LEVEL, SEED = "verbs", 1, 0
ERRS = 0.5
"""At least: how often a base errs in its first turn without a hint."""
HINTED = {"strong": (0.0, 0.15), "weak": (0.1, 0.45)}
"""How often it does with the right hint: a base that follows it with .6 is right in three eighths of the others."""


def sizes(name: str) -> Sizes:
    """Longer than the recipes' own: so that values are copied, and most drills are solved once the tool is found."""
    return Sizes(skill=SKILL[name], level=LEVEL, reading=800, steps=450, dialogues=32_800)


def base(name: str, folder: Path) -> Path:
    """Where the base is; it is made there unless it is there."""
    found, wanted = folder / name, sizes(name)
    if not is_made(found, wanted, SEED):
        folder.mkdir(parents=True, exist_ok=True)
        rows = folder / f"{name}.jsonl"
        with rows.open("w", encoding="utf-8") as file:
            for row in dialogues(wanted.dialogues, level=LEVEL, skill=wanted.skill, seed=SEED):
                file.write(json.dumps(row) + "\n")
        make_base(rows, wanted, found, seed=SEED, progress=functools.partial(told, name))
    return found


def told(name: str, what: str, step: int, of: int) -> None:
    if step % 100 == 0:
        print(f"base {name}: {what}, step {step} of {of}", file=sys.stderr, flush=True)


def digest(path: Path) -> str:
    logging.disable_progress_bar()
    return bases.digest(AutoModelForCausalLM.from_pretrained(path))


def check(name: str, plain: float, with_hint: float) -> None:
    """Raises UnfitBase for one that does not do what the experiment takes for granted."""
    least, most = HINTED[name]
    if plain < ERRS:
        raise UnfitBase(f"the base {name} errs in {plain:.3f} of its first turns without a hint, not in {ERRS} or more")
    if not least <= with_hint <= most:
        raise UnfitBase(
            f"the base {name} errs in {with_hint:.3f} of its first turns with the right hint, not in {least} to {most}"
        )


# --- the ceiling -------------------------------------------------------------------------------------------------


def right_hints(task_ids: Sequence[str]) -> dict[str, str]:
    """By a task's statement: what the environment says to a first call of a tool that there is not."""
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


class Hinted:
    """A chat whose first turn has a hint before it, by the user's words; every other turn is as it was."""

    def __init__(self, chat: Any, hints: Mapping[str, str]) -> None:
        self._chat, self._hints = chat, hints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chat, name)

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        written = self._chat.prompt(messages, tools)
        inserted = self._chat.hint(self._hints[str(messages[-1]["content"])], True)
        place = written.generation - inserted.back
        ids = [*written.ids[:place], *inserted.ids, *written.ids[place:]]
        return Written(ids, written.generation + len(inserted.ids))
