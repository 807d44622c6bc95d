"""Files of a replay: the pairs, the log of turns, and the answers that a replay which was cut short resumes with.

The file of pairs and the log get their names only when they are complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from ...errors import ReplayError
from .settings import ReplaySettings


def log_of(out: Path) -> Path:
    """Return the path of the log of turns, beside the file of pairs."""
    return out.with_name(out.name + ".turns.jsonl")


def answers_of(out: Path) -> Path:
    """Return the folder of the answers that an interrupted replay resumes with."""
    return out.with_name(out.name + ".answers")


def with_cassettes(settings: ReplaySettings, out: Path) -> ReplaySettings:
    """Give each teacher without a cassette one in ``answers_of(out)``.

    Raises ReplayError for a cassette at a path where the replay is to write.
    """
    folder = answers_of(out)
    for teacher in settings.teachers:
        if teacher.cassette and Path(teacher.cassette).resolve() in (out.resolve(), log_of(out).resolve()):
            raise ReplayError(f"{out} would overwrite the cassette of {teacher.name}; choose another --out")
    teachers = []
    for teacher in settings.teachers:
        cassette = teacher.cassette or str(folder / f"{quote(teacher.name, safe='')}.jsonl")
        teachers.append(teacher.model_copy(update={"cassette": cassette}))
    return settings.model_copy(update={"teachers": tuple(teachers)})


def forget_answers(out: Path) -> None:
    """Remove the answers of a complete replay."""
    shutil.rmtree(answers_of(out), ignore_errors=True)


def check_new(out: Path) -> None:
    """Raise ReplayError when a file to be written exists already."""
    if out.is_dir():
        raise ReplayError(f"{out} is a folder; choose another --out")
    for path in (out, log_of(out)):
        if path.exists():
            raise ReplayError(f"{path} exists already; remove it, or choose another --out")


@contextmanager
def new_files(out: Path) -> Iterator[tuple[IO[str], IO[str]]]:
    """Open the file of pairs and the log of turns; after an error neither exists. Raises ReplayError."""
    check_new(out)
    parts = {path: path.with_name(path.name + ".part") for path in (log_of(out), out)}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        turns, pairs = (part.open("w", encoding="utf-8") for part in parts.values())
    except OSError as error:
        raise ReplayError(f"cannot write to {out}: {error.strerror}; choose another --out") from error
    try:
        with pairs, turns:
            yield pairs, turns
        for path, part in parts.items():
            os.replace(part, path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def write_row(file: IO[str], row: Mapping[str, Any]) -> None:
    """Write one JSON line and flush it."""
    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    file.flush()
