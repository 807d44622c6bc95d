"""The file of a run, ``OUT/episodes.jsonl``: one line per finished episode, read again by the run that goes on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from ...errors import RunError, UnwritableRow, redact_paths
from ...models import Episode

FILE_NAME = "episodes.jsonl"
ROW_FIELDS = ("agent", "cause", "sample", "settings", "usage")
"""What a line holds besides its Episode."""
Key = tuple[str, int]
"""A task's id and the number of the sample."""


class Journal:
    """The rows of one agent's run. ``rows`` are every line, ``done`` the valid episodes.

    Opening it checks ``settings`` against those of earlier lines, and drops a last line that was cut off. Raises
    RunError for other settings and for a line that is no episode.
    """

    def __init__(self, out: Path, agent: str, settings: Mapping[str, Any]) -> None:
        self.out = out
        self.agent = agent
        self.settings = dict(settings)
        self.rows: list[dict[str, Any]] = []
        self.done: dict[Key, dict[str, Any]] = {}
        self._file: IO[bytes] | None = None
        for number, line in enumerate(whole_lines(out / FILE_NAME), start=1):
            self._read(line, f"{out / FILE_NAME}:{number}")

    def _read(self, line: bytes, place: str) -> None:
        try:
            row = json.loads(line)
            agent, key, valid = str(row["agent"]), (row["task_id"], int(row["sample"])), bool(row["reward"]["valid"])
            settings, _ = dict(row["settings"]), dict(row["usage"])
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{place} is no episode: remove the line, or choose another --out") from None
        if agent.partition(":")[0] != self.agent.partition(":")[0]:
            return
        for name in {**settings, **self.settings}:
            was, now = (_said(name, each.get(name)) for each in (settings, self.settings))
            if was != now:
                raise RunError(f"{place} was played with {was}, not {now}: give the same, or choose another --out")
        if agent == self.agent:
            self.rows.append(row)
            if valid:
                self.done[key] = row

    def __enter__(self) -> Journal:
        """Raises RunError when rows could not be written; the file is made by the first one."""
        try:
            _try_writing(self.out / FILE_NAME)
        except OSError as error:
            raise RunError(f"cannot write to {self.out}: {error.strerror}; choose another --out") from error
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, about: Mapping[str, Any], episode: Episode) -> dict[str, Any]:
        """Write a finished episode's line, with ``about`` (ROW_FIELDS) before it; returns it. Raises UnwritableRow."""
        try:
            row = {**about, **episode.model_dump(mode="json")}
            line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        except (ValueError, TypeError, RecursionError) as error:
            raise UnwritableRow(f"the episode cannot be written: {redact_paths(str(error))}") from None
        if self._file is None:
            self.out.mkdir(parents=True, exist_ok=True)
            self._file = (self.out / FILE_NAME).open("ab")
        self._file.write(line)
        self._file.flush()
        self.rows.append(row)
        return row


def _try_writing(file: Path) -> None:
    """Raises OSError where ``file`` could not be made or gone on with. Leaves nothing behind."""
    if file.exists():
        file.open("ab").close()
        return
    there = next(folder for folder in file.parents if folder.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def whole_lines(file: Path) -> list[bytes]:
    """The lines of a file, none when it is not there; a last one that was cut off is removed from it."""
    if not file.is_file():
        return []
    data = file.read_bytes()
    lines = data.split(b"\n")[:-1]
    whole = b"".join(line + b"\n" for line in lines)
    if whole != data:
        file.write_bytes(whole)
    return lines


def _said(name: str, value: Any) -> str:
    """A setting as it is given on the command line."""
    flag = "the model" if name == "model" else "--" + name.replace("_", "-")
    return f"no {flag}" if value is None else f"{flag} {value}"
