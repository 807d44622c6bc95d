"""The generator ``off_by_one``: an integer literal in tested code is off by one, and the failing tests are named."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import Field

from etude.environments.snapshots import Snapshot
from etude.generators.base import Candidate, HiddenTests, StatementContext
from etude.generators.python.mutants import possible_mutants
from etude.generators.python.tested_code import TestedCode, in_seed_order
from etude.generators.statements.behaviours import behaviour_lines, bullets
from etude.models import GeneratorRef


@dataclass(frozen=True)
class Knobs:
    """Which numbers are changed."""

    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the changed line."""


@dataclass(frozen=True)
class Report:
    """What a user of the package sees: the tests that fail, not the place of the mistake."""

    def render(self, context: StatementContext) -> str:
        """Return the report with the failing tests as plain words."""
        failing = bullets(behaviour_lines(context.failing))
        return f"# A number in {context.package} is wrong\n\nIt is off by one. These tests fail:\n\n{failing}\n"


class OffByOne:
    """Change an integer literal in tested code by one and ask for the correction."""

    name = "off_by_one"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per integer literal on a line that tests run, in seed order."""
        code = TestedCode(snapshot)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        pool = [
            (module.path, mutant)
            for module in code.tree.modules()
            for mutant in possible_mutants(module.source, code.tests_of_lines(module.path))
            if mutant.operator == "constant" and mutant.text.isdigit()
        ]
        for path, mutant in in_seed_order(pool, seed, self.name, key=lambda item: (item[0], item[1].start)):
            tests = code.tests_of_lines(path).get(mutant.line, [])
            if code.decides(tests, knobs.max_share) and mutant.changes_code():
                digest = hashlib.sha256(mutant.source).hexdigest()[:12]  # the task's id must not name the place
                yield Candidate(
                    entity=f"{path}::{digest}",
                    generator=reference,
                    exercise={path: mutant.source},
                    hidden_tests=HiddenTests(tests, "visible"),
                    statement=Report(),
                    documented=False,
                )
