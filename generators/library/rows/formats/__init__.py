"""Readers of public row formats: one module per format, registered by name; ``loading`` opens files and the Hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .....errors import RowError
from .....registry import Registry
from ..instance import Instance
from .fields import Format
from .loading import open_rows

FORMATS = Registry(
    "row format",
    "etude.rows",
    {
        "harbor": ".generators.library.rows.formats.harbor:FORMAT",
        "nemotron": ".generators.library.rows.formats.nemotron:FORMAT",
        "r2e-gym": ".generators.library.rows.formats.r2e_gym:FORMAT",
        "swe-bench": ".generators.library.rows.formats.swe_bench:FORMAT",
        "swe-gym": ".generators.library.rows.formats.swe_gym:FORMAT",
        "swe-rebench": ".generators.library.rows.formats.swe_rebench:FORMAT",
        "swe-smith": ".generators.library.rows.formats.swe_smith:FORMAT",
    },
)
"""A format is a ``Format``: it recognises rows, and reads one into an Instance."""


@dataclass
class Read:
    """The instances of a source."""

    instances: list[Instance] = field(default_factory=list)
    """In the order of the rows; identifiers are unique."""
    skipped: list[str] = field(default_factory=list)
    """What was left out, one line per reason with the number of rows."""
    format: str = ""
    """Name of the format that the rows have."""

    @property
    def lacks(self) -> list[str]:
        """Return what the rows do not give, one line per kind with the number of instances."""
        counts = Counter(line for instance in self.instances for line in dict.fromkeys(instance.lacks))
        return [f"{count} of {len(self.instances)} rows: {line}" for line, count in counts.most_common()]


def read_instances(
    source: str,
    *,
    split: str | None = None,
    limit: int | None = None,
    format: str | None = None,  # noqa: A002
) -> Read:
    """Read the rows of a file, a folder, ``hub:USER/NAME[@REVISION]`` or a short name such as ``swe-bench:lite``.

    ``split`` defaults to the only one, else to ``test``; ``limit`` counts instances; ``format`` is recognised from the
    first row unless it is named. Raises RowError for a source or row that cannot be read, UnknownName for a format.
    """
    if limit is not None and limit < 1:
        raise RowError(f"limit must be at least 1, got {limit}; leave it out to read every row")
    opened = open_rows(source, split, limit)
    read = Read(format=format or opened.format)
    reader: Format | None = FORMATS.load(read.format) if read.format else None
    places: dict[str, str] = {}
    left_out = Counter[str]()
    for place, row in opened.rows:
        if reader is None:
            read.format = recognise(row, place)
            reader = FORMATS.load(read.format)
        if reason := _checked(reader, read.format, row, place).leaves_out(row):
            left_out[reason] += 1
            continue
        instance = reader.read(row, place)
        if instance.instance_id in places:
            raise RowError(
                f"{place} repeats the instance_id {instance.instance_id!r} of {places[instance.instance_id]}; "
                "remove one of the two rows"
            )
        places[instance.instance_id] = place
        read.instances.append(instance if instance.dataset else replace(instance, dataset=opened.name))
        if limit is not None and len(read.instances) >= limit:
            break
    total = len(read.instances) + left_out.total()
    read.skipped = [f"{count} of {total} rows left out: {reason}" for reason, count in left_out.most_common()]
    if not read.instances:
        reasons = "; ".join(read.skipped) or "it is empty"
        raise RowError(f"{source} has no row that can become a task ({reasons}); name another data set or split")
    return read


def recognise(row: Mapping[str, Any], place: str) -> str:
    """Return the name of the format that a row has. Raises RowError when none or several recognise it."""
    names = [name for name in FORMATS.names() if FORMATS.load(name).recognises(row)]
    if len(names) == 1:
        return names[0]
    columns = ", ".join(list(row)[:12]) or "none"
    if names:
        raise RowError(f"{place} may be {' or '.join(names)}; name the format with --format")
    raise RowError(
        f"{place} has no row format that is known here (its columns: {columns}); name one of "
        f"{', '.join(FORMATS.names())} with --format, or rename the columns to SWE-bench's"
    )


def _checked(reader: Format, name: str, row: Mapping[str, Any], place: str) -> Format:
    """Return the reader. Raises RowError when only one of row and format is a Harbor folder."""
    if ("task.toml" in row) != (name == "harbor"):
        kind = "a Harbor task folder" if "task.toml" in row else "not a Harbor task folder"
        raise RowError(f"{place} is {kind}, but the format is {name}; leave --format out")
    return reader
