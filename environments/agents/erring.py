"""The scripted agent that errs: one mistake of every kind that an agent can make, each once, and then it solves.

What it is made for is knowing beforehand what an annotator must find: ``script`` gives the actions and the mistakes.
Left out are the kinds that are not an agent's own (``transport_error``, ``injected_fault``) and ``budget``, which ends
an episode; and in a drill all that need a shell or files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...models import ErrorKind, Task
from .scripted import Script, call, solution, source_files, submission, turn

Action = dict[str, Any]
BROKEN = '{"path": "pyproject.toml", "start_line": 1'
NUMBERS = "seq 1 2500 > /tmp/numbers.txt; cat /tmp/numbers.txt"
IDLE = 10


@dataclass(frozen=True)
class Mistake:
    """The last of ``actions`` is the mistake, the others lead there. ``behaviour`` names one of several ways."""

    kind: ErrorKind
    actions: tuple[Action, ...]
    behaviour: str = ""


@dataclass(frozen=True)
class Expected:
    """What an annotator must find in a turn, counted from 0."""

    turn: int
    kind: ErrorKind
    behaviour: str = ""


def stumbler(task: Task) -> Script:
    """Plays every mistake, then the solution."""
    return Script(script(task)[0])


def script(task: Task) -> tuple[list[Action], list[Expected]]:
    """The actions of an episode, and the mistakes in it, in order."""
    actions: list[Action] = []
    expected: list[Expected] = []

    def add(mistake: Mistake) -> None:
        actions.extend(mistake.actions)
        expected.append(Expected(len(actions) - 1, mistake.kind, mistake.behaviour))

    for mistake in _in_any_tools("submit") if task.environment == "drill" else _in_repository(task):
        add(mistake)
    actions += solution(task)
    if task.environment != "drill":
        actions.append(turn("Now the tests.", call("run_tests")))
        add(_effort())
    add(_false_claim(task))
    return actions, expected


def _in_repository(task: Task) -> Iterator[Mistake]:
    path = (source_files(task) or ["setup.py"])[0]
    lost = path[:-3] + "s.py" if path.endswith(".py") else path + ".txt"

    def shell(kind: ErrorKind, text: str, command: str, **more: Any) -> Mistake:
        return Mistake(kind, (turn(text, call("bash", command=command, **more)),))

    yield from _in_any_tools("read_file")
    files = turn("Which files are there?", call("list_files"))
    yield Mistake("file_not_found", (files, turn("Open the module.", call("read_file", path=lost))))
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
    """Mistakes that need no particular tools; ``tool`` is one that there is."""
    yield Mistake("tool_not_found", (turn("Have a look.", call("reed_the_fiel", path="README.md")),))
    yield Mistake("invalid_args", (turn("Have a look.", call(tool, no_such_argument="README.md")),))
    yield Mistake("malformed_call", (turn("Have a look.", {"name": tool, "arguments": BROKEN}),))
    yield Mistake("style", (turn("Let me think about this first."),), "no_call")


def _effort() -> Mistake:
    """Look after look although the work is done."""
    looks = (turn("Is it still right?", call("bash", command=f"echo look {number}")) for number in range(1, IDLE + 1))
    return Mistake("wasteful", tuple(looks), "effort")


def _false_claim(task: Task) -> Mistake:
    return Mistake("false_claim", (turn("Done. I ran `mypy` and `ruff` on the change.", submission(task)),), "")
