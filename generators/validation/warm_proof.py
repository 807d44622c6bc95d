"""Stage V2 in warm runs: the outcomes of the whole suite for a change that a warm process can make.

Tests that do not run the changed code give what they gave in the Snapshot. The others ran once when the candidate was
screened; they run again in reversed order, with the tests that share a fixture of a wider scope with them. Tests that
start processes run in a fresh sandbox, since a new process would read the unchanged files. Whatever these runs do not
show, or show differently, is left to runs of the whole suite in fresh sandboxes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ...environments.snapshots.test_run.test_runner import Outcome, TestRun
from ...errors import Rejected
from ..base import Candidate
from ..engine.screening import trial_of
from ..engine.warm_batch import WarmBatch
from ..engine.warm_suite import Survey, Trial, TrialResult
from ..python.hidden_tests import test_file
from ..python.source import compile_error, parse_or_empty, words
from ..python.source_tree import SourceTree
from .assembly import workspace_tests
from .measured_stages import Stages, fails
from .shared_proof import tests_beside_hidden


@dataclass(frozen=True)
class WarmOutcome:
    """What warm runs have shown of one candidate."""

    run: TestRun
    """The outcomes of all tests of the Snapshot."""
    beside: tuple[str, ...] = ()
    """Tests that were expected to stay visible beside hidden ones, and that ran with the change in one order alone."""
    alone: TrialResult | None = None
    """The trial of these without the hidden ones; None without such tests."""


@dataclass
class WarmProof:
    """Warm runs for one Snapshot; the state is the survey of its tests, which is made once."""

    stages: Stages  # runs tests in fresh sandboxes
    warm: WarmBatch  # makes trials
    _survey: Survey | None = field(default=None, repr=False)
    _surveyed: bool = field(default=False, repr=False)

    async def suite(
        self, candidate: Candidate, first: TestRun | None, full: Path, tree: SourceTree
    ) -> WarmOutcome | None:
        """Return the outcomes of all tests of the Snapshot on ``full``, None where warm runs cannot show them.

        ``first`` is the run of the affected tests that screening has made, ``tree`` is the Snapshot's. Raises
        Rejected when the outcome of a test depends on the order, SandboxError when a sandbox fails.
        """
        trial = trial_of(candidate)
        if trial is None or first is None:
            return None
        if not self._surveyed:
            self._survey, self._surveyed = await self.warm.suite.survey(), True
        survey, passed = self._survey, self.stages.snapshot.baseline.passed
        if survey is None:
            return None
        closure = survey.closure(trial.tests)
        tests = [test for test in reversed(passed) if test in closure]
        gradable = [test for test in passed if test_file(test) not in candidate.exercise]
        expected = [test for test in gradable if test in first.outcomes and fails(first, test)]
        shown = tests_beside(tree, candidate, expected, gradable) if expected and not candidate.solution else []
        beside = self._unproved(trial, shown)
        trials = [replace(trial, tests=tests), *([Trial(trial.files, beside)] if beside else [])]
        result, *further = await self.warm.run(trials)
        if result.cause:
            return None
        again = result.as_run()
        if any(fails(first, test) != fails(again, test) for test in trial.tests):
            await self._check_orders(full, trial.tests)
            return None
        outcomes = {**{test: Outcome("passed") for test in passed}, **again.outcomes}
        if survey.processes:
            apart = await self.stages.run(full, [test for test in passed if test in survey.processes])
            if not apart.complete:
                return None
            outcomes.update(apart.outcomes)
        run = TestRun(outcomes, passed, complete=True, cause="")
        return WarmOutcome(run, tuple(beside), further[0] if further else None)

    async def _check_orders(self, full: Path, tests: Sequence[str]) -> None:
        """Check in fresh sandboxes that ``tests`` do the same in both orders of the whole suite. Raises Rejected."""
        passed = list(self.stages.snapshot.baseline.passed)
        forward = await self.stages.run(full, passed)
        other = await self.stages.run(full, passed, "reversed")
        differing = [test for test in tests if fails(forward, test) != fails(other, test)]
        if differing and forward.complete and other.complete:
            raise Rejected("v2_order", f"{differing[0]} fails in one order of the tests and passes in the other")

    def _unproved(self, trial: Trial, tests: Sequence[str]) -> list[str]:
        """Return those of ``tests`` that may fail without the hidden ones.

        The others ran with the change in two orders, or the change cannot affect them and they did so for the baseline.
        In one of these orders such a test ran before any hidden one that it might need.
        """
        closure = self._survey.closure(trial.tests) if self._survey else set(tests)
        return [test for test in tests if test in closure.difference(trial.tests)]

    async def first_visible_failure(
        self, candidate: Candidate, tests: Sequence[str], outcome: WarmOutcome
    ) -> str | None:
        """Return the first of ``tests`` that fails without the hidden ones, empty without one, None if not shown."""
        trial, result = trial_of(candidate), outcome.alone
        if trial is None:
            return None
        unproved = self._unproved(trial, tests)
        if not unproved:
            return ""
        if result is None or outcome.beside != tuple(unproved):
            (result,) = await self.warm.run([Trial(trial.files, unproved)])
        return None if result.cause else next((test for test in unproved if test not in result.passed), "")


def tests_beside(tree: SourceTree, candidate: Candidate, failing: list[str], gradable: Sequence[str]) -> list[str]:
    """Return the tests that the workspace shows in the files of ``failing``; none where warm runs cannot show them."""
    shown = workspace_tests(tree, candidate, failing)
    hidden = set(failing)
    chosen = tests_beside_hidden(tree, [test for test in gradable if test not in hidden], shown)
    return chosen if chosen and only_removes(tree, shown) else []


def only_removes(tree: SourceTree, shown: Mapping[str, bytes | None]) -> bool:
    """Return whether the test files of a workspace are the Snapshot's without some definitions that they do not use."""
    return all(
        content is None or _only_removes(path, tree.python_files[path], content) for path, content in shown.items()
    )


@lru_cache(maxsize=128)
def _only_removes(path: str, before: bytes, after: bytes) -> bool:
    if not path.endswith(".py") or compile_error(path, after):
        return False
    remaining = iter(_all_statements(before))
    is_part = all(statement in remaining for statement in _all_statements(after))
    return is_part and not (_defined(before) - _defined(after)) & words(after)


@lru_cache(maxsize=16)
def _all_statements(source: bytes) -> tuple[str, ...]:
    return tuple(_statements(parse_or_empty(source)))


def _statements(owner: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Yield the statements of a module or class in order, those of classes after their heads."""
    for node in owner.body:
        if isinstance(node, ast.ClassDef):
            yield f"{node.name} {[ast.dump(item) for item in (*node.bases, *node.keywords, *node.decorator_list)]}"
            yield from _statements(node)
        else:
            yield ast.dump(node)


@lru_cache(maxsize=16)
def _defined(source: bytes) -> frozenset[str]:
    """Return the names that a file defines, imports or assigns outside of functions."""
    names: set[str] = set()
    waiting: list[ast.AST] = [parse_or_empty(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    return frozenset(names)
