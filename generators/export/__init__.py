"""Task sets and episodes in other formats: one module per format, registered by name."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...environments.snapshots.store.cache import write_whole
from ...environments.tasks.task_set import TaskSet
from ...errors import ExportError
from ...registry import Registry
from .expressible import refuse_episodes
from .folder_format import FolderFormat, write_folder

EXPORTS = Registry(
    "format",
    "etude.exports",
    {
        "nemo-gym": ".generators.export.nemo_gym:rows",
        "swe-bench": ".generators.export.swe_bench:rows",
        "sft": ".generators.export.sft:rows",
        "messages": ".generators.export.messages:rows",
        "swe-smith": ".generators.export.swe_smith:rows",
        "harbor": ".generators.export.harbor:FORMAT",
        "verifiers": ".generators.export.verifiers_set:FORMAT",
    },
)
"""A format is a FolderFormat, or a function of a TaskSet and the folder of a run (or None) that returns rows. It raises
ExportError."""


@dataclass
class ExportReport:
    """What was written."""

    format: str  # its registered name
    rows: int = 0  # their number
    files: list[str] = field(default_factory=list)  # their paths


def export(
    folder: Path,
    name: str,
    out: Path,
    *,
    episodes: Path | None = None,
    options: Mapping[str, str] | None = None,
) -> ExportReport:
    """Write ``out/NAME.jsonl``, and ``out/NAME.parquet`` for a table of text where pyarrow is installed.

    A format of folders writes ``out/NAME`` and takes ``options``. Each file is written atomically. The rows are pure
    ASCII, so that readers which split lines at Unicode's separators, such as swebench's loader, see the same lines.
    Raises UnknownName for the format, TaskSetError, ExportError.
    """
    format_ = EXPORTS.load(name)
    if isinstance(format_, FolderFormat):
        refuse_episodes(episodes, name)
        return _export_folder(folder, name, out, format_, options or {})
    if options:
        raise ExportError(f"the format {name} takes no options, got {next(iter(options))!r}; leave it out")
    rows = format_(TaskSet.load(folder), episodes)
    if not rows:
        raise ExportError(
            f"{episodes or folder} has nothing to export as {name}; name a run that solved tasks of this set"
        )
    data = "".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows).encode("ascii")
    files = {out / f"{name}.jsonl": data}
    if find_spec("pyarrow") and all(isinstance(value, str) for row in rows for value in row.values()):
        files[out / f"{name}.parquet"] = _parquet(rows)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            write_whole(path, content)
    except OSError as error:
        raise ExportError(f"cannot write to {out}: {error.strerror}; choose another --out") from error
    return ExportReport(name, len(rows), [str(path) for path in files])


def _export_folder(
    folder: Path, name: str, out: Path, format_: FolderFormat, options: Mapping[str, str]
) -> ExportReport:
    try:
        number = write_folder(format_, TaskSet.load(folder), out / name, options)
    except OSError as error:
        raise ExportError(f"cannot write to {out}: {error.strerror}; choose another --out") from error
    return ExportReport(name, number, [str(out / name)])


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), sink)
    return sink.getvalue()
