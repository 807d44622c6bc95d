"""The curves of a training run as numbers, for the viewer, which links a point to the episodes of its step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from .curves import Chart, sections
from .page import run_state, run_totals, warnings_of
from .run_files import METRICS, RECIPE, RESULT, read_run

MAX_POINTS = 2000
"""Points of one curve; of longer runs, every n-th step is shown."""


def run_series(folder: Path) -> Mapping[str, Any]:
    """Return the state, totals, warnings and curves of the run in ``folder``, as JSON. Raises TrainingRunError.

    A run that has not changed is not read again.
    """
    return _series(folder, tuple(_stamp(folder / name) for name in (METRICS, RECIPE, RESULT)))


@lru_cache(maxsize=64)
def _series(folder: Path, stamps: tuple[tuple[int, int], ...]) -> Mapping[str, Any]:
    run = read_run(folder)
    return {
        "name": run.name,
        "state": list(run_state(run)),
        "totals": [list(pair) for pair in run_totals(run)],
        "warnings": warnings_of(run),
        "steps": [row["step"] for row in run.rows],
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "about": section.about,
                "charts": [_chart(chart) for chart in section.charts],
                "constant": [list(pair) for pair in section.constant],
            }
            for section in sections(run)
        ],
    }


def _chart(chart: Chart) -> dict[str, Any]:
    return {
        "title": chart.title,
        "share": chart.share,
        "limit": chart.bound,
        "missing": chart.missing,
        "series": [
            {"name": one.name, "points": [list(point) for point in one.points[:: 1 + len(one.points) // MAX_POINTS]]}
            for one in chart.series
        ],
    }


def _stamp(file: Path) -> tuple[int, int]:
    """Return what changes when a file does."""
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
