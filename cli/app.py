"""The typer application: every command under its name, and errors as one line with an exit code.

A command's function is in ``commands/``; ``play`` and ``init`` have folders, ``terminal/`` and ``scaffold/``. It
imports what it needs when it runs, so that ``etude --help`` stays fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from . import console
from .commands import (
    annotate,
    bench,
    catalogue,
    demo,
    doctor,
    episodes,
    hints,
    hub,
    monitor,
    plan,
    redteam,
    rescore,
    rows,
    sandbox,
    tasks,
    train,
    view,
)
from .options import INTERRUPTED, TERMINATED
from .scaffold import init_command
from .terminal import play_command

app = typer.Typer(name="etude", no_args_is_help=True, pretty_exceptions_enable=False)
PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Start here": {"demo": demo.demo, "doctor": doctor.doctor, "list": catalogue.list_, "init": init_command.init},
    "Tasks": {
        "generate": tasks.generate,
        "import": rows.import_,
        "validate": tasks.validate,
        "export": tasks.export,
        "push": hub.push,
    },
    "Episodes": {
        "serve": episodes.serve,
        "run": episodes.run,
        "play": play_command.play,
        "annotate": annotate.annotate,
        "view": view.view,
        "report": episodes.report,
        "fork": view.fork,
        "monitor": monitor.monitor,
        "redteam": redteam.redteam,
        "bench": bench.bench,
        "rescore": rescore.rescore,
    },
    "Training": {"train": train.train, "plan": plan.plan, "replay": train.replay},
}
"""Commands by the panel of ``etude --help`` that shows them."""
GROUPS = {"hints": hints.hints, "sandbox": sandbox.sandboxes, "snapshot": tasks.snapshots}
"""Groups of commands by their name."""

RESUMED = {
    "demo",
    "generate",
    "import",
    "validate",
    "push",
    "run",
    "play",
    "monitor",
    "redteam",
    "rescore",
    "train",
    "replay",
    "hints causal",
    "hints write",
}
"""Commands that keep what they have done when they are interrupted; the others start over."""

for _panel, _commands in PANELS.items():
    for _name, _function in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_function)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name, rich_help_panel="Parts")


def _print_version(requested: bool) -> None:
    if requested:
        from .. import __version__

        print(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Turn real repositories into practice tasks for coding agents, serve them, and train on them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, which is 0 only when the command did what was asked."""
    try:
        result = app(args=arguments, prog_name="etude", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        console.show_error("aborted")
        return 1
    except BrokenPipeError:
        # The reader of stdout is gone (`etude list | head`); stdout is replaced so that Python can close it quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the one place where errors become a line and an exit code
        return _exit_code_of(error)
    if result in (INTERRUPTED, TERMINATED):
        console.show_error(interrupted_text(sys.argv[1:] if arguments is None else arguments))
    return result if isinstance(result, int) else 0


def interrupted_text(arguments: Sequence[str]) -> str:
    """Return the line for a command that Ctrl-C ended: whether the same command resumes or starts over."""
    words = [word for word in arguments if not word.startswith("-")][:2]
    resumed = not RESUMED.isdisjoint({*words[:1], " ".join(words)})
    return f"Interrupted. Run the same command again to {'resume' if resumed else 'start over'}."


def _exit_code_of(error: Exception) -> int:
    """Print an error as one line and return the exit code. Raises the error again when it is a defect of Etude."""
    usage = getattr(error, "format_message", None)
    message = usage() if usage else console.explain(error)
    if message is None or (console.debugging() and not usage):
        raise error
    if message:  # empty: click printed a help page instead
        console.show_error(message)
    return getattr(error, "exit_code", 1)
