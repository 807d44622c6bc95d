"""Where rows come from: files and folders (``files``), the Hub (``hub``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ......errors import RowError
from ......registry import did_you_mean
from . import files, hub

SHORT_NAMES = {
    "swe-bench:lite": "SWE-bench/SWE-bench_Lite",
    "swe-bench:verified": "SWE-bench/SWE-bench_Verified",
    "swe-bench:full": "SWE-bench/SWE-bench",
    "swe-bench:multilingual": "SWE-bench/SWE-bench_Multilingual",
    "swe-gym:full": "SWE-Gym/SWE-Gym",
    "swe-gym:lite": "SWE-Gym/SWE-Gym-Lite",
    "swe-smith:py": "SWE-bench/SWE-smith-py",
    "swe-smith:full": "SWE-bench/SWE-smith",
    "r2e-gym:subset": "R2E-Gym/R2E-Gym-Subset",
    "r2e-gym:lite": "R2E-Gym/R2E-Gym-Lite",
    "r2e-gym:full": "R2E-Gym/R2E-Gym-V1",
    "swe-rebench:full": "nebius/SWE-rebench",
    "swe-rebench:leaderboard": "nebius/SWE-rebench-leaderboard",
    "swe-rebench:v2": "nebius/SWE-rebench-V2",
}
"""Short name -> data set on the Hub; the part before the colon is the format."""


@dataclass(frozen=True)
class Rows:
    """Rows in their order, each with its place."""

    name: str
    """Name of the data set."""
    rows: Iterable[tuple[str, Mapping[str, Any]]]
    """Place and columns of each row. Iterating raises RowError."""
    format: str = ""
    """The format that the source is known to have; empty when the rows show it."""


def is_data_set(source: str) -> bool:
    """Return whether a source names rows of the Hub rather than code: ``swe-bench:lite``, ``hub:USER/NAME``."""
    return source.startswith("hub:") or source.partition("@")[0] in SHORT_NAMES


def open_rows(source: str, split: str | None, limit: int | None) -> Rows:
    """Return the rows of a source; nothing beyond ``limit`` rows needs to be loaded. Raises RowError."""
    if source.startswith("hub:"):
        name, _, revision = source.removeprefix("hub:").partition("@")
        return Rows(name.rpartition("/")[2], hub.rows(name, revision, split, limit))
    short, _, revision = source.partition("@")
    if short in SHORT_NAMES:
        name = SHORT_NAMES[short]
        return Rows(name.rpartition("/")[2], hub.rows(name, revision, split, limit), short.partition(":")[0])
    path = Path(source)
    if path.exists():
        return Rows(path.resolve().stem if path.is_file() else path.resolve().name, files.rows(path, split))
    if ":" in source and "/" not in source:
        raise RowError(did_you_mean("data set", source, SHORT_NAMES))
    raise RowError(
        f"{source} does not exist; name a file, a folder, hub:USER/NAME or a data set such as swe-bench:lite"
    )
