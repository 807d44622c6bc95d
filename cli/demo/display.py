"""What the demo shows: one live list of its stages, then a summary in a newcomer's words."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...intervals import Interval
from ..progress import Pace, PlainLines, Progress, duration
from .stages import STAGES, Demo, Display, Stage, Training

if TYPE_CHECKING:
    from rich.table import Table

AGENTS = {
    "oracle": "knows the solution",
    "noop": "submits without any work",
    "cheater": "plays several exploits",
    "stumbler": "errs as planned, then solves",
}
"""What each scripted agent does, in a few words."""
INDENT = 12


@contextmanager
def open_display() -> Iterator[Display]:
    """Yield the display that fits stderr: live on a terminal, plain lines elsewhere."""
    if not sys.stderr.isatty():
        yield PlainDisplay()
        return
    from rich.console import Console
    from rich.live import Live

    display = LiveDisplay()
    with Live(display, console=Console(stderr=True), refresh_per_second=4):
        yield display


class PlainDisplay:
    """Stages as plain lines: a title with its meaning, its progress, and its seconds."""

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Progress]:
        """Print the stage, its progress, and the seconds that it took."""
        number = STAGES.index(stage) + 1
        heading = f"[{number}/{len(STAGES)}] {stage.title} (about {duration(stage.typical_s)}): {stage.meaning}"
        print(heading, file=sys.stderr, flush=True)
        started = time.monotonic()
        yield PlainLines(f"[{number}/{len(STAGES)}]")
        took = duration(time.monotonic() - started)
        print(f"[{number}/{len(STAGES)}] done in {took}", file=sys.stderr, flush=True)


@dataclass
class _State:
    """Progress of one stage on the live display."""

    mark: str = "·"
    started: float = 0.0
    seconds: float | None = None
    detail: str = ""


class LiveDisplay:
    """All stages on a terminal; the running one shows its progress and its seconds."""

    def __init__(self) -> None:
        self._states = {stage: _State() for stage in STAGES}

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Progress]:
        """Show the stage as running, then as done or failed."""
        state = self._states[stage]
        state.mark, state.started = "▸", time.monotonic()
        pace = Pace()

        def progress(phase: str, done: int = 0, total: int = 0) -> None:
            parts = [phase, f"{done} of {total}" if total else "", pace.text(phase, done, total)]
            state.detail = ", ".join(filter(None, parts))

        try:
            yield progress
        except BaseException:
            state.mark = "✗"
            raise
        else:
            state.mark = "✓"
        finally:
            state.seconds = time.monotonic() - state.started
            state.detail = ""

    def __rich__(self) -> Table:
        """Return the list as it is now; rich calls this at every refresh."""
        from rich.table import Table
        from rich.text import Text

        colours = {"✓": "green", "✗": "red", "▸": "yellow"}
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(ratio=1)
        grid.add_column(justify="right", width=18)
        for stage, state in self._states.items():
            if state.mark == "·":
                took = f"about {duration(stage.typical_s)}"
            else:
                took = duration(state.seconds if state.seconds is not None else time.monotonic() - state.started)
            grid.add_row(Text(state.mark, colours.get(state.mark, "dim")), Text(stage.title, "bold"), Text(took, "dim"))
            grid.add_row("", Text(stage.meaning, "dim"), "")
            if state.detail:
                grid.add_row("", Text(state.detail), "")
        return grid


# --- The summary ----------------------------------------------------------------------------------------------------


def summary_lines(demo: Demo, out: Path) -> list[str]:
    """Return the final summary: what happened, what was measured, where to look, and what to try next."""
    became = f"{demo.tasks} of {demo.candidates} proposals became tasks, each with one function to write back"
    lines = ["", "What happened", ""]
    lines += _section("Package", [f"{demo.source}: {demo.tests} tests that pass every time"])
    lines += _section("Tasks", [became])
    lines += _section("Agents", _agent_lines(demo))
    lines += _section("Sandbox", [demo.sandbox])
    lines += _section("Training", _training_lines(demo.training))
    lines += _section("Look at", _pages(demo))
    return [*lines, "", "Try next", "", *_next_commands(out)]


def _section(title: str, texts: Sequence[str]) -> list[str]:
    return [f"  {title if number == 0 else '':{INDENT}}{text}".rstrip() for number, text in enumerate(texts)]


def _agent_lines(demo: Demo) -> list[str]:
    lines = []
    for row in demo.rows:
        plays = row.plays.removesuffix("s")
        count = f"{row.episodes} {plays}{'s' * (row.episodes != 1)}"
        verdict = "ok" if row.ok else f"NOT {row.expected:g}, a defect"
        marked = f"; {row.error_turns} errors, {row.hints} hints" if row.error_turns and row.ok else ""
        meaning = AGENTS.get(row.agent, "")
        lines.append(f"{row.agent:9} {meaning:28} {count:8} reward {row.mean_reward:.2f} {verdict}{marked}")
    return lines


def _training_lines(training: Training | None) -> list[str]:
    if training is None:
        return ["left out; `make demo` installs what it needs (PyTorch, transformers, TRL) and runs it"]
    million = training.parameters / 1e6
    lines = [
        f"a model of {million:.1f} million parameters, {training.steps} steps in {duration(training.seconds)};",
        f"before and after on {training.drills} new drills, with 95 % intervals in brackets:",
        _change("turns that go wrong", training.error_turns_before, training.error_turns_after),
        _change("drills solved", training.solved_before, training.solved_after),
    ]
    if training.stopped:
        lines.append(f"a safety limit ended it early: {training.stopped}")
    elif not training.learned:
        lines.append("the change of the first row is within chance on this machine")
    return lines


def _change(name: str, before: Interval, after: Interval) -> str:
    return f"{name:20} {_percent(before)}  ->  {_percent(after)}"


def _percent(share: Interval) -> str:
    return f"{100 * share.value:3.0f} % [{100 * share.low:.0f} to {100 * share.high:.0f}]"


def _pages(demo: Demo) -> list[str]:
    pages = [(demo.report, "every episode turn by turn, with its errors and hints")]
    if demo.training is not None:
        pages.append((demo.training.report, "curves of the training run"))
    width = max(len(page) for page, _ in pages)
    return [f"{page:{width}}  {meaning}" for page, meaning in pages]


def _next_commands(out: Path) -> list[str]:
    command = command_prefix()
    commands = [
        (f"{command} serve --tasks {out}", "let your own agent or trainer play these tasks"),
        (f"{command} generate pypi:humanize==4.11.0 --out tasks", "make tasks from another package"),
        (f"{command} train recipes/small.toml", "make a base from nothing and train it for longer"),
    ]
    return [line for text, meaning in commands for line in (f"  # {meaning}", f"  {text}")]


def command_prefix() -> str:
    """Return how a shell in this folder can start ``etude``: by its name, or by the path beside the interpreter."""
    if shutil.which("etude"):
        return "etude"
    return os.path.relpath(Path(sys.executable).with_name("etude"))


def as_json(demo: Demo) -> dict[str, Any]:
    """Return the result with the verdict of the training, as ``etude demo --json`` prints it."""
    from ..console import plain

    data: dict[str, Any] = plain(demo)
    if demo.training is not None:
        data["training"]["learned"] = demo.training.learned
    return data
