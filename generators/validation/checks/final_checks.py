"""The checks that a validated Candidate still has to pass before it is a Task: V7, V4, strength, features."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ....environments.snapshots import Snapshot
from ....environments.tasks.task_trees import Materials
from ....errors import GeneratorError, Rejected
from ....models import Task
from ...python.source_tree import SourceTree
from .adequacy import completed, missing
from .features import measured
from .leaks import LeakCheck
from .removed import Exercise
from .strength import MUTANTS, strength

MIN_STRENGTH = 0.0


@dataclass(frozen=True)
class CheckKnobs:
    """``mutants``: how many mistakes of the solution the hidden tests are tried on (0: none); ``min_strength``: the
    share that they must notice.
    """

    mutants: int = MUTANTS
    min_strength: float = MIN_STRENGTH

    @classmethod
    def split(cls, knobs: Mapping[str, Any]) -> tuple[CheckKnobs, dict[str, Any]]:
        """These knobs and all others, which are the generators'. Raises GeneratorError for a value that is none."""
        rest = dict(knobs)
        try:
            chosen = cls(
                mutants=int(rest.pop("mutants", MUTANTS)), min_strength=float(rest.pop("min_strength", MIN_STRENGTH))
            )
        except (TypeError, ValueError):
            raise GeneratorError("knobs: mutants takes a whole number, min_strength a number") from None
        if chosen.mutants < 0 or not 0.0 <= chosen.min_strength <= 1.0:
            raise GeneratorError("knobs: mutants is 0 or more, min_strength between 0 and 1")
        if chosen.min_strength and not chosen.mutants:
            raise GeneratorError("knobs: min_strength needs mutants: raise that knob too")
        return chosen, rest


@dataclass
class FinalChecks:
    """Shared by the candidates of one Snapshot."""

    snapshot: Snapshot
    backend: str = "auto"
    knobs: CheckKnobs = CheckKnobs()
    leaks: LeakCheck = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.leaks = LeakCheck(self.snapshot)

    async def task(self, task: Task) -> Task:
        """The task with its statement completed, its strength and its features. Raises Rejected."""
        made = Materials(task, self.snapshot)
        exercise = await asyncio.to_thread(Exercise.of, task, made)
        items = await asyncio.to_thread(missing, task, made, exercise)
        whole = completed(task, items)
        if whole is None:
            raise Rejected("v7_under_specified", f"{len(items)} names and messages are told nowhere: {items[0].name!r}")
        leaks = await asyncio.to_thread(self.leaks.find, whole, made, exercise)
        if leaks:
            raise Rejected("v4_leak", str(leaks[0]))
        tested = await strength(whole, made, exercise, most=self.knobs.mutants, backend=self.backend)
        if tested.value is not None and tested.value < self.knobs.min_strength:
            missed = ", ".join(tested.survivors[:3])
            raise Rejected("v5_weak_tests", f"{tested.value:.0%} of {tested.tried} mistakes noticed, not {missed}")
        features = {**measured(whole, exercise, SourceTree.of(self.snapshot)), "mutants": tested.tried}
        return whole.model_copy(update={"verifier_strength": tested.value, "features": {**features, **whole.features}})
