"""``etude demo``: the guided tour."""

from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..options import Jobs, Json, Sandbox, sigterm_interrupts


def demo(
    source: Annotated[str, typer.Option(help="Make the tasks from this source.")] = "pypi:cachetools==5.5.0",
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Try N candidates.")] = 3,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write everything to this folder.")] = Path("runs/demo"),
    train: Annotated[bool, typer.Option("--train/--no-train", help="Train a tiny model at the end.")] = True,
    jobs: Jobs = 2,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Show everything on a real package: make tasks, serve them, play them, train a tiny model on drills."""
    from ..demo import display, tour

    with sigterm_interrupts(), display.open_display() as shown:
        result = tour.run_demo(source, shown, count=count, out=out, jobs=jobs, backend=sandbox, train=train)
    if as_json:
        console.show_json(display.as_json(result))
    else:
        print("\n".join(display.summary_lines(result, out)))
    console.exit_unless(result.ok)
