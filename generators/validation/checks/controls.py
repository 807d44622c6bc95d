"""Negative controls of a task: changed tests that its own solution was seen to fail.

Tests that are judged beside the solution's code alone get them (see ``environments/grading/controls.py``).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from ....environments.grading.controls import COMPONENT, Control, changed_files, pack
from ....environments.grading.out_of_process.recorded_calls import RecordedCalls
from ....environments.rng import stream
from ....environments.sandbox import WORKSPACE, open_sandbox
from ....environments.snapshots.test_run.test_runner import TestRun, run_tests
from ....environments.tasks.task_trees import Materials
from ....models import Task
from ...python.hidden_tests import split_test_id
from ..limits import conclusive
from .control_edits import Edit, edits, function_source

MOST_FUNCTIONS = 24
"""Most test functions that get a control."""
ROUNDS = 4
"""Most changes that are tried for a function; each round is one run of the functions that have no control yet."""


async def with_controls(task: Task, trees: Materials, backend: str) -> Task:
    """Return the task with the controls that its own solution fails, and the component that asks for them.

    Of a task that is graded out of process only the tests that its record lacks get controls. Raises SandboxError when
    a sandbox fails.
    """
    tests = [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]
    if task.assurance == "out_of_process":
        recorded = RecordedCalls.unpack(task.pytest.behaviour).tests
        tests = [test for test in task.FAIL_TO_PASS if test not in recorded]
    if not tests or task.pytest.kind != "pytest":
        return task
    proposals = await asyncio.to_thread(_proposals, task, trees, tests)
    proven: list[Control] = []
    for number in range(ROUNDS):
        current = [
            Control(test, edit.start, edit.end, edit.text, ())
            for test, options in proposals.items()
            for edit in options[number : number + 1]
            if not any(control.test == test for control in proven)
        ]
        if current:
            run = await _solution_run(task, trees, current, backend)
            proven += [control for one in current if (control := _proven(one, run)) is not None]
    features = {**task.features, "controls": len(proven)}
    if not proven:
        return task.model_copy(update={"features": features})
    components = list(dict.fromkeys([*task.verifier.components, COMPONENT]))
    verifier = task.pytest.model_copy(update={"controls": pack(proven), "components": components})
    return task.model_copy(update={"features": features, "verifier": verifier})


def _proposals(task: Task, trees: Materials, tests: Sequence[str]) -> dict[str, list[Edit]]:
    """Return the changes of some tests to try, by test function, in the order in which they are tried."""
    draw: random.Random = stream(task.generator.seed, "controls", task.task_id)
    functions = list(dict.fromkeys(test.partition("[")[0] for test in tests if "::" in test))
    draw.shuffle(functions)
    options_by_test: dict[str, list[Edit]] = {}
    for test in functions:
        path, names = split_test_id(test)
        file = trees.grading_tree / path
        if (
            path.endswith(".py")
            and file.is_file()
            and len(options_by_test) < MOST_FUNCTIONS
            and not _is_visible(trees, test)
        ):
            options = list(islice(edits(file.read_bytes(), names, draw), ROUNDS))
            if options:
                options_by_test[test] = options
    return options_by_test


def _is_visible(trees: Materials, test: str) -> bool:
    """Return whether the agent can read a test: it would know a changed one."""
    path, names = split_test_id(test)
    shown, graded = trees.agent_tree / path, trees.grading_tree / path
    return shown.is_file() and function_source(shown.read_bytes(), names) == function_source(graded.read_bytes(), names)


async def _solution_run(task: Task, trees: Materials, controls: Sequence[Control], backend: str) -> TestRun:
    """Run changed test functions, with whatever parameters they have then, on the task's own solution."""
    verifier = task.pytest.model_copy(update={"args": [control.test for control in controls]})
    sandbox = await open_sandbox(trees.snapshot.layers(trees.solved_tree), backend=backend)
    try:
        for path, content in changed_files(trees.grading_tree, controls, controls).items():
            await sandbox.write(f"{WORKSPACE}/{path}", content)
        return conclusive(await run_tests(sandbox, verifier))
    finally:
        await sandbox.close()


def _proven(control: Control, run: TestRun) -> Control | None:
    """Return the control with the tests that a run says it has; None unless one of them fails in its body."""
    outcomes = {test: outcome for test, outcome in run.outcomes.items() if test.partition("[")[0] == control.test}
    fails = tuple(test for test, outcome in outcomes.items() if outcome.outcome == "failed")
    passes = tuple(test for test, outcome in outcomes.items() if outcome.outcome == "passed")
    if not fails or len(fails) + len(passes) != len(outcomes):
        return None
    return replace(control, fails=fails, passes=passes)
