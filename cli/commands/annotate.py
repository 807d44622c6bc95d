"""Command ``annotate``: error turns and hints in the logs of other tools."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import console
from ..options import Json, names_of
from ..progress import progress_bar

if TYPE_CHECKING:
    from ...environments.logs.annotating import FileSummary


def annotate(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Files of logs, or folders that hold them.")],
    log_format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            autocompletion=names_of("log-formats"),
            help="Read this format; default: found out from the content.",
        ),
    ] = "",
    tools: Annotated[
        Path | None, typer.Option(help="Use the tool schemas in this JSON file for logs that hold none.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write episodes.jsonl to this folder.")] = (
        Path("runs/annotated")
    ),
    report: Annotated[
        Path | None, typer.Option(help="Write the report page of `etude report` to this file too.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Mark error turns and add hints in logs of other tools, and write them as a run."""
    from ...environments.logs.annotating import annotate_logs

    if report is not None:
        from ...server.viewer import check_target

        check_target(report)  # an error at the end would leave the run without its page
    with progress_bar("annotate") as progress:
        result = annotate_logs(logs, out, format_name=log_format, tools=tools, progress=progress)
        page = None
        if report is not None:
            from ...server.viewer import write_report

            page = write_report([out], report, progress=progress)
    data = {**console.plain(result), "ok": result.ok, "report": console.plain(page)}
    console.show(data, [_row(summary) for summary in result.files if summary.episodes], as_json)
    if not as_json:
        print(f"report: {page.out}" if page else f"next: etude report {out} --out report.html")
    for summary in result.files:
        if summary.skipped:
            console.show_warning(f"{summary.skipped} not read, the first: {summary.problems[0]}")
    for problem in result.unread:
        console.show_error(problem)
    console.exit_unless(result.ok)


def _row(summary: "FileSummary") -> dict[str, Any]:
    """Return one line of the table."""
    columns = ("file", "format", "episodes", "turns", "error_turns", "hints", "recovered")
    return {name: getattr(summary, name) for name in columns} | {"kinds": console.counted(summary.kinds)}
