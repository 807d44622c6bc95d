"""Command about rows of public data sets: ``import``."""

from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..options import Jobs, Json, Sandbox, sigterm_interrupts
from ..progress import as_updates, progress_bar


def import_(
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="A file, a folder, hub:USER/NAME or swe-bench:lite.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the tasks and the verdicts to this folder.")],
    repos: Annotated[
        Path | None,
        typer.Option(envvar="ETUDE_REPOS", help="Folder of clones (owner__name); default: clone from the network."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Import this instance or repository (owner/name) only; repeatable.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Import the first N rows.")] = None,
    split: Annotated[str | None, typer.Option(help="Take this split; default: the only one, or test.")] = None,
    format_: Annotated[
        str | None, typer.Option("--format", "-f", help="Read this format; default: recognise it from the rows.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="CPU time of one run of an instance's tests.")
    ] = 600.0,
    jobs: Jobs = 1,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Validate rows of a public data set again, and make playable tasks of those that hold."""
    from ...generators.library.rows.formats import read_instances
    from ...generators.library.rows.importing import Settings, choose, import_instances

    read = read_instances(rows, split=split, format=format_, limit=None if only else limit)
    chosen = choose(read.instances, only or [], limit)
    request = " ".join([rows, *(f"--only {name}" for name in only or []), *([f"--limit {limit}"] if limit else [])])
    with sigterm_interrupts(), progress_bar("import") as progress:
        report = import_instances(
            chosen,
            out,
            Settings(repos, sandbox, jobs, timeout),
            source=request,
            skipped=[*read.skipped, *read.lacks],
            progress=as_updates(progress),
        )
    table = out / "instances.md"
    verdicts = console.counted(report.verdicts)
    row = {"rows": report.instances, "tasks": report.tasks, "verdicts": verdicts, "table": str(table)}
    console.show(report.row(), [row], as_json)
    for line in report.skipped:
        console.show_warning(line)
    if not report.tasks:
        console.show_error(f"no row became a task ({report.reason}): see {table}")
    console.exit_unless(report.tasks > 0)
