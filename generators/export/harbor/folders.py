"""The files of a Harbor task folder: instruction, configuration, image, solution and tests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....environments.snapshots.test_run.test_runner import ENVIRONMENT, plugin_command
from ....environments.tasks.task_paths import glob_regex
from ....environments.tasks.task_set import TaskSet
from ....environments.tasks.task_trees import Materials, materials, unplayable
from ....errors import ExportError, SnapshotError
from ....models import Task
from ...validation.assembly import PROTECTED
from ..expressible import refuse_other_verifiers
from .image import TESTBED, archive, choose_interpreter, dockerfile, variables, write_layers

WORKSPACE = "/workspace"
"""Where the graded tree is, as in Etude's own sandboxes."""
LOGS = "/logs/verifier"
"""Where Harbor looks for the reward."""
SOURCES = "/logs/artifacts/sources.tar"
"""The agent's files on their way from its container to the verifier's."""
_END = "EOF_OF_THE_SOLUTION"
_RULES = """
---

- The code is in `{testbed}`. Its tests run with `python -m pytest`.
- Change source files only: {sources}. Everything else is graded as it was, whatever you do to it.
- Hidden tests grade the files as they are when you finish.
"""


def write_tasks(tasks: TaskSet, folder: Path, options: Mapping[str, str]) -> int:
    """Write one folder per task, and ``build_images.sh`` when images are named. Raises ExportError."""
    shared: dict[str, Path] = {}
    slugs: dict[str, str] = {}
    for task in tasks:
        slug = slug_of(task.task_id)
        if slugs.setdefault(slug, task.task_id) != task.task_id:
            raise ExportError(f"{slugs[slug]} and {task.task_id} have the same folder {slug}; rename one of them")
        refuse_other_verifiers(task)
        if not (task.snapshot and task.patch and task.FAIL_TO_PASS):
            raise ExportError(f"{task.task_id} has no snapshot, patch or FAIL_TO_PASS; export repository tasks only")
        try:
            _write_task(task, materials(task, blobs=tasks.blobs), folder / slug, options, shared)
        except (SnapshotError, ValueError) as error:
            raise ExportError(str(unplayable(task, error))) from error
    if options["image"]:
        lines = [f'docker build -t {options["image"]}:{slug} "$here/{slug}/environment"' for slug in slugs]
        _script(folder / "build_images.sh", ['here=$(cd "$(dirname "$0")" && pwd)', *lines])
    return len(slugs)


def slug_of(task_id: str) -> str:
    """Return a name for folders, images and packages: letters, digits, ``.``, ``_`` and ``-``."""
    return re.sub(r"[^a-z0-9._-]+", "-", task_id.lower()).strip(".-_")[:120] or "task"


def _write_task(
    task: Task, trees: Materials, folder: Path, options: Mapping[str, str], shared: dict[str, Path]
) -> None:
    interpreter = choose_interpreter(trees.snapshot, options)
    for name in ("environment", "solution", "tests"):
        (folder / name).mkdir(parents=True)
    sources = ", ".join(f"`{pattern}`" for pattern in task.source_globs)
    rules = _RULES.format(testbed=TESTBED, sources=sources)
    (folder / "instruction.md").write_text(task.problem_statement.rstrip() + "\n" + rules, "utf-8")
    (folder / "task.toml").write_text(configuration(task, options), "utf-8")
    (folder / "environment" / "Dockerfile").write_text(dockerfile(trees.snapshot, interpreter), "utf-8")
    write_layers(trees, interpreter, folder / "environment", shared)
    heredoc = f"git apply --whitespace=nowarn - <<'{_END}'\n{task.patch.rstrip(chr(10))}\n{_END}"
    _script(folder / "solution" / "solve.sh", [f"cd {TESTBED}", heredoc])
    _script(folder / "tests" / "test.sh", ["exec python -I -S -B /tests/grade.py"])
    (folder / "tests" / "grade.py").write_text(Path(__file__).with_name("grade.py").read_text("utf-8"), "utf-8")
    (folder / "tests" / "tree.tar.gz").write_bytes(archive(trees.grading_tree, "."))
    job = {**_job(task), "environment": {**variables(trees.snapshot, interpreter), **ENVIRONMENT}}
    (folder / "tests" / "job.json").write_text(json.dumps(job, indent=1, sort_keys=True) + "\n", "utf-8")


def _script(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(["#!/bin/bash", "set -euo pipefail", *lines]) + "\n", "utf-8")
    path.chmod(0o755)


def _job(task: Task) -> dict[str, Any]:
    """Return what ``grade.py`` reads: which tests, which of the agent's files, and the plugin that reports."""
    protected = dict.fromkeys([*task.protected_paths, *PROTECTED])  # without files that the task is about
    return {
        "fail_to_pass": task.FAIL_TO_PASS,
        "pass_to_pass": task.PASS_TO_PASS,
        "sources": [glob_regex(pattern) for pattern in task.source_globs],
        "protected": [glob_regex(pattern) for pattern in protected if pattern not in task.source_globs],
        "archive": SOURCES,
        "workspace": WORKSPACE,
        "logs": LOGS,
        "timeout_s": task.pytest.timeout_s,
        "command": plugin_command(task.pytest.kind),
        "run": task.pytest.model_dump(include={"args", "plugins", "python_path", "options", "config_file", "program"}),
    }


def configuration(task: Task, options: Mapping[str, str]) -> str:
    """Return the task's ``task.toml``."""
    slug = slug_of(task.task_id)
    roots = " ".join(f"'{pattern.split('*')[0].rstrip('/') or '.'}'" for pattern in task.source_globs)
    collect = (
        f"mkdir -p {SOURCES.rpartition('/')[0]} && cd {TESTBED} && "
        f"find {roots} -type f -not -name '*.pyc' -print0 2>/dev/null | tar --null -cf {SOURCES} -T -"
    )
    grade_s = max(10 * task.pytest.timeout_s, 300.0) + 60.0
    image = [("docker_image", f"{options['image']}:{slug}")] if options["image"] else []
    tables: dict[str, list[tuple[str, Any]]] = {
        "": [("schema_version", "1.4")],
        "task": [("name", f"etude/{slug}"), ("version", task.generator.version), ("keywords", [task.generator.name])],
        "metadata": [
            ("task_id", task.task_id), ("repo", task.repo), ("repo_version", task.version), ("licence", task.licence),
            ("split", task.split), ("assurance", "in_process"),
        ],
        "environment": [
            *image, ("build_timeout_sec", 1800.0), ("cpus", 1), ("memory_mb", 2048), ("storage_mb", 10240),
            ("workdir", TESTBED), ("network_mode", options["network"]),
        ],
        "agent": [("timeout_sec", 1800.0)],
        "verifier": [("timeout_sec", grade_s), ("environment_mode", options["verifier"])],
        "[verifier.collect]": [("command", collect)],
    }  # fmt: skip
    return "\n".join(_table(name, pairs) for name, pairs in tables.items())


def _table(name: str, pairs: list[tuple[str, Any]]) -> str:
    # A string, number or list of JSON is one of TOML too, except for pairs of surrogates.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in pairs]
    return "\n".join([*([f"[{name}]"] if name else []), *lines]) + "\n"
