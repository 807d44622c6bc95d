"""The checks of a validated Candidate before it is a Task: V7, V4, strength of the tests, features."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ....environments.grading import grade
from ....environments.snapshots import Snapshot
from ....environments.tasks.task_paths import solution_paths
from ....environments.tasks.task_trees import Materials
from ....errors import GeneratorError, Rejected
from ....models import Assurance, Task
from ...engine.warm_batch import WarmBatch
from ...python.reached_definitions import reached_definitions
from ...python.source_tree import SourceTree, read_files
from ..limits import refuse_overload
from .adequacy import completed, missing_items
from .behaviour import with_behaviour
from .controls import with_controls
from .exercise import Exercise
from .leaks import LeakCheck, compiled_copy
from .stability import described, unstable
from .wrong_solutions.attempts import as_changes
from .wrong_solutions.strength import MUTANTS, strength


@dataclass(frozen=True)
class CheckKnobs:
    """The knobs of validation itself, the same for all generators."""

    mutants: Annotated[int, Field(ge=0)] = MUTANTS
    """Number of mistakes in the solution that the hidden tests are tried on; 0 measures no strength."""
    min_strength: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of these mistakes that the hidden tests must notice."""
    behaviour: bool = True
    """Whether to record the calls that a solution must answer in a process without tests."""
    controls: bool = True
    """Whether to keep changed tests that a right solution fails, for tasks that are graded in process alone."""
    reruns: Annotated[int, Field(ge=0)] = 0
    """Runs of the solution and of the workspace, in two orders and with other hash seeds, that must agree; 0: none."""
    assurance: Assurance = "in_process"
    """The least assurance of a task: ``out_of_process`` rejects candidates whose tests cannot be repeated elsewhere."""

    def __post_init__(self) -> None:
        if self.min_strength and not self.mutants:
            raise GeneratorError("knob min_strength needs mutants; set mutants to 1 or more")
        if self.assurance == "out_of_process" and not self.behaviour:
            raise GeneratorError("assurance out_of_process needs recorded calls; set behaviour to true")


async def finished(
    task: Task,
    snapshot: Snapshot,
    leaks: LeakCheck,
    knobs: CheckKnobs,
    backend: str,
    warm: WarmBatch | None = None,
    *,
    keeps_behaviour: bool = False,
) -> Task:
    """Return the task with its statement completed, its strength and its features. Raises Rejected.

    ``keeps_behaviour`` says that the solution changes no behaviour that the workspace has, so that the tests which
    pass there count for the strength.
    """
    trees = Materials(task, snapshot)
    exercise = await asyncio.to_thread(Exercise.of, task, trees)
    items = await asyncio.to_thread(missing_items, task, trees, exercise)
    complete = completed(task, items, len(exercise.pieces))
    if complete is None:
        detail = f"the statement lacks {len(items)} names and messages that tests ask for: {items[0].name!r}"
        raise Rejected("v7_under_specified", detail)
    task_leaks = await asyncio.to_thread(leaks.find, complete, trees, exercise)
    if task_leaks:
        raise Rejected("v4_leak", str(task_leaks[0]))
    if copy := await asyncio.to_thread(compiled_copy, trees.agent_tree, exercise.secret_pieces):
        raise Rejected("v4_leak", copy)
    every = keeps_behaviour
    tested = await strength(complete, trees, exercise, most=knobs.mutants, every_test=every, backend=backend, warm=warm)
    if tested.value is not None and tested.value < knobs.min_strength:
        missed = ", ".join(tested.survivors[:3])
        detail = f"the tests notice {tested.value:.0%} of {tested.tried} mistakes; not {missed}"
        raise Rejected("v5_weak_tests", detail)
    measured = measured_features(complete, exercise, SourceTree.of(snapshot))
    features = {**measured, "mutants": tested.tried, **complete.features}
    strong = complete.model_copy(update={"verifier_strength": tested.value, "features": features})
    recorded = await with_behaviour(strong, trees, knobs.assurance, backend) if knobs.behaviour else strong
    whole = await with_controls(recorded, trees, backend) if knobs.controls else recorded
    if whole.verifier.components != task.verifier.components:  # stage V3 graded it with the other components
        await accepts_its_solution(whole, trees, backend)
    if flaky := await unstable(whole, trees, runs=knobs.reruns, backend=backend) if knobs.reruns else {}:
        raise Rejected("v10_flaky", described(flaky))
    return whole


async def accepts_its_solution(task: Task, trees: Materials, backend: str) -> None:
    """Grade the task's own solution, and doing nothing, with all components.

    Raises Rejected where the first does not score 1 or the second does not score 0, SandboxError when a sandbox fails.
    """
    contents = read_files(trees.solved_tree, solution_paths(task))
    result = await grade(task, as_changes(contents), backend=backend, snapshot=trees.snapshot)
    if result.reward.value != 1.0:
        if any(failure.cause.startswith("timeout") for failure in result.failures):
            refuse_overload()
        zero = ", ".join(name for name, value in result.reward.components.items() if value != 1.0)
        causes = [
            f"; {finding.exploit_id}: {finding.excerpt}" for finding in result.findings if finding.severity != "info"
        ]
        raise Rejected("v9_own_solution", f"the task's own solution scores 0 for {zero}{''.join(causes[:1])}")
    nothing = await grade(task, [], backend=backend, snapshot=trees.snapshot)
    if nothing.reward.value != 0.0:
        raise Rejected("v9_own_solution", f"doing nothing scores {nothing.reward.value}")


def measured_features(task: Task, exercise: Exercise, tree: SourceTree) -> dict[str, int]:
    """Return counts from the row and the source tree alone; those of the generator take precedence in the row.

    ``fan_in`` counts source files besides the solution's own that mention a missing definition by name, ``closure``
    the definitions of the package that the solution's code reaches by name.
    """
    added = [
        exercise.after[path].split(b"\n")[number - 1]
        for path, numbers in exercise.added.items()
        if path in exercise.after
        for number in numbers
    ]
    code = [line for line in added if line.strip() and not line.strip().startswith(b"#")]
    names = {piece.short for piece in exercise.pieces if not piece.short.startswith("__")}
    callers = [
        path
        for path, vocabulary in tree.word_index.items()
        if path not in exercise.after and tree.is_source(path) and not tree.is_test(path) and names & vocabulary
    ]
    return {
        "loc_removed": len(code),
        "files": len(exercise.after),
        "entities": len(exercise.pieces),
        "fail_to_pass": len(task.FAIL_TO_PASS),
        "pass_to_pass": len(task.PASS_TO_PASS),
        "prompt_words": len(re.findall(r"\S+", task.problem_statement)),
        "oracle_lines": len(added),
        "fan_in": len(callers),
        "closure": len(reached_definitions(tree, [piece.source for piece in exercise.pieces])),
    }
