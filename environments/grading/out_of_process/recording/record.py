"""Making the record of a new task's calls, of the tests alone that are judged rightly by it.

A test is kept when its calls and their answers are the same in two runs, the task's own solution gives these answers in
a process of its own, the test passes with them in the trusted tree, and the unsolved workspace gives other answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .....models import FileChange
from ..held_out.selection import Mutants, with_held_out
from ..judging.check import judged
from ..judging.examination import Examination, Replies
from ..judging.recorded_changes import answers_with_names, calls_with_names, stable_names
from ..judging.recorded_state import NetState, incomparable, net_state, net_states, recorded_answers, steady_states
from ..processes.named_answers import answered
from ..recorded_calls import MAX_BYTES, Call, RecordedCalls
from ..strength.guesses import satisfying_guess
from ..strength.lookup_tables import satisfying_table
from ..strength.requirements import Requirement, Unmet, constant_held_out, missing, most_frequent
from ..values.places import canonical
from .observation import entry_functions
from .passing_tests import NO_CALL, UNSTEADY, passing_tests, repeated_calls, with_kept_behaviour, with_needs

MAX_TESTS = 600
"""Most tests of a record."""
LEAST_SHARE = 0.75
"""Least share of the FAIL_TO_PASS tests that a record holds for the others to be left out of a task."""


@dataclass(frozen=True)
class Recording:
    """The record of a task, or why there is none."""

    calls: RecordedCalls | None
    reasons: dict[str, str] = field(default_factory=dict)
    """Why tests are not recorded, by test."""
    is_complete: bool = False
    """Whether the record decides alone, so that no process in which the solution runs beside the tests is trusted."""
    unmet: Unmet | None = None
    """Why the record is not complete."""
    decides_its_tests: bool = False
    """Whether the record would be complete for a task with the recorded tests alone, and these are at least LEAST_SHARE
    of the task's. The other tests are judged in process."""
    mutants: int = 0
    """Number of mutants of the task's own solution that some proposed call kills."""
    mutants_killed: int = 0
    """Number of mutants that the record kills."""
    survivors: tuple[int, ...] = ()
    """The mutants, by number, that no proposed call kills."""

    @property
    def missing(self) -> str:
        """Return why the record is not complete, '' where it is."""
        return self.unmet.detail if self.unmet else ""


async def record(examination: Examination, solution: Sequence[FileChange], mutants: Mutants = ()) -> Recording:
    """Return the record of a task's FAIL_TO_PASS tests; ``solution`` is its own solution as accepted changes.

    Held-out calls are chosen that kill most of the ``mutants`` of the solution. Where the calls of the examined
    functions do not decide alone, the calls of the functions through which tests reach them are tried: private values
    between the two do not need a form then. Raises SandboxError when a sandbox fails.
    """
    examined = examination.examined
    if not examined.targets:
        reason = (examined.unreplaced or ("the solution changes no function",))[0]
        cause = "a changed function cannot be replaced" if examined.unreplaced else reason
        return Recording(None, unmet=Unmet(Requirement.TESTS, reason, cause))
    recording = await _record(examination, solution, mutants)
    if recording.is_complete or examined.unreplaced:
        return recording
    entries = await entry_functions(examination, examination.task.FAIL_TO_PASS[:MAX_TESTS])
    others = tuple(name for name in entries if name not in examined.targets)
    if not others:
        return recording
    wider = await _record(replace(examination, entries=others), solution, mutants)
    return wider if (wider.is_complete, wider.decides_its_tests) > (False, recording.decides_its_tests) else recording


async def _record(examination: Examination, solution: Sequence[FileChange], mutants: Mutants) -> Recording:
    examined, tests = examination.examined, examination.task.FAIL_TO_PASS[:MAX_TESTS]
    first, again = await asyncio.gather(examination.trusted_run(tests), examination.trusted_run(tests, hash_seed=1))
    reasons: dict[str, str] = {}
    calls_made: dict[str, list[Call]] = {}
    unsteady: set[str] = set()
    own_state = stable_names([recorded_answers(run) for run in (first, again)])
    states, states_again = (net_states(recorded_answers(run)) for run in (first, again))
    for test in tests:
        reason, calls, is_steady = repeated_calls(test, first, again, own_state)
        if reason or not calls:
            reasons[test] = reason or NO_CALL
        else:
            calls_made[test] = calls
            if not is_steady:
                unsteady.add(test)
    recorded = RecordedCalls(
        *(list(examined.targets), list(examined.opaque), list(examination.packages), calls_made),
        entries=list(examination.entries),
        own_state=own_state,
        module_state=steady_states(states, states_again),
    )
    recorded = await _reproduced(examination, recorded, solution, reasons, unsteady)
    recorded = _within_limit(recorded, reasons)
    if not recorded.tests:
        reason = most_frequent(reasons)
        return Recording(None, reasons, unmet=Unmet(Requirement.TESTS, reason, reason))
    decided = list(recorded.tests)
    passing = await passing_tests(examination, recorded, solution)
    recorded = replace(
        recorded,
        tests={**recorded.tests, **passing.tests},
        passing=list(passing.tests),
        module_state={**recorded.module_state, **passing.module_state},
    )
    runs = {test: set(crossing["reached"]) & set(examined.targets) for test, crossing in first.crossings.items()}
    unseen = set().union(*runs.values()) - set().union(*(runs[test] for test in decided))
    inner = passing.inner
    for notes in (first.crossings[test]["inner"] for test in decided):
        for target, digests in notes.items():
            inner.setdefault(target, set()).update(digests)

    def lacks(recorded: RecordedCalls) -> Unmet | None:
        unmet = missing(recorded, reasons, (*examined.unreplaced, "")[0], unseen, inner)
        if not (unmet or recorded.inputs or recorded.sequences or unsteady & recorded.tests.keys()):
            detail = "no held-out call: a table of what the tests ask would satisfy it"
            unmet = Unmet(Requirement.NO_TABLE, detail, "no held-out call")
        return unmet or passing.unmet

    is_most = len(decided) >= LEAST_SHARE * len(examination.task.FAIL_TO_PASS)
    held_out = await with_held_out(examination, recorded, solution, mutants, lambda pool: is_most and not lacks(pool))
    recorded = await with_kept_behaviour(examination, held_out.recorded, solution)
    unmet = lacks(recorded) or _answerable_by_table(recorded, states)
    if not unmet and is_most and (guess := await satisfying_guess(examination, recorded)):
        unmet = Unmet(Requirement.NO_GUESS, f"`return {guess}` gives every recorded answer")
    undecided = _undecided(examination.task.FAIL_TO_PASS, recorded, reasons)
    # Where answers differ in every run, only the test can judge a mutant.
    judged_by_tests = bool(unsteady & recorded.tests.keys())
    numbers = (0, 0, ()) if judged_by_tests else (held_out.mutants, held_out.killed, held_out.survivors)
    decides = is_most and not unmet
    unmet = undecided if undecided and not is_most else unmet or undecided
    return Recording(recorded, reasons, unmet is None, unmet, decides, *numbers)


def _answerable_by_table(recorded: RecordedCalls, states: Mapping[str, NetState]) -> Unmet | None:
    """Return why a table of the tests' calls would satisfy a record, or why their state cannot be compared."""
    if constant := constant_held_out(recorded):
        return Unmet(Requirement.NO_TABLE, constant, "every held-out call has the same answer")
    if reason := incomparable(recorded, states):
        return Unmet(Requirement.STATE, reason)
    if reason := satisfying_table(recorded):
        return Unmet(Requirement.NO_TABLE, reason)
    return None


def _undecided(tests: Sequence[str], recorded: RecordedCalls, reasons: dict[str, str]) -> Unmet | None:
    """Return how many tests are not recorded, and why, None for none: each of them could be forged in process."""
    undecided = [test for test in tests if test not in recorded.tests]
    if not undecided:
        return None
    tried = {test: reasons[test] for test in undecided if test in reasons}
    reason = most_frequent(tried) if tried else f"only {MAX_TESTS} tests are tried"
    return Unmet(Requirement.TESTS, f"{len(undecided)} of {len(tests)} tests are not recorded: {reason}", reason)


async def _reproduced(
    examination: Examination,
    recorded: RecordedCalls,
    solution: Sequence[FileChange],
    reasons: dict[str, str],
    unsteady: Collection[str],
) -> RecordedCalls:
    """Return the record without the tests that fail with the solution's answers, or that pass with the workspace's.

    ``unsteady`` tests make other calls or get other answers in each run: only the test itself can judge these.
    """
    answered_elsewhere, nothing = await asyncio.gather(
        examination.answers(solution, recorded.sent(), recorded.opaque),
        examination.answers([], recorded.sent(), recorded.opaque),
    )
    own_answers = {str(i): [call["answer"] for call in calls] for i, calls in enumerate(recorded.tests.values())}
    own_state = stable_names([own_answers, answered_elsewhere])
    names = {test: str(number) for number, test in enumerate(recorded.tests)}
    elsewhere = {test: net_state(answered_elsewhere.get(name, [])) for test, name in names.items()}
    recorded = replace(recorded, module_state=steady_states(recorded.module_state, elsewhere))
    tests = {test: calls_with_names(calls, own_state) for test, calls in recorded.tests.items()}
    recorded = replace(recorded, own_state=own_state, tests=tests)
    answered_elsewhere, nothing = (answers_with_names(run, own_state) for run in (answered_elsewhere, nothing))
    accepted: dict[str, list[Call]] = {}
    unsure: dict[str, list[Call]] = {}
    idle: dict[str, list[Any]] = {}
    for number, (test, calls) in enumerate(recorded.tests.items()):
        expected, answers_given = canonical([call["answer"] for call in calls]), answered_elsewhere.get(str(number), [])
        if test in unsteady or canonical(answers_given) != expected:
            reasons[test] = UNSTEADY if test in unsteady else _difference(calls, answers_given)
            if len(answers_given) == len(calls) and not any("broken" in answer for answer in answers_given):
                answered_calls = answered(calls, answers_given)
                unsure[test] = with_needs(answered_calls, nothing.get(str(number), []))
                idle[test] = answered(calls, nothing.get(str(number), []))
        elif canonical(nothing.get(str(number))) == expected:
            reasons[test] = "its answers do not need the solution"
        else:
            accepted[test] = with_needs(calls, nothing.get(str(number), [])) if recorded.entries else calls
    if accepted:
        allowed = replace(recorded, tests=accepted).allowed()
        replies = Replies(accepted, allowed, {"own_state": own_state})
        run = await examination.trusted_run(list(accepted), replies)
        for test in list(accepted):
            if test not in run.passed or run.crossings[test].get("unanswered"):
                outcome = run.outcomes.get(test)
                reasons[test] = f"with given answers it fails ({outcome.message if outcome else run.cause})"[:300]
                del accepted[test]
    decided = await _decided(examination, replace(recorded, tests=unsure), solution, idle) if unsure else {}
    for test in decided:
        del reasons[test]
    order = [test for test in recorded.tests if test in accepted or test in decided]
    return replace(recorded, tests={test: accepted.get(test) or decided[test] for test in order})


async def _decided(
    examination: Examination, recorded: RecordedCalls, solution: Sequence[FileChange], idle: dict[str, list[Call]]
) -> dict[str, list[Call]]:
    """Return the tests that pass with two sets of the solution's answers, and fail with those of the workspace."""
    again = await examination.answers(solution, recorded.sent(), recorded.opaque)
    second = {
        test: answered(calls, again.get(str(number), [])) for number, (test, calls) in enumerate(recorded.tests.items())
    }
    failed = set(await judged(examination, recorded, solution, recorded.tests))
    failed |= set(await judged(examination, recorded, solution, second))
    needed = set(await judged(examination, recorded, [], idle))
    return {test: calls for test, calls in recorded.tests.items() if test in needed - failed}


def _difference(calls: Sequence[Call], answered_elsewhere: Sequence[Any] | None) -> str:
    difference = "no answer" if not answered_elsewhere else "fewer answers"
    for call, got in zip(calls, answered_elsewhere or [], strict=False):
        if canonical(call["answer"]) != canonical(got):
            difference = f"{call['target']}: {got.get('broken') or 'another result'}"
            break
    return f"elsewhere the solution answers otherwise ({difference})"


def _within_limit(recorded: RecordedCalls, reasons: dict[str, str]) -> RecordedCalls:
    """Return the record with as many tests as fit into a row, shortest first where not all fit."""
    if len(recorded.pack()) <= MAX_BYTES:
        return recorded
    by_size = sorted(recorded.tests, key=lambda test: len(canonical(recorded.tests[test])))
    chosen: set[str] = set()
    for test in by_size:
        chosen.add(test)
        trial = replace(recorded, tests={name: calls for name, calls in recorded.tests.items() if name in chosen})
        if len(trial.pack()) > MAX_BYTES:
            chosen.remove(test)
            break
    for test in recorded.tests.keys() - chosen:
        reasons[test] = "the record has no room for its calls"
    return replace(recorded, tests={name: calls for name, calls in recorded.tests.items() if name in chosen})
