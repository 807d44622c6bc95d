"""Command ``play``: a user solves a task with the agent's tools and is graded."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import console
from ..options import Json, Sandbox, sigterm_interrupts, tasks_of

if TYPE_CHECKING:
    from ...environments.runs.manual import ManualEpisode, PlayResult
    from ...environments.tasks.task_set import Tasks
    from ...models import Observation, Task
    from .screen import Screen

DEFAULT_OUT = Path("runs/played")
DEFAULT_TASKS = Path("tasks")
_HELP = """Type one call per line; each line is one turn:
  TOOL text               such as: bash ls src         (the tool's main argument)
  TOOL key=value ...      such as: read_file path=setup.py start_line=1
  TOOL key=<<END          the value is the lines that follow, up to a line END
  TOOL {"key": "value"}   the arguments as JSON
  /help   show this page        /task   show the task again
  /quit   leave; the same command resumes the episode
The tools (arguments that may be left out are in brackets):"""


def play(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="Play this task, or the next one of an environment such as drill.")
    ],
    tasks: Annotated[
        Path | None,
        typer.Option(
            help="Find the task in this folder or hub:USER/NAME@REVISION; default: an environment's, else ./tasks."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Add the episode to episodes.jsonl in this folder.")
    ] = DEFAULT_OUT,
    hints: Annotated[bool, typer.Option(help="Show each error turn with its hints.")] = True,
    faults: Annotated[str | None, typer.Option(help="Make calls fail as in `etude serve`; default: none.")] = None,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Solve a task yourself with the agent's tools, see the hints, and be graded; Ctrl-C keeps the turns."""
    from ...environments.runs.manual import ManualEpisode
    from .screen import Screen

    task_set, chosen = _choose(task, tasks, out)
    annotate = "observation" if hints else "state"
    episode = ManualEpisode(task_set, chosen, out, backend=sandbox, annotate=annotate, faults=faults)
    screen = Screen(sys.stderr if as_json else sys.stdout)
    result = None
    with sigterm_interrupts(), episode:
        try:
            result = _converse(episode, screen)
        finally:
            if result is None and episode.unfinished is not None and episode.unfinished.actions:
                again = _command_of(task, tasks, out, hints, faults, sandbox)
                number = len(episode.unfinished.actions)
                screen.show(f"\nturns kept: {number}; nothing is graded yet. To resume: {again}")
    if result is not None:
        _show(result, screen, as_json)
        console.exit_unless(result.valid)


def _choose(name: str, folder: Path | None, out: Path) -> "tuple[Tasks, Task]":
    """Return the task to play and its set. Raises UnknownName, TaskSetError and RunError."""
    from ...environments import ENVIRONMENTS
    from ...environments.runs.manual import next_task
    from ...environments.runs.play import holds, made_tasks
    from ...errors import UnknownName
    from ...registry import did_you_mean

    if folder is None and name in ENVIRONMENTS.paths() and ENVIRONMENTS.load(name).makes_tasks:
        task_set = tasks_of(name)
        return task_set, next_task(task_set, name, out)
    if folder is None:
        for candidates in made_tasks():
            if holds(candidates, name):
                return candidates, candidates.by_id(name)
        if not DEFAULT_TASKS.exists():
            makers = [maker for maker in ENVIRONMENTS.paths() if ENVIRONMENTS.load(maker).makes_tasks]
            unknown = did_you_mean("task or environment", name, makers)
            raise UnknownName(f"{unknown}; name the folder of other tasks with --tasks")
    task_set = tasks_of(folder or DEFAULT_TASKS)
    return task_set, task_set.by_id(name)


def _converse(episode: "ManualEpisode", screen: "Screen") -> "PlayResult | None":
    """Play the episode to its end and return its outcome, None for a user who leaves.

    Raises typer.Exit when the input ends before the episode.
    """
    observation = episode.start()
    prompt, tools = observation.prompt or "", list(observation.tools or [])
    screen.show(prompt)
    screen.show()
    _show_help(screen, tools)
    turns = len(episode.unfinished.actions) if episode.unfinished is not None else 0
    if turns:
        screen.show(f"\nturns played again: {turns}; their results:")
    _show_turn(observation, screen)
    while not observation.done:
        try:
            line = screen.read(f"[turn {turns + 1}] > ").strip()
            if not line:
                continue
            if line.startswith("/"):
                if line == "/quit":
                    return None
                _answer_command(line, prompt, tools, screen)
                continue
            action = _action(line, tools, screen)
        except EOFError:
            console.show_error("the input ended before the episode; end it with a call of submit")
            raise typer.Exit(1) from None
        if action is not None:
            observation = episode.step(action)
            turns += 1
            _show_turn(observation, screen)
    return episode.finish()


def _action(line: str, tools: Sequence[dict[str, Any]], screen: "Screen") -> dict[str, Any] | None:
    """Return the turn of a line, None for one that cannot be read; the reason is shown."""
    from ...errors import UnreadableLine
    from .input_lines import action_of

    try:
        return action_of(line, tools, lambda: screen.read("... "))
    except UnreadableLine as error:
        screen.show(f"not played: {error}")
        return None


def _show_turn(observation: "Observation", screen: "Screen") -> None:
    screen.show_results(observation.messages)
    screen.show_errors(observation.annotations or [])


def _answer_command(line: str, prompt: str, tools: Sequence[dict[str, Any]], screen: "Screen") -> None:
    if line == "/task":
        screen.show(prompt)
    elif line == "/help":
        _show_help(screen, tools)
    else:
        screen.show(f"unknown command {line}; there are /help, /task and /quit")


def _show_help(screen: "Screen", tools: Sequence[dict[str, Any]]) -> None:
    from .input_lines import usage

    screen.show(_HELP)
    for tool in tools:
        description = " ".join(str(tool["function"].get("description", "")).split())
        screen.show(f"  {usage(tool)}: {description}")


def _show(result: "PlayResult", screen: "Screen", as_json: bool) -> None:
    """Print the grade and where the episode is."""
    columns = ("task_id", "end", "reward", "turns", "error_turns", "hints")
    row = {name: getattr(result, name) for name in columns}
    row["components"] = ", ".join(f"{name} {value:.3g}" for name, value in result.components.items())
    console.show({**console.plain(result), "ok": result.valid}, [row], as_json)
    for exploit in sorted(set(result.findings)):
        screen.show(f"finding: {exploit}; docs/monitors.md says what it means")
    if not as_json:
        screen.show(f"next: etude report {shlex.quote(result.out)} --out report.html")


def _command_of(task: str, tasks: Path | None, out: Path, hints: bool, faults: str | None, sandbox: str) -> str:
    """Return the command that resumes the episode."""
    words = ["etude", "play", task]
    words += ["--tasks", str(tasks)] if tasks is not None else []
    words += ["--out", str(out)] if out != DEFAULT_OUT else []
    words += [] if hints else ["--no-hints"]
    words += ["--faults", faults] if faults is not None else []
    words += ["--sandbox", sandbox] if sandbox != "auto" else []
    return shlex.join(words)
