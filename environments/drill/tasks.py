"""Endless tasks: ``drill-FAMILY-SEED`` names one, and so does ``drill-FAMILY-SEED-lLEVEL``, which fixes its level.

Seeds that end in 9 are the split ``eval``, all others ``train``; the two also take their nouns from different words, so
that no statement of one occurs in the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, NamedTuple

from pydantic import Field

from ...errors import UnknownName
from ...models import AnswerVerifier, GeneratorRef, PublicTask, Task
from ...registry import did_you_mean
from ..declaration import Names
from ..rng import hashed_number
from ..tasks.task_set import Tasks
from .exercise import Deal, Drill
from .families import FAMILIES

ENVIRONMENT = "drill"
VERSION = "1"
LEVELS = (1, 2, 3, 4, 5)
SPLITS = ("train", "eval")
LISTED = 1000
"""Number of tasks of a split that are listed; larger indices have tasks too."""
_SECRET = "ETUDE_DRILL_SECRET"
_SEEDS = 10**12
_ID = re.compile(r"drill-(?P<family>[a-z_]+)-(?P<seed>0|[1-9]\d{0,18})(-l(?P<level>[1-5]))?", re.ASCII)


@dataclass(frozen=True)
class DrillKnobs:
    """Settings of the drill environment."""

    families: Names | None = None
    """Families that tasks are drawn from; default: all."""
    level: Annotated[int | None, Field(ge=LEVELS[0], le=LEVELS[-1])] = None
    """Difficulty from 1 to 5; default: mixed, by seed."""


class Name(NamedTuple):
    """The parts of a task's id."""

    family: str
    seed: int
    level: int | None
    """The level; None: the seed decides."""

    @property
    def task_id(self) -> str:
        """Return the id."""
        return f"drill-{self.family}-{self.seed}" + (f"-l{self.level}" if self.level else "")

    @property
    def split(self) -> str:
        """Return the split that the seed belongs to."""
        return "eval" if self.seed % 10 == 9 else "train"


def parse(task_id: str, families: Collection[str]) -> Name:
    """Return the parts of an id. Raises UnknownName, which shows an example of an id or names the nearest family."""
    match = _ID.fullmatch(task_id)
    if match is None:
        raise UnknownName(f"unknown drill {task_id[:80]!r}; an id looks like drill-choose-12 or drill-choose-12-l3")
    if match["family"] not in families:
        raise UnknownName(did_you_mean("family", match["family"], families))
    return Name(match["family"], int(match["seed"]), int(match["level"]) if match["level"] else None)


class DrillTasks(Tasks):
    """The tasks of ``families`` (default: all), at ``level`` 1 to 5 (default: mixed, by seed).

    ``secret`` (default: ETUDE_DRILL_SECRET) changes every answer, so that this code and a task's id are not enough to
    compute one. The same secret gives the same tasks. Raises UnknownName and ValueError.
    """

    def __init__(
        self, families: Sequence[str] | None = None, *, level: int | None = None, secret: str | None = None
    ) -> None:
        self._families: dict[str, Callable[[Deal], Drill]] = {name: FAMILIES.load(name) for name in FAMILIES.paths()}
        for name in families or ():
            if name not in self._families:
                raise UnknownName(did_you_mean("family", str(name), self._families))
        if level is not None and (type(level) is not int or level not in LEVELS):
            raise ValueError(f"level must be an integer from 1 to 5, got {level!r}")
        self._chosen = list(families or self._families)
        self._level = level
        self._secret = os.environ.get(_SECRET, "") if secret is None else secret
        self._cached = lru_cache(maxsize=256)(self._make)  # a drill takes 15 KB, and is made in less than 1 ms
        self._listed = lru_cache(maxsize=len(SPLITS))(super().list_tasks)

    @property
    def default_split(self) -> str:
        return SPLITS[0]

    def list_splits(self) -> list[str]:
        return list(SPLITS)

    def list_tasks(self, split: str) -> list[PublicTask]:
        return list(self._listed(split))

    def size(self, split: str) -> int:
        self.check_split(split, SPLITS)
        return LISTED

    def get_task(self, split: str, index: int) -> Task:
        """Return the task at any index from 0 on. Raises UnknownName for the split, IndexError for the index."""
        self.check_split(split, SPLITS)
        if not 0 <= index < _SEEDS:
            raise IndexError(f"split {split!r} has tasks 0 to {_SEEDS - 1}: index {index} is out of range")
        number, place = divmod(index, len(self._chosen))
        seed = number * 10 + 9 if split == "eval" else number // 9 * 10 + number % 9
        return self.by_id(Name(self._chosen[place], seed, self._level).task_id)

    def by_id(self, task_id: str) -> Task:
        return self._cached(task_id)[0]

    def draw(self, split: str | None, seed: int) -> Task:
        """Return a task of ``split`` (default: train) that ``seed`` chooses. Raises UnknownName."""
        return self.get_task(split or SPLITS[0], hashed_number(f"task {seed}") % _SEEDS)

    # --- What the session needs too -------------------------------------------------------------------------

    def drill(self, task_id: str) -> Drill:
        """Return the drill of a task. Raises UnknownName."""
        return self._cached(task_id)[1]

    def generate(self, name: Name) -> tuple[Task, Drill]:
        """Return a new task and its drill, which depend on the name and the secret alone."""
        family, seed, level = name
        if level is None:
            level = 1 + (hashed_number(f"level {family} {seed}") >> 32) % 5
        deal = Deal(f"drill {VERSION} {self._secret} {family} {seed} {level}", level, name.split == "eval")
        drill = self._families[family](deal)
        task = Task(
            task_id=name.task_id,
            environment=ENVIRONMENT,
            generator=GeneratorRef(
                name=ENVIRONMENT, version=VERSION, seed=seed, knobs={"family": family, "level": level}
            ),
            problem_statement=drill.statement,
            verifier=AnswerVerifier(answer=drill.answer, effects=dict(drill.effects)),
            features={"family": family, "level": level, "tools": len(drill.tools), **drill.features},
            split=name.split,
            licence="Apache-2.0",
        )
        return task, drill

    def _make(self, task_id: str) -> tuple[Task, Drill]:
        return self.generate(parse(task_id, self._families))


def default_drills() -> DrillTasks:
    """Return the drills of all families with the secret of ETUDE_DRILL_SECRET, shared within the process."""
    return _shared_drills(os.environ.get(_SECRET, ""))


@cache
def _shared_drills(secret: str) -> DrillTasks:
    return DrillTasks(secret=secret)  # looking for third parties' families takes longer than a hundred drills
