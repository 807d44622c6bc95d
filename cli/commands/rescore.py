"""Command ``rescore``: stored episodes with today's annotations, findings and grades."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import console
from ..options import Jobs, Json, RunFolder, Sandbox, sigterm_interrupts, tasks_of
from ..progress import progress_bar

if TYPE_CHECKING:
    from ...environments.runs.rescore import RescoreReport

SHOWN_CHANGES = 20
"""Changed episodes that are printed; all of them are in the JSON."""


def rescore(
    run: RunFolder,
    tasks: Annotated[
        list[Path] | None,
        typer.Option(help="Find the tasks in this folder or hub:USER/NAME@REVISION; repeatable; drills need none."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the new episodes to this folder; default: RUN-rescored beside RUN."),
    ] = None,
    jobs: Jobs = 1,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Annotate, inspect and grade stored episodes again with today's code, and say what changed."""
    import asyncio

    from ...environments.runs.play import made_tasks
    from ...environments.runs.rescore import free_folder, rescore_run

    sets = [*(tasks_of(folder) for folder in tasks or ()), *made_tasks()]
    with sigterm_interrupts(), progress_bar("rescore") as progress:
        working = rescore_run(run, sets, out or free_folder(run), backend=sandbox, jobs=jobs, progress=progress)
        report = asyncio.run(working)
    _show(report, as_json)
    console.exit_unless(report.ok)


def _show(report: "RescoreReport", as_json: bool) -> None:
    """Print what changed, in total and for each episode."""
    means = {
        name: "-" if value is None else f"{value:.4g}"
        for name, value in {"reward_before": report.reward_before, "reward": report.reward}.items()
    }
    counts = {"episodes": report.episodes, "rescored": report.rescored, "graded": report.graded}
    row = {**counts, **means, "changed": console.counted(report.changed) or "nothing", "out": report.out}
    console.show({**console.plain(report), "ok": report.ok}, [row], as_json)
    if not as_json:
        for change in report.changes[:SHOWN_CHANGES]:
            print(f"{change['episode_id']} {change['task_id']}: {', '.join(change['changes'])}")
        if len(report.changes) > SHOWN_CHANGES:
            print(f"and {len(report.changes) - SHOWN_CHANGES} others; --json prints all of them, before and after")
    if report.earlier:
        console.show_warning(f"{report.earlier} of {report.episodes} episodes were in {report.out} already")
    for place, cause in report.failures.items():
        console.show_error(f"{place}: {cause}; run the same command again to try it once more")
