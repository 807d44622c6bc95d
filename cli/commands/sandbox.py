"""Commands of ``etude sandbox``: ``check``, ``cleanup`` and ``shell``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..options import Json, Sandbox
from ..progress import progress_bar

sandboxes = typer.Typer(no_args_is_help=True, help="Check the sandboxes, remove what they left, or open one.")


@sandboxes.command("check")
def check(
    backends: Annotated[list[str] | None, typer.Argument(help="Check these backends; default: all configured.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Check all configured ones, as without a name.")] = False,
    runtime: Annotated[str, typer.Option(help="Let docker use this container runtime, such as runsc.")] = "",
    times: Annotated[
        bool, typer.Option("--times", help="Also measure times, with plain docker and bwrap for comparison.")
    ] = False,
    native: Annotated[bool, typer.Option("--native", help="Also try the escapes without a sandbox.")] = False,
    tasks: Annotated[Path | None, typer.Option(help="With --times, also grade tasks of this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Run the conformance suite on the backends and print one row for each."""
    from ...environments.grading.timing import grader_of
    from ...environments.sandbox.conformance import check_backends as checking

    if runtime:
        os.environ["ETUDE_DOCKER_RUNTIME"] = runtime
    with progress_bar("check") as progress:
        names = [] if everything else backends or []
        results = checking.check(names, times=times, grader=grader_of(tasks), progress=progress)
    plain = checking.plain_costs() if times else {}
    rows = checking.as_rows(results, plain)
    if native:
        compared = checking.without_sandbox()
        rows.append({name: compared.get(name) for name in rows[0]})
    console.show(checking.as_data(results, plain), rows, as_json)
    console.exit_unless(checking.is_ok(results))


@sandboxes.command("cleanup")
def cleanup(as_json: Json = False) -> None:
    """Remove containers and folders that dead servers left."""
    from ...environments.sandbox.conformance.check_backends import clean_up

    removed = clean_up()
    rows = [{"backend": backend, "removed": ", ".join(names) or "nothing"} for backend, names in removed.items()]
    console.show(removed, rows, as_json)


@sandboxes.command("shell")
def shell(
    task: Annotated[str, typer.Argument(help="Id of a task.")],
    tasks: Annotated[Path, typer.Option(help="Read the task from this folder.")] = Path("tasks"),
    sandbox: Sandbox = "auto",
) -> None:
    """Open a prompt in a task's sandbox, with what its agent would see.

    Each line is a separate command: the working folder lasts, variables and background jobs do not. The sandbox is
    removed at the end.
    """
    import asyncio

    from ...environments.sandbox import open_sandbox
    from ...environments.sandbox.shell import converse, typed_lines
    from ...environments.tasks.task_set import TaskSet
    from ...environments.tasks.task_trees import materials

    task_set = TaskSet.load(tasks)
    layers = materials(task_set.by_id(task), blobs=task_set.blobs).agent_layers

    async def talk() -> int:
        opened = await open_sandbox(layers, backend=sandbox)
        try:
            return await converse(opened, typed_lines())
        finally:
            await opened.close()

    raise typer.Exit(asyncio.run(talk()))
