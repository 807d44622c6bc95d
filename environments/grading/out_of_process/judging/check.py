"""Procedure of judging: which recorded tests and held-out calls a solution fails by its answers.

First the solution answers all recorded calls in a sandbox without tests. A test whose every answer equals the recorded
one would pass. Each other test runs in the trusted tree, where the examined functions return the solution's answers: so
the test itself decides whether a different answer is as good. Where such a test makes calls that were not recorded, the
solution answers these in another round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .....models import FileChange
from ....snapshots.test_run.test_runner import TestRun
from ..processes.named_answers import answered
from ..recorded_calls import Call, RecordedCalls
from ..values.places import canonical
from .allowance import MOST_SILENT, Allowance, OutOfTime, allowed_seconds, was_ended
from .answers import failed_held_out
from .examination import Examination, Replies
from .recorded_changes import NEEDS_CHANGES, answers_with_names, frozen_objects, rules_of
from .recorded_state import failed_states, watched_names
from .rounds import is_open, next_questions, revealing_call, stood_by
from .separation import groups_of_tests

ROUNDS = 4
"""Most times that a solution is asked for calls that were not recorded."""


async def failed_tests(
    examination: Examination, recorded: RecordedCalls, changes: Sequence[FileChange]
) -> dict[str, str]:
    """Return the recorded tests that a solution fails, and the targets of held-out calls, each with the reason.

    A solution that takes more than its allowance fails all. Raises SandboxError when no honest verdict exists.
    """
    snapshot = examination.trees.snapshot
    seconds = allowed_seconds(snapshot.baseline.seconds if snapshot.recipe.measured else None)
    examination = replace(examination, allowance=Allowance(seconds))
    try:
        return await _failed_tests(examination, recorded, changes)
    except OutOfTime:
        return dict.fromkeys(recorded.tests, f"the solution takes more than {seconds:.0f} seconds")


async def _failed_tests(
    examination: Examination, recorded: RecordedCalls, changes: Sequence[FileChange]
) -> dict[str, str]:
    groups = groups_of_tests({str(number): calls for number, calls in enumerate(recorded.tests.values())})
    watched = watched_names(recorded)
    answers_given = await examination.answers(changes, recorded.sent(), recorded.opaque, watched, groups=groups)
    carried = answers_with_names(answers_given, recorded.own_state)
    failed = {**failed_held_out(recorded, carried), **failed_states(recorded, answers_given)}
    open_tests: dict[str, list[Call]] = {}
    for number, (test, calls) in enumerate(recorded.tests.items()):
        answers = answers_given.get(str(number), [])
        if canonical(carried.get(str(number), [])) != canonical([call["answer"] for call in calls]):
            open_tests[test] = answered(calls, answers)
    return {**failed, **await judged(examination, recorded, changes, open_tests)}


async def judged(
    examination: Examination,
    recorded: RecordedCalls,
    changes: Sequence[FileChange],
    open_tests: dict[str, list[Call]],
) -> dict[str, str]:
    """Return those of the tests that fail with the solution's own answers, each with the reason.

    ``open_tests`` has these answers. A test whose answers are the same after another round has the same outcome, so
    that it does not run again. Raises SandboxError when a sandbox fails.
    """
    failed: dict[str, str] = {}
    apart = groups_of_tests(recorded.tests)  # as in the first round, or what was kept apart would come together
    silent = Counter(test for test, calls in open_tests.items() if not calls)
    for last in [False] * (ROUNDS - 1) + [True]:
        if not open_tests:
            break
        run = await _judging_run(examination, recorded, open_tests)
        _spend(examination, run)
        frozen = frozen_objects(run)
        if frozen:
            unchanged = await _judging_run(examination, recorded, open_tests, frozen)
            _spend(examination, unchanged)
            affected = {*frozen, *run.passed} & open_tests.keys()  # a later test may share what was changed
            failed.update({test: NEEDS_CHANGES for test in affected if test not in unchanged.passed})
        questions: dict[str, list[Call]] = {}
        reasons = {test: _reason(run, test) for test in open_tests}
        for test, sent_before in open_tests.items():
            outcome, crossing = run.outcomes.get(test), run.crossings.get(test, {})
            calls_made = crossing.get("calls", [])
            if outcome is None:
                failed[test] = reasons[test]
            elif outcome.outcome in ("passed", "xfailed") and not crossing.get("unanswered"):
                continue
            elif last or crossing.get("problem") or not is_open(outcome.exception, crossing):
                failed[test] = reasons[test]
            else:
                revealing = revealing_call(sent_before, calls_made, recorded.tests.values())
                if revealing:
                    failed[test] = f"{revealing} would be asked for what the test expects"
                else:
                    questions[test] = next_questions(sent_before, calls_made)
        names = {str(number): test for number, test in enumerate(questions)}
        sent = {name: questions[test] for name, test in names.items()}
        groups = [{name for name, test in names.items() if test in group} for group in apart] if sent else []
        answers_given = await examination.answers(changes, sent, recorded.opaque, (), groups=groups) if sent else {}
        silent.update(test for name, test in names.items() if not answers_given.get(name))
        ended = [name for name, test in names.items() if silent[test] >= MOST_SILENT]
        failed.update({names.pop(name): "its process ended twice without answers" for name in ended})
        received = {test: run.crossings.get(test, {}).get("answered", ()) for test in questions}
        answered_now = {
            test: stood_by(open_tests[test], questions[test], answers_given.get(name, []), received[test])
            for name, test in names.items()
        }
        failed.update({test: reasons[test] for test, calls in answered_now.items() if calls == open_tests[test]})
        open_tests = {test: calls for test, calls in answered_now.items() if test not in failed}
    return failed


def _reason(run: TestRun, test: str) -> str:
    """Return why a test fails, if it does."""
    outcome = run.outcomes.get(test)
    if outcome is None:
        return run.cause or "not run"
    if outcome.exception:
        return f"{outcome.exception}: {outcome.message}"[:300]
    return str(run.crossings.get(test, {}).get("unanswered"))[:300]


def _spend(examination: Examination, run: TestRun) -> None:
    if examination.allowance:  # an answer may keep a test busy
        examination.allowance.spend(run.cpu_seconds)


async def _judging_run(
    examination: Examination,
    recorded: RecordedCalls,
    open_tests: Mapping[str, Sequence[Call]],
    frozen: Mapping[str, Sequence[Any]] | None = None,
) -> TestRun:
    """Run tests with a solution's answers. Where these end the process, the ``cause`` of the run says so.

    A run that is killed is repeated with the recorded answers: where that is killed too, the machine kills, and
    GraderError is raised. Otherwise a lack of memory is the solution's doing; after any other end it has one more try.
    """
    tests, allowed = list(open_tests), recorded.allowed()
    replies = Replies(open_tests, allowed, rules_of(recorded, frozen))
    run = await examination.answered_run(tests, replies)
    if not was_ended(run):
        return run
    await examination.trusted_run(tests, replace(replies, answers={test: recorded.tests[test] for test in tests}))
    if not run.oom_killed:
        run = await examination.answered_run(tests, replies)
        if not was_ended(run):
            return run
    return replace(run, cause="the answers end the process of the tests")
