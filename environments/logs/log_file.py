"""A log as a file of JSON values: one value, lines of JSON, or a zip archive of JSON files, read within limits.

A line that is not JSON is counted and described in ``broken``; the other lines are still read. Numbers that are not
finite become None.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from ...errors import LogError
from .archive import archived_values, is_archive

MAX_LINE = 64 << 20
"""Bytes of one line."""
MAX_JSON = 256 << 20
"""Bytes of a file that is one JSON value."""
SAMPLE = 64
"""Entries that are read to recognise a format."""
ARCHIVE_SAMPLE = 2
"""The same in an archive, whose entries are whole files."""
MAX_BROKEN = 1000
"""Broken lines that are described; a file with more of them is not read further."""


@dataclass(frozen=True)
class Entry:
    """One JSON value and its place in the file, such as ``line 3``."""

    place: str
    value: Any


@dataclass
class LogFile:
    """A file that may be a log. Raises LogError from ``open`` and ``entries``."""

    path: Path
    layout: Literal["value", "lines", "archive"]
    broken: list[str] = field(default_factory=list)
    """Descriptions of what the last call of ``entries`` could not read, each with its place."""
    _sample: list[Any] | None = None
    """Values that were read for recognising the format, until ``forget``."""

    @classmethod
    def open(cls, path: Path) -> LogFile:
        """Return the file with its layout, which is found out from the content. Raises LogError."""
        try:
            if is_archive(path):
                return cls(path, "archive")
            with path.open("rb") as source:
                first = _first_line(source)
                has_more = bool(_first_line(source))
            if first and (not has_more or _parsed(first)[1] == ""):
                return cls(path, "lines")
            if path.stat().st_size <= MAX_JSON:
                value, problem = _parsed(path.read_bytes())
                if not problem:
                    return cls(path, "value", _sample=[value])
        except OSError as error:
            raise LogError(f"cannot read {path}: {error.strerror}; name a file or a folder of logs") from None
        return cls(path, "lines")

    def entries(self) -> Iterator[Entry]:
        """Yield the JSON values of the file; what cannot be read is listed in ``broken``. Raises LogError."""
        self.broken.clear()
        try:
            if self.layout == "value":
                yield Entry("the file", _parsed(self.path.read_bytes())[0])
            elif self.layout == "archive":
                for place, data in archived_values(self.path):
                    yield from self._entry(place, data)
            else:
                yield from self._lines()
        except OSError as error:
            raise LogError(f"cannot read {self.path}: {error.strerror or error}") from None

    def sample(self) -> list[Any]:
        """Return the first values, for recognising a format; they are kept until ``forget``. Raises LogError."""
        if self._sample is None:
            most = ARCHIVE_SAMPLE if self.layout == "archive" else SAMPLE
            self._sample = [entry.value for entry in islice(self.entries(), most)]
        return self._sample

    def forget(self) -> None:
        """Release the values of ``sample``, so that many files can be known at the same time."""
        self._sample = None

    def _lines(self) -> Iterator[Entry]:
        with self.path.open("rb") as source:
            number = 0
            while line := source.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    while line and not line.endswith(b"\n"):
                        line = source.readline(MAX_LINE)
                    self._note(f"{self.path}:{number} is longer than {MAX_LINE >> 20} MiB")
                elif line.strip():
                    yield from self._entry(f"line {number}", line)

    def _entry(self, place: str, data: bytes) -> Iterator[Entry]:
        value, problem = _parsed(data)
        if problem:
            self._note(f"{self.path}:{place.removeprefix('line ')} is not JSON ({problem})")
        else:
            yield Entry(place, value)

    def _note(self, text: str) -> None:
        self.broken.append(text)
        if len(self.broken) > MAX_BROKEN:
            raise LogError(f"{self.path} has more than {MAX_BROKEN} broken lines, the first: {self.broken[0]}")


def _first_line(source: IO[bytes]) -> bytes:
    """Return the next line that is not blank, at most MAX_LINE bytes of it; empty at the end of the file."""
    while line := source.readline(MAX_LINE):
        if line.strip():
            return line
    return b""


def _parsed(data: bytes) -> tuple[Any, str]:
    """Return the JSON value and an empty text, or None and what is wrong."""
    try:
        text = data.decode("utf-8-sig")
        return json.loads(text, parse_constant=lambda name: None, parse_float=_finite), ""
    except UnicodeDecodeError:
        return None, "it is not UTF-8 text"
    except RecursionError:
        return None, "it is nested too deeply"
    except json.JSONDecodeError as error:
        return None, f"{error.msg} at line {error.lineno} column {error.colno}" if error.lineno > 1 else error.msg
    except ValueError:
        return None, "a number is too long"


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
