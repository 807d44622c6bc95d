"""The files of a replay: they take their names when they are whole; until then its answers are kept beside them."""

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
    """The file of turns beside the file of pairs."""
    return out.with_name(out.name + ".turns.jsonl")


def answers_of(out: Path) -> Path:
    """The folder of answers that a replay which was cut short goes on with."""
    return out.with_name(out.name + ".answers")


def with_cassettes(settings: ReplaySettings, out: Path) -> ReplaySettings:
    """A cassette in ``answers_of(out)`` for each teacher without one of its own. Raises ReplayError for one where
    pairs are to be written."""
    folder = answers_of(out)
    for one in settings.teachers:
        if one.cassette and Path(one.cassette).resolve() in (out.resolve(), log_of(out).resolve()):
            raise ReplayError(f"{out} would be written over the cassette of {one.name}: choose another --out")
    kept = [
        one if one.cassette else one.model_copy(update={"cassette": str(folder / f"{quote(one.name, safe='')}.jsonl")})
        for one in settings.teachers
    ]
    return settings.model_copy(update={"teachers": tuple(kept)})


def forget_answers(out: Path) -> None:
    """Once they have become what they are for: nothing goes on with them."""
    shutil.rmtree(answers_of(out), ignore_errors=True)


def check_new(out: Path) -> None:
    """Raises ReplayError where something is."""
    if out.is_dir():
        raise ReplayError(f"{out} is a folder: choose another --out")
    for path in (out, log_of(out)):
        if path.exists():
            raise ReplayError(f"{path} is there already: remove it, or choose another --out")


@contextmanager
def written(out: Path) -> Iterator[tuple[IO[str], IO[str]]]:
    """The file of pairs and that of turns, both new; after an error there is neither. Raises ReplayError."""
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


def write(file: IO[str], row: Mapping[str, Any]) -> None:
    """A line, at once."""
    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    file.flush()
