"""The prompt of the coding environment."""

from __future__ import annotations

from collections.abc import Sequence

from ...models import Task
from ..sandbox import WORKSPACE
from ..tool_protocol import SUBMIT


def prompt(task: Task, tools: Sequence[str]) -> str:
    """Return the statement and the rules: everything that an agent with these tools reads at the start."""
    submit = "When you are done, call submit: it ends the episode, and hidden tests grade the workspace as it is then."
    rules = [
        f"Your workspace is {WORKSPACE}; paths are relative to it. "
        "There is no network, and pip cannot install.",  # prose: ok
        f"You have the tools {', '.join(tools)}. Each result starts with a status line: ok, exit N, timeout or error.",
        "Change source files only. Tests and configuration are graded as they were, whatever you do to them.",
        submit if SUBMIT in tools else "A turn without a tool call, twice in a row, ends the episode.",
    ]
    return task.problem_statement.rstrip() + "\n\n---\n\n" + "\n".join(f"- {rule}" for rule in rules) + "\n"
