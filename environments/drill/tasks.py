"""Endless tasks: ``drill-FAMILY-SEED`` names one, and so does ``drill-FAMILY-SEED-lLEVEL``, which fixes how hard it is.

Seeds that end in 9 are the split ``eval``, all others ``train``; the two also take their nouns from different words,
so that no statement of one is in the other.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...errors import UnknownName
from ...models import AnswerVerifier, GeneratorRef, PublicTask, Task
from ...registry import did_you_mean
from .exercise import Deal, Drill
from .families import FAMILIES

VERSION = "1"
LEVELS = (1, 2, 3, 4, 5)
SPLITS = ("train", "eval")
LISTED = 1000
"""So many rows of a split are listed; an index may be larger."""
_SEEDS = 10**12
_ID = re.compile(r"drill-(?P<family>[a-z_]+)-(?P<seed>0|[1-9]\d{0,18})(-l(?P<level>[1-5]))?", re.ASCII)


class Name(NamedTuple):
    """What a task's id says."""

    family: str
    seed: int
    level: int | None

    @property
    def task_id(self) -> str:
        return f"drill-{self.family}-{self.seed}" + (f"-l{self.level}" if self.level else "")

    @property
    def split(self) -> str:
        return "eval" if self.seed % 10 == 9 else "train"


def parse(task_id: str, families: Collection[str]) -> Name:
    """Raises UnknownName that says how ids look, or which family is nearest."""
    match = _ID.fullmatch(task_id)
    if match is None:
        raise UnknownName(f"{task_id[:80]!r} names no drill: an id looks like drill-choose-12 or drill-choose-12-l3")
    if match["family"] not in families:
        raise UnknownName(did_you_mean("family", match["family"], families))
    return Name(match["family"], int(match["seed"]), int(match["level"]) if match["level"] else None)


class DrillTasks:
    """The tasks of ``families`` (default: all), at ``level`` 1 to 5 (default: mixed, by seed).

    ``secret`` (default: ETUDE_DRILL_SECRET) goes into every answer: who has the code and a task's id, but not the
    secret, cannot compute the answer. The same secret gives the same tasks. Raises UnknownName and ValueError.
    """

    blobs = None

    def __init__(
        self, families: Sequence[str] | None = None, *, level: int | None = None, secret: str | None = None
    ) -> None:
        self._families: dict[str, Callable[[Deal], Drill]] = {name: FAMILIES.load(name) for name in FAMILIES.paths()}
        for name in families or ():
            if name not in self._families:
                raise UnknownName(did_you_mean("family", str(name), self._families))
        if level is not None and (type(level) is not int or level not in LEVELS):
            raise ValueError(f"level is {level!r}: give a number from 1 to 5")
        self._chosen = list(families or self._families)
        self._level = level
        self._secret = os.environ.get("ETUDE_DRILL_SECRET", "") if secret is None else secret
        self._made = lru_cache(maxsize=4096)(self._make)
        self._listed = lru_cache(maxsize=len(SPLITS))(self._list)

    # --- what a task set has ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return LISTED * len(SPLITS)

    def __iter__(self) -> Iterator[Task]:
        """The listed tasks."""
        return (self.get_task(split, index) for split in SPLITS for index in range(LISTED))

    @property
    def num_tasks(self) -> int:
        return len(self)

    def list_splits(self) -> list[str]:
        return list(SPLITS)

    def list_tasks(self, split: str) -> list[PublicTask]:
        """The public parts of a split's first tasks. Raises UnknownName."""
        return list(self._listed(_known(split)))

    def size(self, split: str) -> int:
        """How many tasks are listed. Raises UnknownName."""
        return LISTED if _known(split) else 0

    def get_task(self, split: str, index: int) -> Task:
        """Any index from 0 on. Raises UnknownName for the split, IndexError for the index."""
        if not 0 <= index < _SEEDS:
            raise IndexError(f"split {split!r} has tasks 0 to {_SEEDS - 1}: index {index} is out of range")
        number, place = divmod(index, len(self._chosen))
        seed = number * 10 + 9 if _known(split) == "eval" else number // 9 * 10 + number % 9
        return self.by_id(Name(self._chosen[place], seed, self._level).task_id)

    def by_id(self, task_id: str) -> Task:
        """Raises UnknownName."""
        return self._made(task_id)[0]

    def draw(self, split: str | None, seed: int) -> Task:
        """A task of ``split`` (default: train) that ``seed`` chooses. Raises UnknownName."""
        drawn = hashlib.sha256(f"task {seed}".encode()).digest()[:8]
        return self.get_task(split or "train", int.from_bytes(drawn, "big") % _SEEDS)

    # --- what only the session asks -----------------------------------------------------------------------------

    def drill(self, task_id: str) -> Drill:
        """What the row was made from, with its tools. Raises UnknownName."""
        return self._made(task_id)[1]

    def generate(self, name: Name) -> tuple[Task, Drill]:
        """A row and its drill, made anew. A function of the name and the secret alone."""
        family, seed, level = name
        if level is None:
            level = 1 + int.from_bytes(hashlib.sha256(f"level {family} {seed}".encode()).digest()[:4], "big") % 5
        deal = Deal(f"drill {VERSION} {self._secret} {family} {seed} {level}", level, name.split == "eval")
        drill = self._families[family](deal)
        task = Task(
            task_id=name.task_id,
            environment="drill",
            generator=GeneratorRef(name="drill", version=VERSION, seed=seed, knobs={"family": family, "level": level}),
            problem_statement=drill.statement,
            verifier=AnswerVerifier(answer=drill.answer, effects=dict(drill.effects)),
            features={"family": family, "level": level, "tools": len(drill.tools), **drill.features},
            split=name.split,
            licence="Apache-2.0",
        )
        return task, drill

    def _make(self, task_id: str) -> tuple[Task, Drill]:
        return self.generate(parse(task_id, self._families))

    def _list(self, split: str) -> tuple[PublicTask, ...]:
        return tuple(self.get_task(split, index).public() for index in range(LISTED))


def _known(split: str) -> str:
    if split not in SPLITS:
        raise UnknownName(did_you_mean("split", split, SPLITS))
    return split
