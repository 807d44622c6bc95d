"""Command ``plan``: what a training step costs."""

from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..options import Json
from ..progress import busy


def plan(
    source: Annotated[
        Path, typer.Argument(metavar="RECIPE.toml|config.json", help="A recipe, or the config.json of a model.")
    ],
    gpus: Annotated[int, typer.Option(help="Plan for N GPUs.", metavar="N")],
    gpu: Annotated[str, typer.Option(help="Use the figures of this GPU: h100, h200, b200 or gb300.")] = "h100",
    mesh: Annotated[
        str, typer.Option(help="Divide the model so, such as replicas=2,experts=8,context=2.", metavar="NAME=N,...")
    ] = "",
    assume: Annotated[
        list[str] | None, typer.Option("-o", help="Set KEY=VALUE in the assumptions, such as tokens=4e6; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print operations, memory, bytes, time and price of one training step; nothing is loaded or run."""
    from ...errors import RecipeError
    from .train import silence_libraries

    if not source.is_file():  # the libraries that read it take seconds to load
        raise RecipeError(f"{source} is not a file; name a recipe's TOML file, or the config.json of a model")
    silence_libraries()
    with busy("plan", "measuring the model's shapes"):
        from ...trainers.plan.hardware import GPUS
        from ...trainers.plan.page import plan_of, rows, table

        shapes, layout, assumptions, step = plan_of(source, gpus, gpu, mesh, assume or [])
    console.show(table(shapes, layout, assumptions, step), rows(shapes, layout, step, GPUS[gpu], assumptions), as_json)
    if not as_json:
        print("assumed: " + ", ".join(f"{name}={value:g}" for name, value in vars(assumptions).items()))
