"""The stage of observation: calls of failing tests that give other results in the workspace than they should.

A bug report shows one such call with both results, the statement of a deletion some examples with the right ones. The
tests run once, on the right tree, with a tracer beside them. The calls that can be written down are then executed
as they are written, without any test, on the right tree and on the one of the exercise. What depends on the time, on
chance or on the order of sets is left out, so that a statement has the same bytes in every run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ....environments.snapshots.test_run.test_runner import Crossing, run_tests
from ...base import Example, FailingCall, SessionLine
from ...engine.warm_batch import WarmBatch
from ...python.hidden_tests import split_test_id, test_file
from ...python.source import parse_or_empty
from ...python.source_tree import SourceTree
from ..limits import suite_limit
from ..measured_stages import Stages
from .examples import attribute_sessions, chosen_examples, example_of, first_cases, is_missing, plainest, spread
from .outcomes import Outcomes, result_of
from .session_runs import SessionGroup, SessionRuns, Way
from .sessions import MAX_LINES, RecordedCall, Session, length, recorded_calls, sessions_of, shortened

MAX_TESTS = 3
MAX_SESSIONS, FIRST_SESSIONS = 240, 40
MAX_TOGETHER = 40
"""Tests of a file that are recorded in one run."""
MAX_EXAMPLES = 10
MAX_EXAMPLE_TESTS = 24
"""Test functions whose calls are tried for examples."""
MAX_STEADY = 3
"""Calls of a test that are tried with another seed of hashes, the plainest ones."""
MAX_WRONG, FIRST_PROVEN, MAX_SHORTENED, MAX_ROUNDS = 8, 3, 3, 4
DRAFT = Way(apart=False)
"""How sessions run until it is clear which are of interest."""
PROOF = (Way(0), Way(1))
"""How sessions run whose outcomes are shown: each in a separate process, with two seeds of hashes."""
_FOLDER = Path(__file__).parent
_TRACER = ("public_names", "literal_forms", "call_tracer")

Executed = tuple[Session, Outcomes, Outcomes]
"""A session with its outcomes on the right tree and on the exercise's."""


@dataclass(frozen=True)
class OnRightTree:
    """What candidates of one Snapshot have in common: what was observed on the right tree."""

    recorded: dict[str, list[RecordedCall]] = field(default_factory=dict)
    """The calls of each test."""
    outcomes: dict[tuple[Session, Way], Outcomes] = field(default_factory=dict)
    """The outcomes of each session with its imports, by session and the way in which it ran."""
    runs: SessionRuns | None = None
    """Executes sessions of several candidates together; None where each candidate gets its sandboxes alone."""


@dataclass(frozen=True)
class Observation:
    """Looks for failing calls of one exercise."""

    stages: Stages  # opens sandboxes of the Snapshot
    tree: SourceTree  # the right tree
    exercise: Path  # the folder of the exercise's tree
    right: OnRightTree = field(default_factory=OnRightTree, repr=False)  # kept for the next candidate
    changed: Mapping[str, bytes] | None = None  # what the exercise changes, where that is code alone
    warm: WarmBatch | None = field(default=None, repr=False)  # executes sessions of several candidates together
    _wrong: dict[tuple[Session, Way], Outcomes] = field(default_factory=dict, init=False, repr=False)

    async def failing_calls(self, tests: Sequence[str]) -> list[FailingCall]:
        """Return at most one call that the first of ``tests`` make, the plainest whose result is wrong.

        Raises SandboxError when a sandbox fails.
        """
        if self.stages.snapshot.verifier.kind != "pytest":
            return []
        pristine = self.stages.snapshot.tree
        recorded = await self._recorded(self._plainest(tests))
        every = [session for number, calls in enumerate(recorded) for session in sessions_of(calls, number)]
        shortest = sorted(dict.fromkeys(every), key=length)[:MAX_SESSIONS]
        executed: list[Executed] = []
        wrong: list[Session] = []
        for part in (shortest[:FIRST_SESSIONS], shortest[FIRST_SESSIONS:]):
            if len(wrong) < MAX_WRONG:  # longer sessions cannot replace shorter ones
                executed += await self._executed(pristine, part, [DRAFT])
                wrong = sorted((item[0] for item in executed if _differs(*item)), key=length)[:MAX_WRONG]
        if not wrong:
            wrong = [session for item in executed for session in _by_attribute(*item)][:MAX_WRONG]
        for _ in range(MAX_ROUNDS):
            shorter = [item for session in wrong[:MAX_SHORTENED] for item in shortened(recorded[session.test], session)]
            executed = await self._executed(pristine, list(dict.fromkeys(shorter)), [DRAFT])
            more = {item[0] for item in executed if _differs(*item)} - set(wrong)
            wrong = sorted({*wrong, *more}, key=length)[:MAX_WRONG]
            if not more:
                break
        for part in (wrong[:FIRST_PROVEN], wrong[FIRST_PROVEN:]):
            proven = await self._executed(pristine, part, PROOF)
            ranked = sorted((item for item in proven if _compared(*item)), key=lambda item: length(item[0]))
            if ranked:
                return [call for item in ranked[:1] if (call := _compared(*item)) is not None]
        return []

    async def examples(self, tests: Sequence[str], names: Sequence[str] = ()) -> list[Example]:
        """Return calls of ``tests`` with the results of the right tree, which they do not give in the workspace.

        At most half of the test functions have an example, one each: the plainest call whose result can be shown.
        Calls that spell one of ``names`` and tests with words of the first of these come before others.
        Raises SandboxError when a sandbox fails.
        """
        if self.stages.snapshot.verifier.kind != "pytest":
            return []
        pristine, cache = self.stages.snapshot.tree, self.right.outcomes
        functions = first_cases(tests)
        sample = [functions[index] for index in spread(len(functions), MAX_EXAMPLE_TESTS)]
        recorded = await self._recorded(sample)
        tried = [plainest(calls, names, MAX_SESSIONS // len(sample)) for calls in recorded]
        right = await self._known_by_session(pristine, cache, tried, PROOF[0])
        shown = [[item for item in group if example_of("", item, right[item])] for group in tried]
        attributes = [
            [] if sessions else attribute_sessions(group, right) for sessions, group in zip(shown, tried, strict=True)
        ]
        right |= await self._known_by_session(pristine, cache, attributes, PROOF[0])
        shown = [group or more for group, more in zip(shown, attributes, strict=True)]
        wrong = await self._known_by_session(self.exercise, self._wrong, shown, PROOF[0])
        missing = [[item for item in group if is_missing(item, right[item], wrong[item])] for group in shown]
        plain = [group[:MAX_STEADY] for group in missing]
        again = await self._known_by_session(pristine, cache, plain, PROOF[1])
        candidates = [
            [example_of(test, item, right[item]) for item in group if right[item] == again[item]]
            for test, group in zip(sample, plain, strict=True)
        ]
        return chosen_examples(candidates, min(MAX_EXAMPLES, (len(functions) + 1) // 2), names[0] if names else "")

    async def _known_by_session(
        self,
        tree: Path,
        observed: dict[tuple[Session, Way], Outcomes],
        groups: Sequence[Sequence[Session]],
        way: Way,
    ) -> dict[Session, Outcomes]:
        """Return the outcomes of the sessions of all groups on one tree."""
        sessions = list(dict.fromkeys(session for group in groups for session in group))
        outcomes = await self._known(tree, observed, sessions, way) if sessions else []
        return dict(zip(sessions, outcomes, strict=True))

    def _plainest(self, tests: Sequence[str]) -> list[str]:
        """Return a few tests of different functions, the shortest first."""
        first_of = {test.partition("[")[0]: test for test in reversed(tests)}
        in_order = [test for test in tests if first_of[test.partition("[")[0]] == test]
        return sorted(in_order, key=lambda test: _lines_of(self.tree, test))[:MAX_TESTS]

    async def _recorded(self, tests: Sequence[str]) -> list[list[RecordedCall]]:
        """Return the calls of each test on the right tree."""
        recorded = self.right.recorded
        for test in tests:
            if test not in recorded:
                recorded.update(await self._record(self._neighbours(test)) or await self._record([test]) or {test: []})
        return [recorded[test] for test in tests]

    def _neighbours(self, test: str) -> list[str]:
        """Return the tests that are recorded with this one, which do not depend on the candidate."""
        passed, path = self.stages.snapshot.baseline.passed, test_file(test)
        in_file = [other for other in passed if test_file(other) == path]
        start = in_file.index(test) // MAX_TOGETHER * MAX_TOGETHER if test in in_file else 0
        return in_file[start : start + MAX_TOGETHER] if test in in_file else [test]

    async def _record(self, tests: Sequence[str]) -> dict[str, list[RecordedCall]]:
        """Return the calls of each test on the right tree; none when the run does not end."""
        packages = sorted({self.tree.dotted_name(module.path).split(".")[0] for module in self.tree.modules()})
        files = [path for path in self.tree.python_files if self.tree.is_test(path)]
        parts = tuple((_FOLDER / f"{name}.py").read_text("utf-8") for name in _TRACER)
        sandbox = await self.stages.open(self.stages.snapshot.tree)
        try:
            run = await run_tests(
                sandbox,
                self.stages.snapshot.verifier,
                tests,
                timeout_s=suite_limit(self.stages.snapshot),
                crossing=Crossing(parts, {"packages": packages, "tests": files}),
            )
        finally:
            await sandbox.close()
        if not run.complete:
            return {}
        return {test: recorded_calls(run.crossings.get(test, {}).get("calls", [])) for test in tests}

    async def _executed(self, pristine: Path, sessions: Sequence[Session], ways: Sequence[Way]) -> list[Executed]:
        """Return the sessions with their outcomes on both trees, where these are the same in all ways of running."""
        if not sessions:
            return []
        right = _steady(sessions, [await self._known(pristine, self.right.outcomes, sessions, way) for way in ways])
        usable = [(session, outcomes) for session, outcomes in zip(sessions, right, strict=True) if outcomes]
        if not usable:
            return []
        if all(way.apart for way in ways):  # sessions that share a process run in the same order on both trees
            sessions = [session for session, _ in usable]
        runs = [await self._known(self.exercise, self._wrong, sessions, way) for way in ways]
        wrong = dict(zip(sessions, _steady(sessions, runs), strict=True))
        return [(session, outcomes, wrong[session]) for session, outcomes in usable if wrong[session]]

    async def _known(
        self, tree: Path, observed: dict[tuple[Session, Way], Outcomes], sessions: Sequence[Session], way: Way
    ) -> list[Outcomes]:
        """Return the outcomes on one tree, imports included, where a session runs once unless one of its run has none.

        The runner gives up after some sessions that do not end, so such outcomes depend on what ran together; those of
        sessions that share a process always do.
        """
        if not way.apart:
            return await self._run(tree, sessions, way)
        new = [session for session in sessions if (session, way) not in observed]
        outcomes = await self._run(tree, new, way) if new else []
        if not all(outcomes) and len(new) < len(sessions):
            return await self._run(tree, sessions, way)
        if not all(outcomes):
            return outcomes
        observed.update({(session, way): item for session, item in zip(new, outcomes, strict=True)})
        return [observed[session, way] for session in sessions]

    async def _run(self, tree: Path, sessions: Sequence[Session], way: Way) -> list[Outcomes]:
        """Return the outcomes of the sessions on one tree, up to the first error; none when the run ends early."""
        snapshot = self.stages.snapshot
        files = {} if tree == snapshot.tree else self.changed
        if self.warm and self.right.runs and files is not None and not self.warm.suite.refusal(files):
            (outcomes,) = await self.warm.ask(self.right.runs, [SessionGroup(tuple(sessions), way, files)])
            if outcomes is not None:
                return outcomes
        apart = SessionRuns(snapshot, tree, self.stages.backend)
        (outcomes,) = await apart.run([SessionGroup(tuple(sessions), way, {})])
        return outcomes or [()] * len(sessions)


def _steady(sessions: Sequence[Session], runs: Sequence[list[Outcomes]]) -> list[Outcomes]:
    """Return the outcomes of lines that ran to the end and that all runs agree on; the others are empty."""
    return [
        session.outcomes_of_lines(items[0]) if all(item == items[0] for item in items) else ()
        for session, *items in zip(sessions, *runs, strict=True)
    ]


def _differs(session: Session, right: Outcomes, wrong: Outcomes) -> bool:
    """Return whether the call of a session, which may still be long, can be shown with two different results."""
    return _compared(replace(session, lines=session.lines[-1:]), right[-1:], wrong[-1:]) is not None


def _compared(session: Session, right: Outcomes, wrong: Outcomes) -> FailingCall | None:
    """Return the failing call that a session shows; None when it shows none that can be printed."""
    setup, expected, actual = right[:-1], result_of(right[-1]), result_of(wrong[-1])
    if expected is None or actual is None or expected == actual or (expected.kind == "raises") != session.raised:
        return None
    if "0x..." in expected.text + expected.printed or len(session.lines) > MAX_LINES:
        return None
    before = [result_of(item) for item in setup]
    if before != [result_of(item) for item in wrong[:-1]] or any(
        item is None or item.kind == "raises" for item in before
    ):
        return None
    shown = [item.printed + item.text for item in before if item is not None]
    lines = [SessionLine(line, text) for line, text in zip(session.lines, shown, strict=False)]
    return FailingCall(session.imports, tuple(lines), session.call, expected, actual)


def _by_attribute(session: Session, right: Outcomes, wrong: Outcomes) -> Iterable[Session]:
    """Yield sessions that ask for an attribute of the call's result, where the trees differ in that."""
    both = right[-1]["attributes"], wrong[-1]["attributes"]
    tree = ast.parse(session.call).body[0]
    if not isinstance(tree, ast.Expr) or not isinstance(tree.value, ast.Call):
        return
    for name in sorted(both[0].keys() & both[1].keys()) if len(right) == len(wrong) else ():
        if both[0][name] != both[1][name]:
            yield replace(session, lines=(*session.lines[:-1], f"{session.call}.{name}"))


def _lines_of(tree: SourceTree, test: str) -> int:
    """Return the number of lines of a test function; a large number when it cannot be found."""
    path, names = split_test_id(test)
    return _lengths(tree.python_files.get(path, b"")).get(names[-1], 1000) if names else 1000


@lru_cache(maxsize=32)
def _lengths(source: bytes) -> dict[str, int]:
    """Return the number of lines of each function of a file, by name; of several the first one found counts."""
    lengths: dict[str, int] = {}
    for node in ast.walk(parse_or_empty(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lengths.setdefault(node.name, (node.end_lineno or node.lineno) - node.lineno)
    return lengths
