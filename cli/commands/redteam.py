"""The command ``redteam``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import console
from ..options import Jobs, Json, Sandbox, names_of, sigterm_interrupts, tasks_of
from ..progress import Progress, progress_bar

if TYPE_CHECKING:
    from ...environments.redteam.attempt import Attempt
    from ...environments.runs.unfinished import Unfinished


def redteam(
    target: Annotated[
        str, typer.Argument(metavar="DIR|URL", help="Attack this folder, hub:USER/NAME@REVISION or running server.")
    ],
    only: Annotated[
        str | None,
        typer.Option(
            metavar="ID,...",
            autocompletion=names_of("exploits"),
            help="Play only these exploits; see `etude list exploits`.",
        ),
    ] = None,
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
    from ...environments.runs.unfinished import Unfinished

    exploits = campaign.chosen(only)
    is_url = "://" in target
    if is_url and twins:
        raise typer.BadParameter(
            "a server does not give its solutions; give the task set's folder", param_hint="--twins"
        )
    if is_url and sandbox != "auto":
        raise typer.BadParameter("a server chooses its own; leave it out", param_hint="--sandbox")

    async def attack(progress: Progress) -> "tuple[list[Attempt], Unfinished]":
        if is_url:
            targets, opener = await campaign.targets_at(target, limit), campaign.connections(target)
            rows = [target, *map(repr, targets)]
        else:
            task_set = tasks_of(Path(target))
            targets, opener = campaign.targets_of(task_set, limit), campaign.sessions(task_set, sandbox)
            rows = [sandbox, *(task_set.by_id(one.task_id).model_dump_json() for one in targets)]
        retained = Unfinished("redteam", str(twins), *(one.id for one in exploits), *rows)
        playing = campaign.run(
            targets, exploits, opener, twins=twins, jobs=jobs, progress=progress, unfinished=retained
        )
        return await playing, retained

    with sigterm_interrupts(), progress_bar("redteam") as progress:
        attempts, unfinished = asyncio.run(attack(progress))
    if not any(one.cause for one in attempts):
        unfinished.finish()
    console.show(matrix.as_data(attempts), matrix.table(attempts), as_json)
    if unfinished.earlier:
        console.show_warning(f"{unfinished.earlier} of {len(attempts)} attempts were made by an earlier command")
    for remark in matrix.remarks(attempts):
        console.show_warning(remark)
    console.exit_unless(matrix.is_ok(attempts))
