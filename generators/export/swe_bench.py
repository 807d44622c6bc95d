"""Tasks as SWE-bench rows: its twelve columns with its types, and three more that SWE-bench 5 reads.

``base_commit`` is the only commit of the task's workspace; ``patch`` and ``test_patch`` apply to its tree.
``created_at`` is the date of that commit, the same for all tasks, since a row depends on no clock. (``datasets`` turns
it into a timestamp when it reads JSON, as it does for SWE-bench's rows; the parquet file keeps it as text.) ``repo``
names the package, because no upstream repository has the commit. ``eval_script`` runs the files of the expected tests
in ``/testbed`` and prints what SWE-bench's pytest parser reads, which cuts test ids at spaces. SWE-bench 5 also needs
``image``, which the user provides.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...environments.snapshots.store.workspace import COMMIT_DATE
from ...environments.tasks.task_set import TaskSet
from ...errors import ExportError
from ...models import Task, UnittestVerifier
from .expressible import refuse_episodes, refuse_other_verifiers

COLUMNS = (
    "instance_id", "repo", "base_commit", "environment_setup_commit", "version", "created_at", "problem_statement",
    "hints_text", "patch", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS",
)  # fmt: skip
EXTRAS = ("eval_script", "log_parser", "eval_type")
_END = "EOF_OF_THE_TEST_PATCH"


def rows(tasks: TaskSet, episodes: Path | None = None) -> list[dict[str, str]]:
    """Return tasks as rows of SWE-bench, in order. Raises ExportError for episodes and tasks without a repository."""
    refuse_episodes(episodes, "swe-bench")
    return [row(task) for task in tasks]


def row(task: Task) -> dict[str, str]:
    """Return the row of a task. Raises ExportError for one without a repository."""
    refuse_other_verifiers(task)
    if not (task.base_commit and task.patch and task.FAIL_TO_PASS):
        raise ExportError(f"{task.task_id} has no base_commit, patch or FAIL_TO_PASS; export repository tasks only")
    values: dict[str, Any] = {
        "instance_id": task.task_id,
        "repo": task.repo,
        "base_commit": task.base_commit,
        "environment_setup_commit": task.base_commit,
        "version": task.version,
        "created_at": COMMIT_DATE,
        "problem_statement": task.problem_statement,
        "hints_text": "",
        "patch": task.patch,
        "test_patch": task.test_patch,
        "FAIL_TO_PASS": json.dumps([_label(task, test) for test in task.FAIL_TO_PASS]),
        "PASS_TO_PASS": json.dumps([_label(task, test) for test in task.PASS_TO_PASS]),
        "eval_script": "\n".join(_script(task)) + "\n",
        "log_parser": "parse_log_django" if isinstance(task.verifier, UnittestVerifier) else "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }
    return {name: values[name] for name in (*COLUMNS, *EXTRAS)}


def _label(task: Task, test: str) -> str:
    """Return a test's name as the row's parser prints it: ``method (module.Class)`` for unittest."""
    place, _, method = test.rpartition(".")
    return f"{method} ({place})" if isinstance(task.verifier, UnittestVerifier) else test


def _command(task: Task) -> str:
    verifier, tests = task.pytest, [*task.FAIL_TO_PASS, *task.PASS_TO_PASS]
    if isinstance(verifier, UnittestVerifier):
        options = [option for option in verifier.options if not option.startswith("--verbosity")]
        labels = dict.fromkeys(test.rsplit(".", 2)[0] for test in tests)
        return shlex.join(["python", verifier.program, "--verbosity=2", *options, *labels])
    overrides = [f"-o {shlex.quote(option)}" for option in verifier.options if "=" in option and option[0] != "-"]
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return " ".join(["python -m pytest -rA --tb=short -p no:cacheprovider", *overrides, *map(shlex.quote, files)])


def _script(task: Task) -> Iterator[str]:
    verifier = task.pytest
    folders = ":".join(f"/testbed/{path}".removesuffix("/.") for path in verifier.python_path)
    yield from ("#!/bin/bash", "set -uxo pipefail", "cd /testbed")
    if folders:
        yield f"export PYTHONPATH={shlex.quote(folders)}"
    if task.test_patch:
        yield f"git apply -v - <<'{_END}'\n{task.test_patch.rstrip(chr(10))}\n{_END}"
    yield ": '>>>>> Start Test Output'"
    yield _command(task)
    yield ": '>>>>> End Test Output'"
