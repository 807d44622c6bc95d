"""The agent ``stumbler``: it makes one mistake of every kind that an agent can make, then solves the task.

So it is known in advance what an annotator must find: ``script`` returns the actions and the mistakes in them. Left out
are the kinds that are not the agent's own (``transport_error``, ``injected_fault``), ``budget``, which ends an episode,
and, in an environment without a shell and files, all mistakes that need them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...models import ErrorKind, Task
from .. import ENVIRONMENTS
from ..actions import Action, call, turn
from ..tasks.task_paths import source_files
from .scripted import Script, solution

BROKEN = '{"path": "pyproject.toml", "start_line": 1'
NUMBERS = "seq 1 2500 > /tmp/numbers.txt; cat /tmp/numbers.txt"
IDLE = 10
_SHELL_AND_FILES = {"bash", "read_file", "edit_file", "list_files", "run_tests"}


@dataclass(frozen=True)
class Mistake:
    """One mistake."""

    kind: ErrorKind
    """What an annotator calls it."""
    actions: tuple[Action, ...]
    """Its turns; the last one is the mistake, the others prepare it."""
    behaviour: str = ""
    """Name of the behaviour, for a kind that has several."""


@dataclass(frozen=True)
class Expected:
    """An error that an annotator must find."""

    turn: int
    """Its turn, from 0."""
    kind: ErrorKind
    behaviour: str = ""


def stumbler(task: Task) -> Script:
    """Make one mistake of every kind, then solve the task."""
    return Script(script(task)[0])


def script(task: Task) -> tuple[list[Action], list[Expected]]:
    """Return the actions of an episode, and the mistakes in it, in order."""
    solved = solution(task)
    tools = {tool["function"]["name"] for tool in ENVIRONMENTS.load(task.environment).tools()}
    actions: list[Action] = []
    expected: list[Expected] = []

    def add(mistake: Mistake) -> None:
        actions.extend(mistake.actions)
        expected.append(Expected(len(actions) - 1, mistake.kind, mistake.behaviour))

    has_workspace = tools >= _SHELL_AND_FILES
    for mistake in _in_repository(task) if has_workspace else _in_any_tools("submit"):
        add(mistake)
    actions += solved.actions
    if has_workspace:
        actions.append(turn("Now the tests.", call("run_tests")))
        add(_effort())
    claim = turn("Done. I ran `mypy` and `ruff` on the change.", solved.submission)
    add(Mistake("false_claim", (claim,)))
    return actions, expected


def _in_repository(task: Task) -> Iterator[Mistake]:
    """Return mistakes with a shell and files."""
    path = (source_files(task) or ["setup.py"])[0]
    missing = path[:-3] + "s.py" if path.endswith(".py") else path + ".txt"

    def shell(kind: ErrorKind, text: str, command: str, **more: Any) -> Mistake:
        return Mistake(kind, (turn(text, call("bash", command=command, **more)),))

    yield from _in_any_tools("read_file")
    files = turn("Which files are there?", call("list_files"))
    yield Mistake("file_not_found", (files, turn("Open the module.", call("read_file", path=missing))))
    edit = call("edit_file", path=path, old="def no_such_function(of_mine):", new="def another():")
    yield Mistake("edit_failed", (turn("Change it.", edit),))
    yield shell("command_not_found", "Which Python?", "pyhton --version")
    yield shell("nonzero_exit", "Look at an old version.", "git show no-such-revision")
    yield shell("traceback", "Try it.", "python -c 'import no_such_module_of_mine'")
    yield shell("timeout", "Follow the log.", "tail -f /dev/null", timeout_s=0.5)
    yield shell("output_limit", "Show it all.", "seq 1 20000")
    long = "Where do I begin, and which of the many ways is the best one? " * 120
    yield Mistake("style", (turn(long, call("bash", command="pwd")),), "wordy")
    look = turn("What is there?", call("bash", command="ls"))
    yield Mistake("wasteful", (look, turn("Look again.", call("bash", command="ls"))), "repeat")
    read = turn("Read the module.", call("read_file", path=path))
    yield Mistake("wasteful", (read, turn("Read it again.", call("read_file", path=path))), "reread")
    yield Mistake("wasteful", (turn("Wait a moment.", call("bash", command="sleep 0.1")),), "sleep")
    yield Mistake("wasteful", (turn("See the whole file.", call("bash", command=NUMBERS)),), "pages")


def _in_any_tools(tool: str) -> Iterator[Mistake]:
    """Return mistakes that need no particular tools; ``tool`` is one that exists."""
    yield Mistake("tool_not_found", (turn("Have a look.", call("reed_the_fiel", path="README.md")),))
    yield Mistake("invalid_args", (turn("Have a look.", call(tool, no_such_argument="README.md")),))
    yield Mistake("malformed_call", (turn("Have a look.", {"name": tool, "arguments": BROKEN}),))
    yield Mistake("style", (turn("Let me think about this first."),), "no_call")


def _effort() -> Mistake:
    """Return a mistake of many needless checks after the work is done."""
    looks = (turn("Is it still right?", call("bash", command=f"echo look {number}")) for number in range(1, IDLE + 1))
    return Mistake("wasteful", tuple(looks), "effort")
