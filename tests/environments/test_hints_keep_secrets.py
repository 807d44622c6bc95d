"""A whole set of mistakes on a real task: every one gets a hint, and no hint holds the solution or a hidden test."""

from __future__ import annotations

import asyncio
from typing import Any

from etude import hints
from etude.environments.actions import call, turn
from etude.environments.coding.session import CodingSession
from etude.environments.tasks.task_set import TaskSet
from etude.hints.write.hint_leaks import reveals
from etude.hints.write.templates import HINTS
from etude.models import Episode, Hint, Task

CORE = "src/tally/core.py"
MISTAKES: list[dict[str, Any]] = [
    turn("", call("grep", pattern="total")),
    turn("", call("total", values=[1, 2])),
    turn("", {"name": "bash", "arguments": '{"command": "ls'}),
    turn("", {"name": "bash", "arguments": "{'command': 'ls'}"}),
    turn("", call("read_file", file="x")),
    turn("", call("read_file", path=CORE, start_line="one")),
    turn("", call("read_file", path="src/core.py")),
    turn("", call("read_file", path="tests/test_hiden.py")),
    turn("", call("read_file", path="tests/test_totals.py")),
    turn("", call("read_file", path="src/tally")),
    turn("", call("run_tests", selector="tests/test_core.py")),
    turn("", call("edit_file", path=CORE, old="    return sum(value)", new="x")),
    turn("", call("edit_file", path=CORE, old="values", new="x")),
    turn("", call("edit_file", path=CORE, old="", new="x")),
    turn("", call("bash", command="pytst")),
    turn("", call("bash", command="run_tests")),
    turn("", call("bash", command="sleep 60", timeout_s=0.3)),
    turn("", call("bash", command="python -c 'from tally import total; total([1, 2])'")),
    turn("", call("bash", command="cd src && python -c 'import tally.core as c; c.total([1])'")),
    turn("", call("bash", command="cat src/core.py")),
    turn("", call("bash", command="git apply nothing.patch")),
    turn("", call("bash", command="git apply nothing.patch")),
    turn("", call("bash", command="head -c 100000 /dev/zero | tr '\\0' x; exit 0")),
    turn("", call("bash", command="seq 2500")),
    turn("", call("bash", command="git status --short")),
    turn("", call("bash", command="git status --short")),
    turn("", call("read_file", path=CORE)),
    turn("", call("read_file", path=CORE)),
    turn("", call("bash", command="sleep 0.1")),
    turn("Let me think about it."),
    turn("I implemented total in src/tally/core.py and all tests pass.", call("submit")),
]


def played(tasks: TaskSet) -> Episode:
    async def run() -> Episode:
        session = CodingSession(tasks)
        try:
            await session.reset(task_id="tally-total")
            for action in MISTAKES:
                await session.step(action)
            return session.episode()
        finally:
            await session.close()

    return asyncio.run(run())


def test_no_hint_reveals_the_solution_or_a_hidden_test(tasks: TaskSet, task: Task) -> None:
    episode = played(tasks)
    files = [CORE, "src/tally/__init__.py", "src/tally/words.py", "tests/test_visible.py", "pyproject.toml"]
    errors = hints.annotate(hints.transcript(episode), episode.tools, files)
    arguments: list[Hint] = [hint for error in errors for hint in error.hints]
    assert all(error.hints for error in errors), [error for error in errors if not error.hints]
    assert len({hint.template for hint in arguments}) >= 14
    assert {hint.template for hint in arguments} <= set(HINTS.names())
    secrets = [task.patch, task.test_patch, *task.FAIL_TO_PASS]
    expected = [task.problem_statement]  # not what the agent wrote, which a hint may quote: it guessed nothing secret
    assert [(hint.text, word) for hint in arguments if (word := reveals(hint.text, secrets, expected))] == []


def test_the_check_fails_for_a_hint_that_reveals_the_solution(task: Task) -> None:
    secrets = [task.patch, task.test_patch, *task.FAIL_TO_PASS]
    for line in ("result += value", "assert total([]) == 0", "test_total_of_nothing", "tests/test_hidden.py"):
        assert reveals(f"Try this: {line}", secrets) is not None
