"""The task of a usable instance, and the proof that it holds when it is graded."""

from __future__ import annotations

from ....environments.grading import grade
from ....environments.snapshots import Snapshot
from ....environments.tasks.task_paths import plugin_files
from ....errors import GraderError
from ....models import GeneratorRef, SnapshotRef, Task
from ...validation.assembly import PROTECTED
from ...validation.checks.wrong_solutions.attempts import as_changes
from .instance import Instance, changed_files
from .revalidation import Revalidated
from .solution import solved_files

ENVIRONMENT = "swe_bench"
_TEST_FOLDERS = ["tests/**", "test/**", "testing/**", "**/tests/**"]


def make_task(instance: Instance, result: Revalidated, snapshot: Snapshot) -> Task:
    """Return the row of a usable instance, with the labels that were measured."""
    verdict, verifier = result.verdict, result.verifier
    assert verifier is not None
    added = [line for line in instance.patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    return Task(
        task_id=instance.instance_id,
        environment=ENVIRONMENT,
        repo=instance.repo,
        version=instance.version,
        base_commit=instance.base_commit,
        snapshot=SnapshotRef(digest=snapshot.digest, recipe=snapshot.recipe.model_dump(mode="json")),
        generator=GeneratorRef(name="rows", version="1", seed=0, knobs={"dataset": instance.dataset}),
        problem_statement=instance.problem_statement.replace("\r\n", "\n"),
        patch=instance.patch,
        test_patch=instance.test_patch,
        workspace_patch=instance.workspace_patch,
        FAIL_TO_PASS=verdict.fail_to_pass,
        PASS_TO_PASS=verdict.pass_to_pass,
        source_globs=["**"],
        protected_paths=[
            *PROTECTED,
            *_TEST_FOLDERS,
            *plugin_files(snapshot.tree),
            *sorted(changed_files(instance.test_patch)),
        ],
        verifier=verifier.model_copy(update={"args": []}),  # which files decide is not the agent's to know
        features={
            "verdict": verdict.verdict,
            "fail_to_pass": len(verdict.fail_to_pass),
            "pass_to_pass": len(verdict.pass_to_pass),
            "files": len(changed_files(instance.patch)),
            "lines_added": len(added),
            "created_at": instance.created_at,
        },
        licence=instance.licence or snapshot.licence,
        split="test",
    )


async def prove(instance: Instance, task: Task, snapshot: Snapshot, backend: str) -> str:
    """Return why the task does not hold when it is graded: the solution must score 1, an empty patch 0."""
    try:
        solved = as_changes(solved_files(snapshot.tree, instance.patch, instance.workspace_patch))
        gold = await grade(task, solved, backend=backend, snapshot=snapshot)
        empty = await grade(task, [], backend=backend, snapshot=snapshot)
    except GraderError as error:
        return str(error)
    if gold.reward.value != 1.0:
        refused = [f"{change.path} ({change.reason})" for change in gold.refused][:2]
        failed = [f"{failure.test}: {failure.cause}" for failure in gold.failures][:1]
        return f"graded, the solution scores {gold.reward.value:g}: {'; '.join([*failed, *refused])}"[:400]
    return f"graded, an empty patch scores {empty.reward.value:g}" if empty.reward.value else ""
