"""The renamed twin of a task: its row, and the proof that it can be solved and is not solved yet."""

from __future__ import annotations

import hashlib
import re

from ....environments.grading import grade
from ....environments.snapshots import make_workspace
from ....environments.snapshots.store.patches import make_patch
from ....environments.snapshots.test_run.test_runner import Order
from ....environments.tasks.task_trees import Materials
from ....errors import PatchError, Rejected
from ....models import IMPOSSIBLE, RENAMED_FROM, RENAMED_NAMES, InterfaceItem, PytestVerifier, Task, UnittestVerifier
from ...base import Files
from ...python.source_tree import SourceTree, read_files
from ...validation.checks.exercise import Exercise, patched_files
from ...validation.checks.final_checks import CheckKnobs, finished
from ...validation.checks.leaks import LeakCheck
from ...validation.checks.wrong_solutions.attempts import as_changes
from ..twin import Twin
from .plan import Plan, all_files, renamed_test, renamed_verifier
from .renaming import Renaming

_RECORDED = ("behaviour", "controls")
_ORDERS: tuple[Order, ...] = ("given", "reversed")


async def make_renamed_twin(task: Task, trees: Materials, plan: Plan, leaks: LeakCheck, backend: str = "auto") -> Twin:
    """Return the renamed twin of an accepted task, or why it has none.

    Its solution scores 1 in two orders and doing nothing 0; the scan for leaks, the check of the statement and the
    records of calls and controls are made again. Raises GraderError, SandboxError and OutOfTime.
    """
    if isinstance(task.verifier, UnittestVerifier) or not isinstance(task.verifier, PytestVerifier):
        return Twin(None, "other_verifier")
    if task.features.get(IMPOSSIBLE):
        return Twin(None, "impossible")
    if plan.renaming is None:
        return Twin(None, plan.reason)
    try:
        row, solution = _row(task, trees, plan.renaming, plan.renamed)
        return Twin(await _proven(task, row, solution, trees, leaks, backend))
    except Rejected as rejected:
        return Twin(None, rejected.reason)
    except PatchError:
        return Twin(None, "files_do_not_fit")


async def _proven(
    original: Task, twin: Task, solution: Files, trees: Materials, leaks: LeakCheck, backend: str
) -> Task:
    """Return the twin with its records. Raises Rejected when it cannot be solved, or is solved already."""
    for order in _ORDERS:
        result = await grade(twin, as_changes(solution), backend=backend, snapshot=trees.snapshot, order=order)
        if result.reward.value != 1.0:
            raise Rejected("oracle_fails", result.failures[0].cause if result.failures else result.end_cause)
    nothing = await grade(twin, [], backend=backend, snapshot=trees.snapshot)
    survivors = set(twin.FAIL_TO_PASS) - {failure.test for failure in nothing.failures}
    if nothing.reward.value != 0.0 or survivors:
        raise Rejected("noop_passes", min(survivors, default="the reward"))
    recorded = [name for name in _RECORDED if name in original.verifier.components]
    knobs = CheckKnobs(mutants=0, behaviour="behaviour" in recorded, controls="controls" in recorded)
    whole = await finished(twin, trees.snapshot, leaks, knobs, backend)
    return whole.model_copy(update={"verifier_strength": original.verifier_strength})


def _row(task: Task, trees: Materials, renaming: Renaming, count: int) -> tuple[Task, Files]:
    """Return the twin's row without records, and the files of its solution."""
    shown = renaming.files(all_files(SourceTree(trees.pristine_tree, (), (), frozenset())))
    exercise = Exercise.of(task, trees)
    solution = renaming.files({path: exercise.after.get(path) for path in (*exercise.before, *exercise.after)})
    graded = renaming.files(read_files(trees.grading_tree, patched_files(task.test_patch)))
    workspace_patch = make_patch(all_files(SourceTree.of(trees.snapshot)), shown)
    components = [name for name in task.verifier.components if name not in _RECORDED]
    records = {"behaviour": "", "controls": "", "components": components}
    twin_id = _twin_id(task)
    features = {**task.features, RENAMED_FROM: task.task_id, RENAMED_NAMES: count}
    update: dict[str, object] = {
        "task_id": twin_id,
        "instance_id": twin_id,
        "base_commit": make_workspace(trees.snapshot, workspace_patch, git=True).commit,
        "problem_statement": renaming.statement(task.problem_statement),
        "interface": [_renamed_item(item, renaming) for item in task.interface],
        "workspace_patch": workspace_patch,
        "patch": make_patch({path: shown.get(path) for path in solution}, solution),
        "test_patch": make_patch({path: shown.get(path) for path in graded}, graded),
        "FAIL_TO_PASS": [renamed_test(test, renaming) for test in task.FAIL_TO_PASS],
        "PASS_TO_PASS": [renamed_test(test, renaming) for test in task.PASS_TO_PASS],
        "source_globs": [renaming.path(glob) for glob in task.source_globs],
        "protected_paths": [renaming.path(glob) for glob in task.protected_paths],
        "verifier": renamed_verifier(task.pytest, renaming).model_copy(update=records),
        "assurance": "in_process",
        "features": features,
    }
    return task.model_copy(update=update), solution


def _renamed_item(item: InterfaceItem, renaming: Renaming) -> InterfaceItem:
    signature = renaming.signature(renaming.text(item.signature))
    return item.model_copy(update={"name": renaming.text(item.name), "signature": signature})


def _twin_id(task: Task) -> str:
    """Return an id that names neither the package nor the code."""
    digest = hashlib.sha256(f"{task.task_id} renamed".encode()).hexdigest()
    return re.sub(r"[^\w.-]+", "_", f"renamed.{task.generator.name}.{digest[:16]}")
