"""The command ``redteam``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import console
from ..options import Jobs, Json, Sandbox, tasks_of
from ..progress import progress_bar

if TYPE_CHECKING:
    from ...environments.redteam.attempt import Attempt
    from ...environments.runs.play import Progress
    from ...monitors.exploits import Exploit


def redteam(
    target: Annotated[
        str, typer.Argument(metavar="DIR|URL", help="Attack this folder, hub:USER/NAME@REVISION or running server.")
    ],
    only: Annotated[
        str, typer.Option(metavar="ID,...", help="Play only these exploits; see `etude list exploits`.")
    ] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Attack only the first N tasks; default: all.")
    ] = None,
    twins: Annotated[
        bool, typer.Option("--twins", help="Also play the honest twin of each exploit, which must score 1.")
    ] = False,
    jobs: Jobs = 1,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Play the exploit corpus against tasks and print what was rewarded and what was detected, by class."""
    import asyncio

    from ...environments.redteam import campaign, matrix

    exploits = campaign.chosen(only)
    is_url = "://" in target
    if is_url and twins:
        raise typer.BadParameter(
            "a server does not give its solutions; give the task set's folder", param_hint="--twins"
        )
    if is_url and sandbox != "auto":
        raise typer.BadParameter("a server chooses its own; leave it out", param_hint="--sandbox")
    with progress_bar("redteam") as progress:
        attempts: list[Attempt] = asyncio.run(
            _at_server(target, exploits, limit, jobs, progress)
            if is_url
            else _on_set(target, exploits, limit, twins, jobs, sandbox, progress)
        )
    console.show(matrix.as_data(attempts), matrix.table(attempts), as_json)
    for remark in matrix.remarks(attempts):
        console.show_warning(remark)
    console.exit_unless(matrix.is_ok(attempts))


async def _at_server(
    url: str, exploits: "list[Exploit]", limit: int | None, jobs: int, progress: "Progress"
) -> "list[Attempt]":
    from ...environments.redteam import campaign

    targets = await campaign.targets_at(url, limit)
    return await campaign.run(targets, exploits, campaign.connections(url), jobs=jobs, progress=progress)


async def _on_set(
    folder: str,
    exploits: "list[Exploit]",
    limit: int | None,
    twins: bool,
    jobs: int,
    sandbox: str,
    progress: "Progress",
) -> "list[Attempt]":
    from ...environments.redteam import campaign

    tasks = tasks_of(Path(folder))
    targets, opener = campaign.targets_of(tasks, limit), campaign.sessions(tasks, sandbox)
    return await campaign.run(targets, exploits, opener, twins=twins, jobs=jobs, progress=progress)
