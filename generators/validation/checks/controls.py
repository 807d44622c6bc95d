"""Negative controls of a task: copies of its tests with other values, which its own solution was seen to fail.

Tests that are judged beside the solution's code alone get them (see ``environments/grading/controls.py``), and a few of
the others: a solution may be right where calls are recorded, and forge what has to keep passing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from ....environments.grading.controls import COMPONENT, Control, Placed, pack
from ....environments.grading.out_of_process.recorded_calls import RecordedCalls
from ....environments.rng import stream
from ....environments.sandbox import open_sandbox
from ....environments.snapshots.test_run.placed_files import write_files
from ....environments.snapshots.test_run.test_runner import TestRun, run_tests
from ....environments.tasks.task_trees import Materials
from ....models import Task
from ...python.expected_values import source_of_test
from ...python.hidden_tests import split_test_id
from ..limits import conclusive
from .control_edits import choices, place_of

MOST_FUNCTIONS = 24
"""Most test functions that get controls because they are judged beside the solution's code alone."""
MOST_OTHERS = 6
"""Most other test functions that get controls, in a task that is graded out of process."""
MOST_VALUES = 4
"""Most values of a test, the right one among them."""
FEW_FUNCTIONS, MOST_VALUES_OF_FEW = 2, 8
"""With at most FEW_FUNCTIONS test functions each gets more values, or guessing all of them would succeed too often."""
ROUNDS = 7
"""Most places of a function whose value is changed; each round is one run of the functions without a control yet."""


async def with_controls(task: Task, trees: Materials, backend: str) -> Task:
    """Return the task with the controls that its own solution fails, and the component that asks for them.

    In a task that is graded out of process, the tests that its record lacks get controls, and a few of the others.
    Raises SandboxError when a sandbox fails.
    """
    tests, others = [*task.FAIL_TO_PASS, *task.PASS_TO_PASS], list[str]()
    if task.assurance == "out_of_process":
        recorded = RecordedCalls.unpack(task.pytest.behaviour).tests
        tests, others = [test for test in task.FAIL_TO_PASS if test not in recorded], [*tests]
    if task.pytest.kind != "pytest":
        return task
    proposals = await asyncio.to_thread(_proposals, task, trees, tests, MOST_FUNCTIONS)
    others = [test for test in others if test.partition("[")[0] not in proposals]
    proposals |= await asyncio.to_thread(_proposals, task, trees, others, MOST_OTHERS)
    proven: list[Control] = []
    for number in range(ROUNDS):
        tested = {control.test for control in proven}
        current = [
            control
            for test, options in proposals.items()
            for control in options[number : number + 1]
            if test not in tested
        ]
        if not current:
            continue
        run = await _solution_run(task, trees, current, backend, is_reversed=False)
        candidates = [control for item in current if (control := _proven(item, run)) is not None]
        if candidates:
            again = await _solution_run(task, trees, candidates, backend, is_reversed=True)
            proven += [
                control
                for control in candidates
                if _is_proven_again(control, again) and _spares_namesakes(control, again)
            ]
    proven = await _telling(task, trees, proven, backend)
    features = {**task.features, "controls": len(proven)}
    if not proven:
        return task.model_copy(update={"features": features})
    components = list(dict.fromkeys([*task.verifier.components, COMPONENT]))
    verifier = task.pytest.model_copy(update={"controls": pack(proven), "components": components})
    return task.model_copy(update={"features": features, "verifier": verifier})


def _proposals(task: Task, trees: Materials, tests: Sequence[str], most_functions: int) -> dict[str, list[Control]]:
    """Return by test function the controls that are tried, in that order. Tests that the agent can read get none."""
    draw: random.Random = stream(task.generator.seed, "controls", task.task_id)
    functions = list(dict.fromkeys(test.partition("[")[0] for test in tests if "::" in test))
    most = MOST_VALUES_OF_FEW if len(functions) <= FEW_FUNCTIONS else MOST_VALUES
    draw.shuffle(functions)
    proposals: dict[str, list[Control]] = {}
    for test in functions:
        path, names = split_test_id(test)
        file = trees.grading_tree / path
        if (
            not (path.endswith(".py") and file.is_file())
            or len(proposals) == most_functions
            or _is_visible(trees, test)
        ):
            continue
        source = file.read_bytes()
        place = place_of(source, names)
        if place is None:
            continue
        options: list[Control] = []
        proposed = sorted(choices(source, names, draw, most), key=lambda choice: not choice.is_hidden)
        for choice in proposed[:ROUNDS]:
            copies = (names[-1], *(f"{names[-1]}_{letter}" for letter in "abcdefgh"[: len(choice.texts) - 1]))
            if not any(name.encode() in source for name in copies[1:]):
                name_at, value_at = place.name_at - place.start, choice.start - place.start
                options.append(Control(test, place.start, place.end, name_at, value_at, choice.texts, copies, (), ()))
        if options:
            proposals[test] = options
    return proposals


def _is_visible(trees: Materials, test: str) -> bool:
    """Return whether the agent can read a test: it would then recognize the copies with other values."""
    path, names = split_test_id(test)
    shown, graded = trees.agent_tree / path, trees.grading_tree / path
    return shown.is_file() and source_of_test(shown.read_bytes(), names) == source_of_test(graded.read_bytes(), names)


def _placed(controls: Sequence[Control], is_reversed: bool) -> Placed:
    """Return the controls with the order in which their copies get the values."""
    orders = [tuple(range(len(control.values))) for control in controls]
    return Placed(tuple(controls), tuple(order[::-1] if is_reversed else order for order in orders))


async def _telling(task: Task, trees: Materials, controls: Sequence[Control], backend: str) -> list[Control]:
    """Return the controls without the cases that pass with the unsolved workspace too, as the test itself does.

    Such a case passes with honest code that answers as the workspace does.
    """
    if not controls:
        return []
    run = await _run(task, trees, controls, backend, trees.agent_tree, is_reversed=False)
    passed = set(_placed(controls, is_reversed=False).passed(run))
    return [reduced for control in controls if (reduced := _without(control, passed)) is not None]


def _without(control: Control, passed: Collection[str]) -> Control | None:
    """Return the control without the copies' cases in ``passed``; None when no copy is left."""
    fails = [
        tuple(case for case in cases if control.id_of(number, case) not in passed)
        for number, cases in enumerate(control.fails)
    ]
    remaining = [number for number, cases in enumerate(fails) if cases or number == 0]
    if len(remaining) < 2:
        return None
    return replace(
        control,
        values=tuple(control.values[number] for number in remaining),
        names=control.names[: len(remaining)],
        cases=tuple(control.cases[number] for number in remaining),
        fails=tuple(fails[number] for number in remaining),
    )


async def _solution_run(
    task: Task, trees: Materials, controls: Sequence[Control], backend: str, is_reversed: bool
) -> TestRun:
    """Run test functions and their copies on the task's own solution (see ``_run``)."""
    return await _run(task, trees, controls, backend, trees.solved_tree, is_reversed=is_reversed)


async def _run(
    task: Task, trees: Materials, controls: Sequence[Control], backend: str, tree: Path, *, is_reversed: bool
) -> TestRun:
    """Run test functions and their copies, in all their cases, on the code of a tree.

    Expected tests of the same names run too: they may inherit a changed test from its class.
    """
    functions = [control.id_of(name, "") for control in controls for name in range(len(control.names))]
    namesakes = {control.names[0] for control in controls}
    functions += [
        test
        for test in sorted({*task.FAIL_TO_PASS, *task.PASS_TO_PASS})
        if _function(test) not in functions and _function(test).rpartition("::")[2] in namesakes
    ]
    verifier = task.pytest.model_copy(update={"args": functions})
    sandbox = await open_sandbox(trees.snapshot.layers(tree), backend=backend)
    try:
        await write_files(sandbox, _placed(controls, is_reversed).files(trees.grading_tree))
        return conclusive(await run_tests(sandbox, verifier))
    finally:
        await sandbox.close()


def _proven(control: Control, run: TestRun) -> Control | None:
    """Return the control with its right value and the values that failed in ``run``; None when none failed."""
    values: list[str] = []
    cases: list[tuple[str, ...]] = []
    fails: list[tuple[str, ...]] = []
    for number, value in enumerate(control.values):
        function = control.id_of(number, "")
        outcomes = {
            test[len(function) :]: item.outcome for test, item in run.outcomes.items() if _is_of(test, function)
        }
        failed = tuple(case for case, outcome in outcomes.items() if outcome == "failed")
        is_usual = outcomes and set(outcomes.values()) <= {"passed", "failed"}
        is_usual = is_usual and (number == 0 or len(outcomes) == len(cases[0]))
        if number == 0 and (failed or not is_usual):
            return None
        if is_usual and (failed or number == 0):
            values, cases, fails = [*values, value], [*cases, tuple(outcomes)], [*fails, failed]
    if len(values) < 2:
        return None
    names = control.names[: len(values)]
    return replace(control, values=tuple(values), names=names, cases=tuple(cases), fails=tuple(fails))


def _function(test: str) -> str:
    """Return the id of a test without its parameters."""
    return test.partition("[")[0]


def _is_of(test: str, function: str) -> bool:
    return test == function or test.startswith(f"{function}[")


def _is_proven_again(control: Control, run: TestRun) -> bool:
    """Return whether the outcomes are the same in ``run``, whose copies have the values in the reverse order."""
    last = len(control.values) - 1
    for number, (cases, fails) in enumerate(zip(control.cases, control.fails, strict=True)):
        for case in cases:
            outcome = run.outcomes.get(control.id_of(last - number, case))
            if outcome is None or outcome.outcome != ("failed" if case in fails else "passed"):
                return False
    return True


def _spares_namesakes(control: Control, run: TestRun) -> bool:
    """Return whether the other tests of the same name, such as inherited ones, pass where it has a wrong value."""
    return all(
        item.outcome == "passed"
        for test, item in run.outcomes.items()
        if not _is_of(test, control.test) and _function(test).rpartition("::")[2] == control.names[0]
    )
