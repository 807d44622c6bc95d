"""The world of real packages: mutation tasks that ``etude generate`` makes, played in sandboxes, graded by their tests.

The tasks are those of one package that a fixed rule keeps (``case_of_task``). Their functions are divided: a run learns
from the tasks of some functions, and tasks of other functions are held out. A base sees neither.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from etude.environments.coding.prompt import prompt
from etude.environments.tasks.task_set import TaskSet, write_tasks
from etude.environments.tasks.task_trees import materials
from etude.models import ErrorTurn, Task
from etude.research.error_turns.driver import Refused
from etude.research.error_turns.real_stack.scripted_teachers import Call, Messages, calls_made
from etude.research.error_turns.worlds import real_code, real_dialogues
from etude.research.error_turns.worlds.real_code import Case, case_of, edit, search
from etude.research.error_turns.worlds.real_dialogues import TOOLS, wrong_paths
from etude.research.error_turns.worlds.repair_dialogues import EDITED
from etude.research.error_turns.worlds.world import Calls, World, calls_of, first_calls
from etude.trainers.recipe.recipe import Environment, Sizes
from etude.trainers.rollouts.local_server import local_server
from etude.trainers.rollouts.rollout import Rollout

SOURCE, GENERATOR, CANDIDATES, SEED = "funcy==2.0", "bug_operator", 76, 1
"""Package and generator of the tasks, candidates at most, and the generator's seed."""
KNOBS = {"tests": "visible", "style": "terse"}
TURNS = 4
"""Turns of an episode: a search, a wrong edit, the right one, and submit."""
LONGEST_STATEMENT = 700
"""Characters of a statement, at most."""
_WORDS = Sizes(
    skill=0.99,
    vocabulary=1_200,
    joined_words=False,
    dialogues=12_000,
    copying=2_500,
    reading=1_200,
    steps=300,
    batch=8,
)
SIZES = {
    "short": Sizes(skill=0.99, dialogues=9_000, copying=500, reading=500, steps=120, batch=8),
    "strong": Sizes(skill=0.99, vocabulary=950, dialogues=11_200, copying=600, reading=300, steps=100, batch=16),
    "copying": Sizes(skill=0.99, vocabulary=950, dialogues=20_000, copying=2_500, reading=600, steps=300, batch=16),
    "words": _WORDS,
    "deep": _WORDS.model_copy(update={"layers": 4, "dialogues": 24_000, "reading": 1_500}),
    "wide": _WORDS.model_copy(update={"dialogues": 21_600}),
    "docstrings": _WORDS.model_copy(
        update={"dialogues": 17_600, "copying": 0, "reading": 900, "steps": 400, "learning_rate": 2e-3}
    ),
    "paths": _WORDS.model_copy(
        update={"dialogues": 8_800, "copying": 0, "reading": 300, "steps": 500, "learning_rate": 2e-3}
    ),
    "moved": _WORDS.model_copy(
        update={"dialogues": 12_000, "copying": 0, "reading": 500, "steps": 500, "learning_rate": 2e-3}
    ),
}
"""Sizes of the bases, in the order in which they were made (RESULTS_REAL.md). The dialogues of the first four were
about eleven packages, and tests in them had ten endings; the others have the dialogues that ``real_dialogues`` makes
now, but functions have docstrings in those of the last three alone. ``deep`` was not finished."""
STARTS = {"docstrings": "wide", "paths": "docstrings", "moved": "paths"}
"""Bases that are another base, trained further."""
KNOWN = 0.8
"""Share of right paths without a hint in the dialogues of ``paths`` and ``moved``."""
MOVED = 0.8
"""Share of dialogues of ``moved`` whose module is at a path that no package has."""
TEMPERATURE = 0.5
"""Sampling temperature of training and of evaluations."""
_TEST = re.compile(r"- `(?:[^`]*::)?test_(\w+?)(?:\[[^`]*)?`")


@dataclass(frozen=True)
class Played:
    """One task that a rule kept."""

    task_id: str
    statement: str
    case: Case


def generated(folder: Path) -> Path:
    """Return the folder with the tasks that ``etude generate`` made; made unless it is there. Raises Refused."""
    if not (folder / "tasks.jsonl").is_file():
        command = [sys.executable, "-m", "etude.cli", "generate", f"pypi:{SOURCE}", "-g", GENERATOR]
        command += ["--count", str(CANDIDATES), "--seed", str(SEED), "--out", str(folder)]
        for name, value in KNOBS.items():
            command += ["--knob", f"{name}={value}"]
        if subprocess.run(command, check=False).returncode:
            raise Refused("`etude generate` failed; its message is above")
    return folder


def first_tested(statement: str) -> str:
    """Return the name of the first failing test that a statement lists, without ``test_``; empty without one."""
    match = _TEST.search(statement)
    return match[1] if match else ""


def case_of_task(task: Task) -> Case | None:
    """Return the case of a task, None for one that the rule leaves out.

    The first failing test must be named after the one function of the package that has the wrong line, perhaps with an
    ending, and ``real_code.case_of`` must accept the line.
    """
    trees = materials(task)
    paths = re.findall(r"^\+\+\+ b/(.+)$", task.patch, re.MULTILINE)
    tested = first_tested(task.problem_statement)
    if len(paths) != 1 or not tested or len(task.problem_statement) > LONGEST_STATEMENT:
        return None
    (path,) = paths
    right, wrong = ((tree / path).read_text() for tree in (trees.solved_tree, trees.pristine_tree))
    package = f"{SOURCE.replace('==', ' ')}"
    names = sorted(set(re.findall(r"def (\w+)\(", wrong)), key=len, reverse=True)
    name = next((each for each in names if tested == each or tested.startswith(f"{each}_")), "")
    texts = [file.read_text() for file in sorted(trees.pristine_tree.rglob("*.py"))]
    if not name or sum(text.count(f"def {name}(") for text in texts) != 1:
        return None
    return case_of(package, path, right, wrong, name)


def kept(folder: Path) -> list[Played]:
    """Return the tasks that the rule keeps, in the order of their ids; stored in FOLDER/kept.json."""
    stored = folder / "kept.json"
    if not stored.is_file():
        pairs = [(task, case_of_task(task)) for task in TaskSet.load(generated(folder / "generated"))]
        played = sorted(
            (Played(task.task_id, task.problem_statement, case) for task, case in pairs if case is not None),
            key=lambda each: each.task_id,
        )
        stored.write_text(json.dumps([asdict(each) for each in played], indent=1))
        chosen = {each.task_id for each in played}
        write_tasks(folder / "tasks", (task for task, case in pairs if task.task_id in chosen))
    rows = json.loads(stored.read_text())
    return [Played(row["task_id"], row["statement"], Case(**row["case"])) for row in rows]


def is_held_out(function: str) -> bool:
    """Return whether the tasks of a function are held out; about half of the functions are."""
    return hashlib.sha256(function.encode()).digest()[0] % 2 == 0


@dataclass(frozen=True)
class Real:
    """The tasks of the folder as a world's functions."""

    folder: Path

    @functools.cached_property
    def by_id(self) -> Mapping[str, Played]:
        return {each.task_id: each for each in kept(self.folder)}

    def names(self, *, held: bool) -> list[str]:
        """Return the ids of the held-out tasks, or of the others."""
        return [each.task_id for each in self.by_id.values() if is_held_out(each.case.function) == held]

    def held_out(self, split: str, number: int) -> list[str]:
        """Return held-out tasks; they are the same for ``train`` and ``eval``, so that each is played twice."""
        return self.names(held=True)[:number]

    def learned(self, seed: int, number: int) -> list[str]:
        """Return the tasks that the run of a seed learns from: all in a shuffled order, again and again."""
        rng, names = random.Random(f"real {seed}"), self.names(held=False)
        rounds = itertools.chain.from_iterable(rng.sample(names, len(names)) for _ in itertools.count())
        return list(itertools.islice(rounds, number))

    def played(self, number: int) -> list[str]:
        return self.names(held=False)[:number]

    @contextmanager
    def served(self, folder: Path, task_ids: Sequence[str]) -> Iterator[str]:
        """Serve the kept tasks with ``etude serve``. Raises RecipeError."""
        assert self.by_id
        knobs = {"turns": TURNS, "tools": TOOLS}
        with local_server(Environment(serve=str(self.folder / "tasks"), knobs=knobs)) as url:
            yield url

    def dialogues(self, sizes: Sizes) -> Iterable[Mapping[str, Any]]:
        name = next((name for name in STARTS if SIZES[name] == sizes), "")
        cases = real_code.cases(self.folder / "packages", docstrings=name in STARTS)
        known = real_dialogues.KNOWN if name in ("", "docstrings") else KNOWN
        moved, seed = {"paths": (0.0, 1), "moved": (MOVED, 2)}.get(name, (0.0, 0))
        return real_dialogues.dialogues(cases, sizes.dialogues, skill=sizes.skill, known=known, moved=moved, seed=seed)

    def right_hints(self, task_ids: Sequence[str]) -> dict[str, str]:
        """Return the environment's hint after an edit without the module's folder, by the task's prompt."""
        with asyncio.Runner() as runner:
            return {
                prompt(real_dialogues.task(played.case, played.statement), TOOLS): runner.run(
                    real_dialogues.hint(played.case, wrong_paths(played.case.path)[0])
                )
                for played in map(self.by_id.__getitem__, task_ids)
            }

    def works(self, name: str, calls: Calls) -> bool:
        """Return whether there are calls, and all of them search."""
        return bool(calls) and all(call["name"] == "bash" for call in calls)

    def knows(self) -> Knowledge:
        return Knowledge(self)


class Knowledge:
    """Knowledge of the scripted teachers. A wrong call edits at a path that does not exist."""

    def __init__(self, real: Real) -> None:
        self._real = real

    def right(self, task_id: str, messages: Messages) -> Call:
        """Return the search, then the right edit; once it was made, submit."""
        case, made = self._real.by_id[task_id].case, calls_made(messages)
        looked = ("bash", {"command": search(case.function)})
        edited = ("edit_file", dict(edit(case)))
        return next((call for call in (looked, edited) if call not in made), ("submit", {"summary": EDITED}))

    def wrong(self, task_id: str, messages: Messages, rng: random.Random) -> Call:
        case = self._real.by_id[task_id].case
        return "edit_file", dict(edit(case, rng.choice(wrong_paths(case.path))))


def outcome(rollout: Rollout, case: Case) -> str:
    """Return how an episode of a task ended, in words for a table."""
    if rollout.reward.value >= 1:
        return "solved"
    turns = [call for calls in calls_of(rollout) for call in calls]
    if not any(call["arguments"] == {"command": search(case.function)} for call in turns):
        return "another search"
    edits = [call["arguments"] for call in turns if call["name"] == "edit_file"]
    if dict(edit(case)) in edits:
        return "right edit, and something else"
    if not edits:
        return "no edit"
    texts = [each for each in edits if isinstance(each, Mapping) and str(each.get("old", "\0")) in case.module]
    if any((each.get("old"), each.get("new")) == (case.old, case.new) for each in texts):
        return "right line, wrong path"
    if any(each.get("old") == case.old for each in texts):
        return "right line, wrong text"
    return "another line" if texts else "a line that the module does not have"


def searches_first(rollout: Rollout) -> bool:
    """Return whether the first turn runs a command."""
    return any(call["name"] == "bash" for call in first_calls(rollout))


def retold(error: ErrorTurn, call: Mapping[str, Any]) -> str | None:
    """Return None: no arm of this world says another hint."""
    return None


def sizes(name: str) -> Sizes:
    """Return the sizes of the base of this name."""
    return SIZES[name]


def world(folder: Path) -> World:
    """Return the world whose tasks and packages are in the folder."""
    real = Real(folder)
    return World(
        served=real.served,
        held_out=real.held_out,
        learned=real.learned,
        played=real.played,
        knows=real.knows,
        right_hints=real.right_hints,
        sizes=sizes,
        dialogues=real.dialogues,
        tries=searches_first,
        works=real.works,
        retold=retold,
        prompts=4,
        group=4,
        held=len(real.names(held=True)),
        parts=2,
        updates=8,
        max_ids=1100,
        max_turn_ids=80,
        temperature=TEMPERATURE,
        starts=STARTS,
    )
