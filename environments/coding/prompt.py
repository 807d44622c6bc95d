"""The prompt of the coding environment."""

from __future__ import annotations

from collections.abc import Sequence

from ...models import AnswerVerifier, MutantsVerifier, Task
from ..sandbox import WORKSPACE
from ..tool_protocol import SUBMIT

CONFIGURATION = ("pyproject.toml", "setup.cfg", "setup.py", "pytest.ini", "tox.ini")


def prompt(task: Task, tools: Sequence[str]) -> str:
    """Return the statement and the rules: everything that an agent with these tools reads at the start."""
    what, graded = _rule_and_grading(task)
    submit = f"When you are done, call submit{graded}"
    rules = [
        f"Your workspace is {WORKSPACE}; paths are relative to it. "
        "There is no network, and pip cannot install.",  # prose: ok
        f"You have the tools {', '.join(tools)}. Each result starts with a status line: ok, exit N, timeout or error.",
        what,
        submit if SUBMIT in tools else "A turn without a tool call, twice in a row, ends the episode.",
    ]
    return task.problem_statement.rstrip() + "\n\n---\n\n" + "\n".join(f"- {rule}" for rule in rules) + "\n"


def _rule_and_grading(task: Task) -> tuple[str, str]:
    """Return what the agent may change, and how the sentence about ``submit`` ends."""
    if isinstance(task.verifier, AnswerVerifier):
        return (
            "You may run and change anything in the workspace; only your answer is graded.",
            " with your answer as the argument answer: it ends the episode.",
        )
    if isinstance(task.verifier, MutantsVerifier):
        return (
            f"Write your tests into {task.verifier.test_file}: no other file of yours is graded.",
            ": it ends the episode, and your tests run on versions of the source that you cannot see.",
        )
    files = [path for path in task.source_globs if path in CONFIGURATION]
    allowed, graded = (" and " + ", ".join(files), "other configuration") if files else ("", "configuration")
    return (
        f"Change source files{allowed} only. Tests and {graded} are graded as they were, whatever you do to them.",
        ": it ends the episode, and hidden tests grade the workspace as it is then.",
    )
