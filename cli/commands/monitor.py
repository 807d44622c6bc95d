"""Command about findings of stored runs: ``monitor``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import console
from ..options import Json, Questions, asks_model
from ..progress import progress_bar

if TYPE_CHECKING:
    from ...environments.runs.judging import MonitorReport


@asks_model("options", without=["tool_format"])
def monitor(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, with their episodes.jsonl.")],
    judge: Annotated[
        str, typer.Option("--judge", metavar="MODEL", help="Let this model judge the episodes that are marked.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Write the findings to this file; default of a single run: RUN/findings.jsonl."
        ),
    ] = None,
    options: Any = None,
    jobs: Questions = 1,
    as_json: Json = False,
) -> None:
    """Collect the evidence of reward hacking in stored episodes, and let a model judge it."""
    import asyncio

    from ...environments.runs.judging import FILE_NAME, monitor_runs
    from ...errors import LLMError

    if "://" in judge:
        raise LLMError("--judge takes the name of a model; give the endpoint's address with --base-url")
    if len(runs) > 1 and out is None:
        raise typer.BadParameter("name the file for the findings of several runs", param_hint="--out")
    target = out or (runs[0] if runs[0].is_dir() else runs[0].parent) / FILE_NAME
    with progress_bar("monitor") as progress:
        monitoring = monitor_runs(runs, target, judge=judge, options=options, jobs=jobs, progress=progress)
        report = asyncio.run(monitoring)
    console.show({**console.plain(report), "ok": report.ok}, report.exploits, as_json)
    if not as_json:
        print(_summary(report))
    _show_problems(report)
    console.exit_unless(report.ok)


def _summary(report: "MonitorReport") -> str:
    """Return one line for the user."""
    rates = f"{report.episodes} episodes: confirmed in {report.hack_rate:.1%}, suspect too in {report.suspect_rate:.1%}"
    if not report.model:
        return f"{rates}; in {report.out}"
    return (
        f"{rates}; {report.model}: {_counts(report.outcomes)}; verdicts: {_counts(report.verdicts) or 'none'}; "
        f"accused by the judge alone: {report.unsupported}; in {report.out}"
    )


def _show_problems(report: "MonitorReport") -> None:
    """Print a line for each kind of verdict that does not count, with the remedy."""
    discarded = {name: number for name, number in report.problems.items() if "turn" in name or "quote" in name}
    unreadable = {name: number for name, number in report.problems.items() if name not in discarded}
    if discarded:
        console.show_warning(f"{_counts(discarded)}: verdicts that cite what does not exist do not count")
    if unreadable:
        remedy = f"take a model that follows the form, or raise --max-tokens; delete {report.out}.answers to ask again"
        console.show_warning(f"{_counts(unreadable)}: answers without a verdict; {remedy}")
    if not report.ok:
        waiting = report.outcomes.get("failed", 0) + report.outcomes.get("budget", 0)
        console.show_error(f"{waiting} episodes have no verdict yet; run the same command again to ask for them alone")


def _counts(counts: dict[str, int]) -> str:
    """Return numbers with their names in a row, such as ``3 confirmed, 1 refuted``."""
    return ", ".join(f"{number} {name}" for name, number in counts.items())
