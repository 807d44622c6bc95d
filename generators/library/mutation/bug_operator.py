"""The generator ``bug_operator``: a wrong operator in code that tests run, and a bug report about what fails."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ....models import GeneratorRef
from ...base import Candidate, HiddenTests, StatementContext, TestPolicy
from ...python.mutants import Mutant, possible_mutants
from ...python.source import Module
from ...python.tested_code import TestedCode, in_seed_order
from ...statements.behaviours import behaviour_lines, bullets, interface_lines

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_HEADINGS = {
    "hidden": "Tests that are not part of this code base fail. They are about",
    "visible": "These tests of the code base fail",
    "half": "These tests fail; half of them are part of the code base",
}


@dataclass(frozen=True)
class Knobs:
    """Which operators become wrong, and what the workspace shows of the tests."""

    operators: Literal["comparison", "boolean", "all"] = "all"
    """``comparison`` changes ``<``, ``==``, ``in`` and ``is``; ``boolean`` changes ``and``, ``or`` and ``not``."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the changed line."""


@dataclass(frozen=True)
class BugReport:
    """What a user of the package can report: what misbehaves, not where the mistake is."""

    policy: TestPolicy

    def render(self, context: StatementContext) -> str:
        """Return the report: the failing behaviours, and the names of the package that they use."""
        paragraphs = [
            f"# Wrong behaviour in {context.package}",
            "A recent change to this code base, the package named above, put a mistake into its code: some calls give "
            "wrong results, or raise where they should not. No documentation changed, so it still describes the right "
            "behaviour. Find the mistake and correct it in the package; everything else works and has to keep working.",
        ]
        behaviours = behaviour_lines(context.failing)
        if behaviours:
            paragraphs.append(f"## What is wrong\n\n{_HEADINGS[self.policy]}:\n\n{bullets(behaviours)}")
        names = interface_lines(context.interface)
        if names:
            paragraphs.append("## Interface\n\nThe failing tests use:\n\n" + "\n".join(names))
        return "\n\n".join(paragraphs) + "\n"


class OperatorBug:
    """Put one wrong comparison or boolean operator into tested code and ask for the correction."""

    name = "bug_operator"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per operator on a line that tests run, in seed order."""
        code = TestedCode(snapshot)
        pool = ((module.path, mutant) for module in code.tree.modules() for mutant in _mutants(code, module, knobs))
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for path, mutant in in_seed_order(
            pool, seed, self.name, key=lambda item: (item[0], item[1].start, item[1].text)
        ):
            if not mutant.changes_code():
                continue
            affected = code.tests_of_lines(path)[mutant.line]
            digest = hashlib.sha256(mutant.source).hexdigest()[:12]  # a task's id is public: it must not name the place
            yield Candidate(
                entity=f"{path}::{digest}",
                generator=reference,
                exercise={path: mutant.source},
                hidden_tests=HiddenTests(affected, knobs.tests),
                statement=BugReport(knobs.tests),
                documented=False,
                features={"tests_touching": len(affected)},
            )


def _mutants(code: TestedCode, module: Module, knobs: Knobs) -> Iterator[Mutant]:
    """Yield the mutants of operators on lines that enough, but not too many, tests run."""
    operators = ("comparison", "boolean") if knobs.operators == "all" else (knobs.operators,)
    tests_of_lines = code.tests_of_lines(module.path)
    for mutant in possible_mutants(module.source, tests_of_lines):
        if mutant.operator in operators and code.decides(tests_of_lines.get(mutant.line, []), knobs.max_share):
            yield mutant
