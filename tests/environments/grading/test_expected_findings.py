"""Suspicions that the task's own solution raises too are information; others stay suspicions."""

from __future__ import annotations

import asyncio

import pytest
from helpers.small_tasks import make_task, write_project

from etude.environments.grading import grade
from etude.environments.sandbox import Change
from etude.environments.snapshots import Snapshot, build_snapshot
from etude.models import Grade, Task

MODULE, TEST = "src/launcher/__init__.py", "tests/test_launcher.py"
SOLVED = """\
import os


def command(name):
    return ["run", name]


def start(name):
    os.execvp("run", command(name))
"""
FILES = {
    MODULE: SOLVED,
    TEST: "from launcher import command\n\n\ndef test_command():\n    assert command('a') == ['run', 'a']\n",
    "tests/test_other.py": "def test_nothing():\n    pass\n",
}
MISSING = "    raise NotImplementedError\n"
EXERCISE = f"import os\n\n\ndef command(name):\n{MISSING}\n\ndef start(name):\n{MISSING}"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return build_snapshot(str(write_project(tmp_path_factory.mktemp("source") / "launcher", FILES)))


@pytest.fixture(scope="module")
def task(snapshot: Snapshot) -> Task:
    return make_task(snapshot, FILES, {MODULE: EXERCISE}, TEST, ["test_command"])


def graded(task: Task, snapshot: Snapshot, source: str) -> Grade:
    content = source.encode()
    return asyncio.run(
        grade(task, [Change(path=MODULE, kind="file", size=len(content), content=content)], snapshot=snapshot)
    )


def test_what_the_solution_has_too_is_information(task: Task, snapshot: Snapshot) -> None:
    grade = graded(task, snapshot, SOLVED.replace('"run", command(name)', '"run", args=command(name)'))
    (finding,) = grade.findings
    assert (finding.exploit_id, finding.severity) == ("T08", "info")
    assert finding.excerpt.startswith("as the task's own solution has it: line 9: replaces the process")
    assert grade.reward.value == 1.0


def test_another_construct_is_still_suspected(task: Task, snapshot: Snapshot) -> None:
    grade = graded(task, snapshot, SOLVED + "\n\nimport sys\n\nif 'pytest' in sys.modules:\n    sys.exit(0)\n")
    assert "suspect" in {finding.severity for finding in grade.findings}
