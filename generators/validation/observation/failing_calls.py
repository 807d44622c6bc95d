"""The stage of observation: calls of failing tests that give other results in the workspace than they should.

A bug report shows one such call with both results, the statement of a deletion some examples with the right ones. The
tests run once, on the right tree, with a tracer beside them. The calls that can be written down are then executed
as they are written, without any test, on the right tree and on the one of the exercise. What depends on the time, on
chance or on the order of sets is left out, so that a statement has the same bytes in every run.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ....environments.sandbox import WORKSPACE
from ....environments.snapshots.test_run.test_runner import Crossing, run_tests
from ...base import Example, FailingCall, SessionLine
from ...python.hidden_tests import split_test_id
from ...python.source import parse_or_empty
from ...python.source_tree import SourceTree
from ..limits import OVERLOAD, suite_limit
from ..measured_stages import Stages
from .examples import attribute_sessions, chosen_examples, example_of, first_cases, is_missing, plainest, spread
from .outcomes import Outcomes, result_of
from .sessions import MAX_LINES, RecordedCall, Session, length, recorded_calls, sessions_of, shortened

MAX_TESTS = 3
MAX_SESSIONS = 240
MAX_EXAMPLES = 10
MAX_EXAMPLE_TESTS = 24
"""Test functions whose calls are tried for examples."""
MAX_STEADY = 3
"""Calls of a test that are tried with another seed of hashes, the plainest ones."""
MAX_WRONG, MAX_SHORTENED, MAX_ROUNDS = 8, 3, 4
HASH_SEEDS = (0, 1)
_FOLDER = Path(__file__).parent
_TRACER = ("public_names", "literal_forms", "call_tracer")

Executed = tuple[Session, Outcomes, Outcomes]
"""A session with its outcomes on the right tree and on the exercise's."""


@dataclass(frozen=True)
class OnRightTree:
    """What candidates of one Snapshot have in common: what was observed on the right tree."""

    recorded: dict[tuple[str, ...], list[list[RecordedCall]]] = field(default_factory=dict)
    """The calls of each test, by the tests that ran together."""
    outcomes: dict[tuple[Session, int], Outcomes] = field(default_factory=dict)
    """The outcomes of each session with its imports, by session and seed of hashes."""


@dataclass(frozen=True)
class Observation:
    """Looks for failing calls of one exercise."""

    stages: Stages  # opens sandboxes of the Snapshot
    tree: SourceTree  # the right tree
    exercise: Path  # the folder of the exercise's tree
    right: OnRightTree = field(default_factory=OnRightTree, repr=False)  # kept for the next candidate
    _wrong: dict[tuple[Session, int], Outcomes] = field(default_factory=dict, init=False, repr=False)

    async def failing_calls(self, tests: Sequence[str]) -> list[FailingCall]:
        """Return at most one call that the first of ``tests`` make, the plainest whose result is wrong.

        Raises SandboxError when a sandbox fails.
        """
        if self.stages.snapshot.verifier.kind != "pytest":
            return []
        pristine = self.stages.snapshot.tree
        recorded = await self._recorded(pristine, self._plainest(tests))
        every = [session for number, calls in enumerate(recorded) for session in sessions_of(calls, number)]
        shortest = sorted(dict.fromkeys(every), key=length)[:MAX_SESSIONS]
        executed = await self._executed(pristine, shortest, HASH_SEEDS[:1])
        wrong = sorted((item[0] for item in executed if _differs(*item)), key=length)[:MAX_WRONG]
        if not wrong:
            wrong = [session for item in executed for session in _by_attribute(*item)][:MAX_WRONG]
        for _ in range(MAX_ROUNDS):
            shorter = [item for session in wrong[:MAX_SHORTENED] for item in shortened(recorded[session.test], session)]
            executed = await self._executed(pristine, list(dict.fromkeys(shorter)), HASH_SEEDS[:1])
            more = {item[0] for item in executed if _differs(*item)} - set(wrong)
            wrong = sorted({*wrong, *more}, key=length)[:MAX_WRONG]
            if not more:
                break
        proven = await self._executed(pristine, wrong, HASH_SEEDS)
        ranked = sorted((item for item in proven if _compared(*item)), key=lambda item: length(item[0]))
        return [call for item in ranked[:1] if (call := _compared(*item)) is not None]

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
        recorded = await self._recorded(pristine, sample)
        tried = [plainest(calls, names, MAX_SESSIONS // len(sample)) for calls in recorded]
        right = await self._known_by_session(pristine, cache, tried, 0)
        shown = [[item for item in group if example_of("", item, right[item])] for group in tried]
        attributes = [
            [] if sessions else attribute_sessions(group, right) for sessions, group in zip(shown, tried, strict=True)
        ]
        right |= await self._known_by_session(pristine, cache, attributes, 0)
        shown = [group or more for group, more in zip(shown, attributes, strict=True)]
        wrong = await self._known_by_session(self.exercise, self._wrong, shown, 0)
        missing = [[item for item in group if is_missing(item, right[item], wrong[item])] for group in shown]
        plain = [group[:MAX_STEADY] for group in missing]
        again = await self._known_by_session(pristine, cache, plain, 1)
        candidates = [
            [example_of(test, item, right[item]) for item in group if right[item] == again[item]]
            for test, group in zip(sample, plain, strict=True)
        ]
        return chosen_examples(candidates, min(MAX_EXAMPLES, (len(functions) + 1) // 2), names[0] if names else "")

    async def _known_by_session(
        self,
        tree: Path,
        observed: dict[tuple[Session, int], Outcomes],
        groups: Sequence[Sequence[Session]],
        hash_seed: int,
    ) -> dict[Session, Outcomes]:
        """Return the outcomes of the sessions of all groups on one tree."""
        sessions = list(dict.fromkeys(session for group in groups for session in group))
        outcomes = await self._known(tree, observed, sessions, hash_seed) if sessions else []
        return dict(zip(sessions, outcomes, strict=True))

    def _plainest(self, tests: Sequence[str]) -> list[str]:
        """Return a few tests of different functions, the shortest first."""
        first_of = {test.partition("[")[0]: test for test in reversed(tests)}
        in_order = [test for test in tests if first_of[test.partition("[")[0]] == test]
        return sorted(in_order, key=lambda test: _lines_of(self.tree, test))[:MAX_TESTS]

    async def _recorded(self, pristine: Path, tests: Sequence[str]) -> list[list[RecordedCall]]:
        """Return the calls of each test on the right tree."""
        if tuple(tests) in self.right.recorded:
            return self.right.recorded[tuple(tests)]
        packages = sorted({self.tree.dotted_name(module.path).split(".")[0] for module in self.tree.modules()})
        files = [path for path in self.tree.python_files if self.tree.is_test(path)]
        parts = tuple((_FOLDER / f"{name}.py").read_text("utf-8") for name in _TRACER)
        sandbox = await self.stages.open(pristine)
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
        recorded = [recorded_calls(run.crossings.get(test, {}).get("calls", [])) for test in tests]
        return self.right.recorded.setdefault(tuple(tests), recorded)

    async def _executed(self, pristine: Path, sessions: Sequence[Session], hash_seeds: Sequence[int]) -> list[Executed]:
        """Return the sessions with their outcomes on both trees, where these are the same with all seeds of hashes."""
        if not sessions:
            return []
        right = _steady(
            sessions, [await self._known(pristine, self.right.outcomes, sessions, seed) for seed in hash_seeds]
        )
        usable = [(session, outcomes) for session, outcomes in zip(sessions, right, strict=True) if outcomes]
        if not usable:
            return []
        sessions = [session for session, _ in usable]
        wrong = _steady(
            sessions, [await self._known(self.exercise, self._wrong, sessions, seed) for seed in hash_seeds]
        )
        return [(*item, outcomes) for item, outcomes in zip(usable, wrong, strict=True) if outcomes]

    async def _known(
        self, tree: Path, observed: dict[tuple[Session, int], Outcomes], sessions: Sequence[Session], hash_seed: int
    ) -> list[Outcomes]:
        """Return the outcomes on one tree, imports included, where a session runs once unless one of its run has none.

        The runner gives up after some sessions that do not end, so such outcomes depend on what ran together.
        """
        new = [session for session in sessions if (session, hash_seed) not in observed]
        outcomes = await self._run(tree, new, hash_seed) if new else []
        if not all(outcomes) and len(new) < len(sessions):
            return await self._run(tree, sessions, hash_seed)
        if not all(outcomes):
            return outcomes
        observed.update({(session, hash_seed): item for session, item in zip(new, outcomes, strict=True)})
        return [observed[session, hash_seed] for session in sessions]

    async def _run(self, tree: Path, sessions: Sequence[Session], hash_seed: int) -> list[Outcomes]:
        """Return the outcomes of the sessions on one tree, up to the first error; none when the run ends early."""
        verifier = self.stages.snapshot.verifier
        job = {
            "path": [f"{WORKSPACE}/{item}".removesuffix("/.") for item in verifier.python_path],
            "imports": sorted({line for session in sessions for line in session.imports}),
            "sessions": [[*session.imports, *session.lines] for session in sessions],
        }
        limit = suite_limit(self.stages.snapshot)
        sandbox = await self.stages.open(tree)
        try:
            result = await sandbox.exec(
                ["python", "-c", (_FOLDER / "session_runner.py").read_text("utf-8")],
                stdin=json.dumps(job).encode(),
                env={"PYTHONHASHSEED": str(hash_seed)},
                timeout_s=OVERLOAD * limit,
                cpu_s=limit,
                idle_s=limit,
            )
        finally:
            await sandbox.close()
        try:
            outcomes: list[Outcomes] = json.loads(result.output.decode("utf-8", "replace").strip().splitlines()[-1])
        except (ValueError, IndexError):
            return [()] * len(sessions)
        return outcomes


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
    for name in both[0].keys() & both[1].keys() if len(right) == len(wrong) else ():
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
