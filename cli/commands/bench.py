"""Command ``bench``: Etude beside other projects."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..options import Json
from ..progress import progress_bar


def bench(
    peers: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Measure these beside Etude: swe-rex, mini-swe-agent, inspect, verifiers, openenv; default: all, "
            "'' for none.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Repeat each action N times; default: 20.")] = 20,
    files: Annotated[int, typer.Option(min=1, metavar="N", help="Use a workspace of N files of 10 kB.")] = 200,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write bench.json, bench.md and bench.svg to this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Time sandboxes and steps of Etude and of other projects, each in a separate environment in the cache."""
    from ..bench.campaign import left_out, measured, saved
    from ..bench.projects import chosen
    from ..bench.table import results

    names = chosen(peers)
    if out is not None:
        _check(out)  # an error at the end would lose what was measured
    with progress_bar("bench") as progress:
        rows = results(measured(names, rounds, files, progress))
    for side in left_out(names):
        console.show_warning(f"{side} was not measured: docker does not work here; `etude doctor` says why")
    if out is not None:
        saved(rows, out)
    columns = [
        {
            "action": row.measure,
            "project": row.name,
            "isolation": row.isolation,
            "median_ms": round(row.median_ms, 2),
            "ratio_to_etude": None if row.ratio is None else round(row.ratio, 2),
            "times": row.number,
        }
        for row in rows
    ]
    console.show([asdict(row) for row in rows], columns, as_json)


def _check(out: Path) -> None:
    """Raise BadParameter when the results cannot be written."""
    from ...environments.snapshots.store.cache import check_writable

    try:
        check_writable(out)
    except OSError as error:
        problem = f"cannot write to {out}: {error.strerror}; choose another folder"
        raise typer.BadParameter(problem, param_hint="--out") from None
