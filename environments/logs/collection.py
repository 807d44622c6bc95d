"""The files that a command names: each recognised by its content, in folders too, with the files that belong to it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ...errors import LogError
from . import LOG_FORMATS
from .log_file import LogFile
from .record import LogFormat

SUFFIXES = frozenset((".json", ".jsonl", ".ndjson", ".eval"))
"""Endings of the files in a folder that may be logs."""
MAX_FILES = 20_000
"""Files of one folder that are looked at."""


@dataclass(frozen=True)
class RecognisedLog:
    """A file whose format is known."""

    log: LogFile
    name: str
    format: LogFormat


def logs_of(path: Path, name: str = "") -> list[RecognisedLog]:
    """Return the logs at a path, in the format ``name``, or in the one that their content shows.

    In a folder, files of no format are left out; so is what lies beside a trajectory of Harbor, which holds the same
    episode. Raises LogError when there is none, and UnknownName.
    """
    if not path.exists():
        raise LogError(f"{path} does not exist; name a file or a folder of logs")
    if not path.is_dir():
        return _with_companions(_recognised(path, name))
    logs: list[RecognisedLog] = []
    for file in islice(_files(path), MAX_FILES):
        try:
            logs.append(_recognised(file, name, is_named=False))
        except LogError:
            continue
    if not logs:
        raise LogError(f"{path} holds no log of a known format; see `etude list log-formats`")
    trials = {entry.log.path.parent for entry in logs if entry.name == "atif"}
    return [entry for entry in logs if entry.name == "atif" or trials.isdisjoint(entry.log.path.parents)]


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(place, name) for name in sorted(names) if Path(name).suffix in SUFFIXES)


def _recognised(path: Path, name: str, *, is_named: bool = True) -> RecognisedLog:
    """Return a file with the format ``name``, whose content decides too unless the file itself was named."""
    log = LogFile.open(path)
    try:
        for candidate in [name] if name else LOG_FORMATS.names_in_order():
            log_format: LogFormat = LOG_FORMATS.load(candidate)
            if (name and is_named) or log_format.matches(log):
                return RecognisedLog(log, candidate, log_format)
        problem = f"is not a log: {log.broken[0]}" if log.broken and not log.sample() else "has no known format"
        raise LogError(f"{path} {problem}; name one with --format, see `etude list log-formats`")
    finally:
        log.forget()


def _with_companions(main: RecognisedLog) -> list[RecognisedLog]:
    """Return a log and the other files of the same log."""
    others: Sequence[Path] = main.format.companions(main.log.path)
    return [main, *(RecognisedLog(LogFile.open(path), main.name, main.format) for path in others if path.is_file())]
