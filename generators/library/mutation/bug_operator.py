"""The generator ``bug_operator``: a wrong operator in code that tests run, and a bug report about what fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ...base import TestPolicy
from ...python.mutants import possible_mutants
from ...python.source import Module
from ...statements.styles import StyleChoice
from .family import BugGenerator, Site


@dataclass(frozen=True)
class Knobs:
    """Which operators become wrong, and what the workspace shows of the tests."""

    operators: Literal["comparison", "boolean", "all"] = "all"
    """``comparison`` changes ``<``, ``==``, ``in`` and ``is``; ``boolean`` changes ``and``, ``or`` and ``not``."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the changed line."""
    style: StyleChoice = "seeded"
    """Who writes the statement: a user (``issue``), a maintainer (``instruction``), in a word (``terse``), or drawn."""


class OperatorBug(BugGenerator):
    """Put one wrong comparison or boolean operator into tested code and ask for the correction."""

    name = "bug_operator"
    version = "4"
    knobs = Knobs

    def sites(self, module: Module, lines: Collection[int], knobs: Knobs) -> Iterator[Site]:
        """Yield the mutants of operators on the lines that tests run."""
        operators = ("comparison", "boolean") if knobs.operators == "all" else (knobs.operators,)
        for mutant in possible_mutants(module.source, lines):
            if mutant.operator in operators:
                yield Site(module.path, mutant, (mutant.line,))
