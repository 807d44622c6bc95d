"""Rows of tasks with another verifier: the fields that do not depend on what is handed in."""

from __future__ import annotations

import re

from ....environments.grading import matches
from ....environments.snapshots import Snapshot, Workspace
from ....environments.tasks.task_paths import plugin_files
from ....models import SnapshotRef, Task, Verifier
from ...base import Candidate, Feature, StatementContext
from ...python.source_tree import SourceTree
from ...statements.known_failures import with_known_failures
from ..assembly import PROTECTED, protected_paths, task_id


def make_row(
    snapshot: Snapshot,
    candidate: Candidate,
    workspace: Workspace,
    context: StatementContext,
    verifier: Verifier,
    **fields: str | list[str],
) -> Task:
    """Return the row of a candidate; ``fields`` are patches and globs."""
    statement = with_known_failures(candidate.statement.render(context), snapshot.baseline.dropped)
    features: dict[str, Feature] = {"prompt_words": len(re.findall(r"\S+", statement)), **candidate.features}
    return Task(
        task_id=task_id(snapshot, candidate),
        repo=snapshot.name,
        version=snapshot.version,
        base_commit=workspace.commit,
        snapshot=SnapshotRef(digest=snapshot.digest, recipe=snapshot.recipe.model_dump(mode="json")),
        generator=candidate.generator,
        problem_statement=statement,
        interface=list(candidate.interface),
        verifier=verifier,
        features=features,
        licence=snapshot.licence,
        **fields,  # type: ignore[arg-type]
    )


def protected_but(snapshot: Snapshot, tree: SourceTree, test_file: str) -> list[str]:
    """Return patterns of what an agent's diff may not contain, where it may write one test file.

    A pattern that covers the file is replaced by the files of the Snapshot that it covers.
    """
    patterns = [*dict.fromkeys([*PROTECTED, *protected_paths(tree), *plugin_files(snapshot.tree)])]
    covering = [pattern for pattern in patterns if matches(test_file, [pattern])]
    files = [path for path in tree.all_files() if path != test_file and matches(path, covering)]
    others = [pattern for pattern in patterns if pattern not in covering]
    return [*others, *(path for path in files if not matches(path, others))]
