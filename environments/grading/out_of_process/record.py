"""Makes the record of a new task's calls, and keeps only what was seen to decide rightly.

A test is kept when its calls and their answers were the same in two runs, when the task's own solution gives these
answers in a process of its own, when the test passes with them in the trusted tree, and when doing nothing gives other
answers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from ....models import FileChange
from ...rng import stream
from .check import Examination
from .inputs import held_out_calls, is_plain
from .places import canonical
from .recorded_calls import MAX_BYTES, Call, RecordedCalls

MAX_TESTS = 200
"""Most tests of a record."""
MIN_CALLS = 6
"""Fewest different calls of a record that decides alone; a guess satisfies fewer too easily."""


@dataclass(frozen=True)
class Recording:
    """The record of a task, or why there is none."""

    calls: RecordedCalls | None
    reasons: dict[str, str] = field(default_factory=dict)
    """Why tests were left out, by test."""
    is_complete: bool = False
    """Whether the record alone separates a solution from anything else, so that nothing has to be believed of a process
    in which the solution runs beside the tests."""
    missing: str = ""
    """Why the record is not complete."""


async def record(examination: Examination, solution: Sequence[FileChange]) -> Recording:
    """Return the record of a task's FAIL_TO_PASS tests; ``solution`` is its own solution as accepted changes.

    Raises SandboxError when a sandbox fails.
    """
    examined, tests = examination.examined, examination.task.FAIL_TO_PASS[:MAX_TESTS]
    if not examined.targets:
        return Recording(None, missing=(examined.unreplaced or ("the solution changes no function",))[0])
    first, again = await asyncio.gather(
        examination.trusted_run(tests, None), examination.trusted_run(tests, None, hash_seed=1)
    )
    reasons: dict[str, str] = {}
    accepted: dict[str, list[Call]] = {}
    for test in tests:
        one, two = first.crossings.get(test, {}), again.crossings.get(test, {})
        if test not in first.passed:
            reasons[test] = "it does not pass where the functions are replaced"
        elif one.get("problem"):
            reasons[test] = one["problem"]
        elif not one.get("calls"):
            reasons[test] = "it calls no examined function"
        elif canonical(one["calls"]) != canonical(two.get("calls", [])):
            reasons[test] = "its calls differ from run to run"
        else:
            accepted[test] = one["calls"]
    recorded = RecordedCalls(list(examined.targets), list(examined.opaque), list(examination.packages), accepted)
    recorded = await _reproduced(examination, recorded, solution, reasons)
    recorded = _within_limit(recorded, reasons)
    if not recorded.tests:
        return Recording(None, reasons, missing=_most_frequent(reasons))
    recorded = await _with_inputs(examination, recorded, solution)
    runs = {
        test: {target for target in crossing["reached"] if target[0] != "@"}
        for test, crossing in first.crossings.items()
    }
    unseen = set().union(*runs.values()) - set().union(*(runs[test] for test in recorded.tests))
    missing = _missing(examination, recorded, reasons, unseen)
    return Recording(recorded, reasons, not missing, missing)


async def _reproduced(
    examination: Examination, recorded: RecordedCalls, solution: Sequence[FileChange], reasons: dict[str, str]
) -> RecordedCalls:
    """Return the record without the tests that the solution answers otherwise elsewhere, or that nothing passes."""
    answered_elsewhere, nothing = await asyncio.gather(
        examination.answers(solution, recorded.sent(), recorded.opaque),
        examination.answers([], recorded.sent(), recorded.opaque),
    )
    accepted: dict[str, list[Call]] = {}
    for number, (test, calls) in enumerate(recorded.tests.items()):
        expected = canonical([call["answer"] for call in calls])
        if canonical(answered_elsewhere.get(str(number))) != expected:
            reasons[test] = (
                f"elsewhere the solution answers otherwise ({_difference(calls, answered_elsewhere.get(str(number)))})"
            )
        elif canonical(nothing.get(str(number))) == expected:
            reasons[test] = "its answers do not need the solution"
        else:
            accepted[test] = calls
    if not accepted:
        return replace(recorded, tests={})
    answered = replace(recorded, tests=accepted)
    run = await examination.trusted_run(list(accepted), accepted, answered.allowed())
    for test in list(accepted):
        if test not in run.passed:
            outcome = run.outcomes.get(test)
            reasons[test] = f"with given answers it fails ({outcome.message if outcome else run.cause})"[:300]
            del accepted[test]
    return replace(recorded, tests=accepted)


async def _with_inputs(
    examination: Examination, recorded: RecordedCalls, solution: Sequence[FileChange]
) -> RecordedCalls:
    """Return the record with held-out calls: those to which the solution gives the same plain answer every time.

    Whatever ends with an exception is left out: tests and documents say little about what a function refuses. So are
    calls that doing nothing answers as well.
    """
    task = examination.task
    proposed = held_out_calls(list(recorded.tests.values()), stream(task.generator.seed, "inputs", task.task_id))
    if not proposed:
        return recorded
    sent = dict(proposed)
    runs = [await examination.answers(changes, sent, recorded.opaque) for changes in (solution, solution, [])]
    inputs: dict[str, list[Call]] = {}
    for target, calls in proposed.items():
        first, second, nothing = (run.get(target, []) for run in runs)
        good = [
            {**call, "answer": one}
            for call, one, two, none in zip_longest(calls, first, second, nothing)
            if one and canonical(one) == canonical(two) != canonical(none)
            if "broken" not in one and one["error"] is None and one["after"] is None and is_plain(one["result"])
        ]
        if good:
            inputs[target] = good
    return replace(recorded, inputs=inputs)


def _difference(calls: Sequence[Call], answered_elsewhere: Sequence[Any] | None) -> str:
    if not answered_elsewhere:
        return "no answer"
    for call, got in zip(calls, answered_elsewhere, strict=False):
        if canonical(call["answer"]) != canonical(got):
            return f"{call['target']}: {got.get('broken') or 'another result'}"
    return "fewer answers"


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


def _missing(examination: Examination, recorded: RecordedCalls, reasons: dict[str, str], unseen: set[str]) -> str:
    """Return what the record lacks to decide alone, '' when it lacks nothing."""
    if examination.examined.unreplaced:
        return examination.examined.unreplaced[0]
    if unseen:
        return f"no recorded test runs {min(unseen)}"
    if weak := _too_weak(recorded):
        return weak
    if len(recorded.tests) < len(reasons):
        return (
            f"{len(reasons)} of {len(reasons) + len(recorded.tests)} tests are not recorded: {_most_frequent(reasons)}"
        )
    return ""


def _too_weak(recorded: RecordedCalls) -> str:
    """Return why a guess could satisfy the record: few calls, or a function that always answers the same."""
    arguments: set[str] = set()
    answers: dict[str, set[str]] = {}
    every_call = [*recorded.tests.values(), *recorded.inputs.values()]
    for call in (call for calls in every_call for call in calls):
        arguments.add(canonical([call["target"], call["arguments"], call["keywords"]]))
        answers.setdefault(call["target"], set()).add(canonical(call["answer"]))
    constant = next((target for target, different in sorted(answers.items()) if len(different) == 1), "")
    if constant:
        return f"every recorded call of {constant} has the same answer"
    return f"only {len(arguments)} different calls are recorded" if len(arguments) < MIN_CALLS else ""


def _most_frequent(reasons: dict[str, str]) -> str:
    counted = Counter(reasons.values()).most_common(1)
    return counted[0][0] if counted else "no test is recorded"
