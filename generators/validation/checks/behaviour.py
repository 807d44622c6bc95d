"""The record of the calls that a task's tests make: a solution has to answer them in a process that holds no tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ....environments.grading.out_of_process.judging.examination import Examination
from ....environments.grading.out_of_process.recording.record import Recording, record
from ....environments.grading.out_of_process.strength.requirements import Requirement, Unmet
from ....environments.grading.own_solution import own_solution
from ....environments.tasks.task_trees import Materials
from ....errors import Rejected
from ....models import RECORD_LACKS, Assurance, FileChange, Task
from .wrong_solutions.solution_mutants import noticed, solution_mutants

COMPONENT = "behaviour"
LEAST_KILLED = 0.6
"""Share that a record has to kill of the mutants that tests or any proposed call notice."""
MOST_SURVIVORS = 5
"""Most mutants on which tests are run because no proposed call kills them."""


async def with_behaviour(task: Task, trees: Materials, least: Assurance, backend: str) -> Task:
    """Return the task with its record, where it has one, and with the assurance that the record gives.

    A record may decide alone although it lacks up to a quarter of the FAIL_TO_PASS tests. Those are judged in process;
    the feature ``tests_in_process`` counts them. Where the record does not decide, the feature RECORD_LACKS says which
    requirement it does not meet. Raises Rejected for an assurance below ``least``, SandboxError when a
    sandbox fails.
    """
    solution = await asyncio.to_thread(own_solution, task, trees)
    examination = Examination(task, trees, backend)
    mutants, further = await asyncio.to_thread(solution_mutants, examination, solution)
    recording = await record(examination, solution, [*mutants, *further])
    recording = await _tried(recording, task, trees, mutants, backend)
    if least == "out_of_process" and not recording.decides_its_tests:
        raise Rejected("v8_assurance", f"graded in process only: {recording.missing}")
    passing = len(recording.calls.passing) if recording.calls else 0
    decided_count = len(recording.calls.tests) - passing if recording.calls else 0
    features = {**task.features, "recorded_tests": decided_count, "recorded_passing_tests": passing}
    if recording.decides_its_tests and decided_count < len(task.FAIL_TO_PASS):
        features["tests_in_process"] = len(task.FAIL_TO_PASS) - decided_count
    if recording.unmet and not recording.decides_its_tests:
        features[RECORD_LACKS] = recording.unmet.summary
    if recording.mutants:
        features |= {"record_mutants": recording.mutants, "record_mutants_killed": recording.mutants_killed}
    if recording.calls is None:
        return task.model_copy(update={"features": features})
    verifier = task.pytest.model_copy(
        update={
            "behaviour": recording.calls.pack(),
            "components": list(dict.fromkeys([*task.verifier.components, COMPONENT])),
        }
    )
    assurance: Assurance = "out_of_process" if recording.decides_its_tests else "in_process"
    return task.model_copy(update={"features": features, "verifier": verifier, "assurance": assurance})


async def _tried(
    recording: Recording, task: Task, trees: Materials, mutants: Sequence[Sequence[FileChange]], backend: str
) -> Recording:
    """Return the recording; when it lets too many mutants pass, it no longer decides.

    A mutant that no proposed call kills counts only if a test notices it: it may be as right as the solution.
    """
    if not recording.decides_its_tests:
        return recording
    survivors = [mutants[number] for number in recording.survivors if number < len(mutants)][:MOST_SURVIVORS]
    by_tests = await noticed(task, trees, survivors, backend)
    noticeable = recording.mutants + by_tests
    recording = replace(recording, mutants=noticeable)
    if recording.mutants_killed >= LEAST_KILLED * noticeable:
        return recording
    survive = f"{noticeable - recording.mutants_killed} of {noticeable} mutants survive"
    unmet = Unmet(Requirement.MUTANTS, f"a partial solution satisfies the record: {survive}")
    return replace(recording, is_complete=False, decides_its_tests=False, unmet=unmet)
