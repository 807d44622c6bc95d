"""Files of JSON lines from which a command resumes, such as the ``episodes.jsonl`` of a run."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from ...errors import RunError, UnwritableRow, redact_paths
from ...models import Episode

FILE_NAME = "episodes.jsonl"
ROW_FIELDS = ("agent", "cause", "sample", "settings", "usage")
"""Fields of a line besides those of its Episode."""
Key = tuple[str, int]
"""A task's id, and the number of the sample."""


class Lines:
    """File to which JSON lines are appended; the first line creates it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Check that lines can be written. Raises RunError."""
        try:
            _try_writing(self.path)
        except OSError as error:
            raise RunError(f"cannot write to {self.path.parent}: {error.strerror}; choose another --out") from error
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, fields: Mapping[str, Any], episode: Episode | None = None) -> dict[str, Any]:
        """Append and return a row of these fields and those of the episode. Raises UnwritableRow."""
        row, line = row_and_line(fields, episode)
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab")
        self._file.write(line)
        self._file.flush()
        return row


def row_and_line(fields: Mapping[str, Any], episode: Episode | None) -> tuple[dict[str, Any], bytes]:
    """Return a row of these fields and those of the episode, and its line. Raises UnwritableRow."""
    try:
        row = {**fields, **(episode.model_dump(mode="json") if episode is not None else {})}
        return row, json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    except (ValueError, TypeError, RecursionError) as error:
        raise UnwritableRow(f"the episode cannot be written: {redact_paths(str(error))}") from None


def check_settings(place: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise RunError when the line at ``place`` was written with other settings than those of this command."""
    for name in {**before, **now}:
        old, new = (_as_option(name, settings.get(name)) for settings in (before, now))
        if old != new:
            raise RunError(f"{place} was played with {old}, not {new}; give the same, or choose another --out")


class Journal(Lines):
    """Rows of one agent's run: ``rows`` are all lines, ``done`` the valid episodes.

    Opening it compares ``settings`` with those of earlier lines and drops a last line that was cut off. Raises RunError
    for other settings and for a line that is not an episode.
    """

    def __init__(self, out: Path, agent: str, settings: Mapping[str, Any]) -> None:
        super().__init__(out / FILE_NAME)
        self.agent = agent
        self.settings = dict(settings)
        self.rows: list[dict[str, Any]] = []
        self.done: dict[Key, dict[str, Any]] = {}
        for number, line in enumerate(complete_lines(self.path), start=1):
            self._read(line, f"{self.path}:{number}")

    def _read(self, line: bytes, place: str) -> None:
        try:
            row = json.loads(line)
            agent, key, valid = str(row["agent"]), (row["task_id"], int(row["sample"])), bool(row["reward"]["valid"])
            settings, _ = dict(row["settings"]), dict(row["usage"])
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{place} is not an episode; remove the line, or choose another --out") from None
        if agent.partition(":")[0] != self.agent.partition(":")[0]:
            return
        check_settings(place, settings, self.settings)
        if agent == self.agent:
            self.rows.append(row)
            if valid:
                self.done[key] = row

    def add(self, about: Mapping[str, Any], episode: Episode) -> dict[str, Any]:
        """Write and return a finished episode's row, which starts with ``about`` (ROW_FIELDS). Raises UnwritableRow."""
        row = self.write(about, episode)
        self.rows.append(row)
        return row


def answers_file_of(out: Path) -> Path:
    """Return the file beside ``out`` that keeps a model's answers, so that none is paid for twice.

    Raises RunError, before any answer is paid for, when it cannot be written; its folder is made.
    """
    file = out.with_name(out.name + ".answers")
    if out.is_dir():
        raise RunError(f"cannot write to {out}: it is a folder; name a file with --out")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        existed = file.exists()
        file.open("ab").close()
        if not existed:
            file.unlink()
    except OSError as error:
        raise RunError(f"cannot write to {file}: {error.strerror}; choose another --out") from None
    return file


def _try_writing(file: Path) -> None:
    """Raise OSError when ``file`` could not be created or appended to. Leaves nothing behind."""
    if file.exists():
        file.open("ab").close()
        return
    missing = [folder for folder in file.parents if not folder.exists()]
    parent = missing[-1].parent if missing else file.parent
    if not parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if missing:  # /proc, for example, grants the right and has no room for a folder
        missing[-1].mkdir()
        missing[-1].rmdir()


def complete_lines(file: Path) -> list[bytes]:
    """Return the lines of a file, none when it does not exist; remove a last line that was cut off from the file."""
    if not file.is_file():
        return []
    data = file.read_bytes()
    lines = data.split(b"\n")[:-1]
    complete = b"".join(line + b"\n" for line in lines)
    if complete != data:
        file.write_bytes(complete)
    return lines


def _as_option(name: str, value: Any) -> str:
    """Return a setting as an option of the command line."""
    flag = "the model" if name == "model" else "--" + name.replace("_", "-")
    return f"no {flag}" if value is None else f"{flag} {value}"
