"""What runs have stored: their lines, read as episodes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ...environments.runs.writer import FILE_NAME, ROW_FIELDS
from ...errors import ReportError
from ...models import Episode


@dataclass(frozen=True)
class Stored:
    """One line of a run; ``cause`` says why an episode that is not valid is not."""

    run: str
    agent: str
    cause: str
    sample: int
    episode: Episode


def read_runs(runs: Sequence[Path]) -> Iterator[Stored]:
    """The episodes of the runs' folders, or of their files, in the order in which they were played.

    A last line that was cut off, of a run that goes on, is left out. Raises ReportError for a folder without episodes
    and for a line that is no episode.
    """
    for run in runs:
        file = run / FILE_NAME if run.is_dir() else run
        try:
            with file.open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.endswith(b"\n"):
                        yield _stored(line, str(run), f"{file}:{number}")
        except OSError as error:
            raise ReportError(f"cannot read {file}: {error.strerror}; `etude run --out {run}` plays episodes") from None


def _stored(line: bytes, run: str, place: str) -> Stored:
    try:
        row = json.loads(line)
        episode = Episode.model_validate({name: value for name, value in row.items() if name not in ROW_FIELDS})
        return Stored(run, str(row["agent"]), str(row["cause"]), int(row["sample"]), episode)
    except (ValidationError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ReportError(f"{place} is no episode: remove the line, or play the run again") from None
