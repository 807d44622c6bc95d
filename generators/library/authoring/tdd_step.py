"""The generator ``tdd_step``: a feature has what its tests so far need, and the next test fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ....errors import Rejected
from ....models import GeneratorRef, InterfaceItem
from ...base import Candidate, Files, HiddenTests, ScheduledStep
from ...base import Feature as FeatureValue
from ...python.hidden_tests import names_subject
from ...python.tested_code import TestedCode, in_seed_order, in_turn
from ..deletion.partial.rewriting.line_edits import tidied
from ..deletion.removal.name_index import NameIndex
from .tdd.given_test import GivenTest, given_test
from .tdd.reduction import Reduction
from .tdd.schedule import Feature, Step, features, lines_by_test, needed_at_import, steps
from .tdd.step_statement import StepStatement, missing_methods

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

MAX_UNTESTED = 0.5
"""Most statements that go and that no test runs, as a share of the lines that the step adds."""


@dataclass(frozen=True)
class Knobs:
    """How much a step asks for, and what the workspace shows of its test."""

    min_lines: Annotated[int, Field(ge=1)] = 2
    """Least number of lines that the step's tests run and no earlier test does."""
    max_lines: Annotated[int, Field(ge=1)] = 60
    """Most such lines."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that the step's tests may be."""
    hold_out: bool = True
    """Hold back cases or assertions of the next test that run no other lines than the shown ones."""


class TestDrivenStep:
    """Cut a feature down to what its first tests need, give the next test, and ask for one step.

    The tests of the feature are ordered by the code that they add. Code that only later tests run is missing too, from
    the solution as well, and these tests are not graded.
    """

    __test__ = False  # pytest takes every class whose name starts with Test for a test

    name = "tdd_step"
    version = "2"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per step that adds enough code: one of each feature in turn, in seed order."""
        code = TestedCode(snapshot)
        index = NameIndex.of(code.tree)
        pool = in_seed_order(
            (item for path in sorted(index.own) for item in features(code, index.files[path])),
            seed,
            self.name,
            key=lambda item: (item.file.path, item.name),
        )
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        maker = _StepMaker(code, needed_at_import(index), reference, knobs)
        yield from in_turn(maker.of_feature(feature) for feature in pool)


@dataclass(frozen=True)
class _StepMaker:
    """Makes the candidates of the features of one package."""

    code: TestedCode
    needed: Collection[str]  # names of methods that code at module level uses
    reference: GeneratorRef
    knobs: Knobs

    def of_feature(self, feature: Feature) -> Iterator[Candidate]:
        """Yield the candidates of one feature, in an order that the seed draws."""
        knobs = self.knobs
        eligible = [
            step
            for step in steps(lines_by_test(self.code, feature))
            if step.retained and knobs.min_lines <= len(step.new) <= knobs.max_lines
        ]
        name = f"{self.reference.name} {feature.file.path} {feature.name}"
        for step in in_seed_order(eligible, self.reference.seed, name, key=lambda step: step.number):
            candidate = self._propose(feature, step)
            if candidate is not None:
                yield candidate

    def _propose(self, feature: Feature, step: Step) -> Candidate | None:
        """Return the candidate of a step; None where no test names the feature, or the code cannot be taken out."""
        code, path = self.code, feature.file.path
        names = feature.names_of(step.new)
        test = next((item for item in step.nexts if any(names_subject(code.tree, item, name) for name in names)), None)
        if test is None:
            return None
        cases = self._cases(path, step, [test])
        others = self._cases(path, step, [item for item in (*step.nexts, *step.others) if item != test])
        if not code.decides([*cases, *others], self.knobs.max_share):
            return None
        later = list(self._cases(path, step, step.later))
        shown_test = given_test(code.tree, test, cases, [*others, *later], hold_out=self.knobs.hold_out)
        try:
            exercise = self._reduced(feature, step.retained, step.new | step.postponed, step)
            solution = self._reduced(feature, step.retained | step.new, step.postponed) if step.postponed else {}
        except (Rejected, ValueError):  # other code needs what would go, so no exercise shows the step alone
            return None
        after = solution.get(path) or feature.file.source
        if shown_test is None or exercise.get(path) in (None, after):
            return None
        missing = missing_methods(feature, exercise[path] or b"", after)
        dotted = f"{feature.file.dotted}.{feature.name}"
        originals = {file: code.tree.read(file) for file in exercise if file not in solution}
        return Candidate(
            entity=f"{path}::{feature.name}.step{step.number + 1}",
            generator=self.reference,
            exercise=exercise,
            hidden_tests=HiddenTests([*cases, *others], step=ScheduledStep(shown_test.files, shown_test.ids, later)),
            statement=StepStatement(dotted, feature.kind, path, test, shown_test, missing),
            subject=feature.name,
            interface=[
                InterfaceItem(name=f"{feature.file.dotted}.{item.name}", kind="method", signature=item.signature)
                for item in missing
            ],
            solution={**originals, **solution} if solution else {},
            features=_features(step, shown_test, len(later)),
        )

    def _cases(self, path: str, step: Step, functions: Sequence[str]) -> dict[str, set[int]]:
        """Return the ids of test functions in suite order, with the new lines of the step that each runs."""
        chosen = set(functions)
        every = self.code.baseline.passed
        cases: dict[str, set[int]] = {test: set() for test in every if test.partition("[")[0] in chosen}
        tests_of = self.code.tests_of_lines(path)
        for line in sorted(step.new):
            for test in tests_of[line]:
                if test in cases:
                    cases[test].add(line)
        return cases

    def _reduced(self, feature: Feature, retained: set[int], gone: set[int], step: Step | None = None) -> Files:
        """Return the changed files without the code that goes.

        Raises Rejected or ValueError where that is not possible, and where too much of what goes for the sake of
        ``step`` is run by no test.
        """
        reduction = Reduction(feature.file, retained, gone, self.needed)
        if step is not None and reduction.untested(feature.definitions) > len(step.new) * MAX_UNTESTED:
            raise ValueError(f"{feature.file.path}: no test runs much of what the step would need")
        return tidied(self.code.tree, feature.file.path, reduction.source(feature.definitions), keep_helpers=False)


def _features(step: Step, shown_test: GivenTest, later: int) -> dict[str, FeatureValue]:
    return {
        "step": step.number + 1,
        "steps": step.total,
        "step_lines": len(step.new),
        "held_cases": shown_test.held_cases,
        "held_assertions": shown_test.held_assertions,
        "later_tests": later,
    }
