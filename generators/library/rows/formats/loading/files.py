"""Rows in files: JSON Lines, JSON, Parquet, folders of them, and Harbor task folders."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ......errors import RowError
from ..harbor import FILES

Placed = Iterator[tuple[str, Mapping[str, Any]]]
_SPLIT = re.compile(r"^(?P<split>\w+?)-\d{5}-of-\d{5}$")
_SPLIT_NAMES = ("train", "test", "dev", "validation", "val", "filtered")
_READ = (".jsonl", ".parquet", ".json")
_LARGEST = 1 << 20
"""Files of a Harbor task above this size are data of its tests, not text."""


def rows(path: Path, split: str | None) -> Placed:
    """Yield place and columns of each row of a file or folder. Raises RowError."""
    if path.is_file():
        if split is not None and _split_of(path) not in ("", split):
            raise RowError(f"{path} has no split {split!r} but {_split_of(path)!r}; leave --split out")
        yield from _file(path)
        return
    tasks = [path] if (path / "task.toml").is_file() else sorted(file.parent for file in path.glob("*/task.toml"))
    if tasks:
        for folder in tasks:
            yield str(folder), _harbor_task(folder)
        return
    for file in _files(path, split):
        yield from _file(file)


def _files(folder: Path, split: str | None) -> list[Path]:
    """Return the files of a folder that hold one split: the wanted one, else ``test``, the only one, or ``train``."""
    for suffix in _READ:
        candidates = sorted(
            file for file in folder.rglob(f"*{suffix}") if not file.name.startswith((".", "dataset_info"))
        )
        if candidates:
            break
    else:
        raise RowError(f"{folder} holds no rows; name a folder with .jsonl, .json or .parquet files or Harbor tasks")
    by_split: dict[str, list[Path]] = {}
    for file in candidates:
        by_split.setdefault(_split_of(file), []).append(file)
    named = [name for name in by_split if name]
    if not named and split is None:
        return candidates
    if chosen := choose_split(named, split):
        return by_split[chosen]
    names = ", ".join(sorted(named)) or "none by name"
    raise RowError(f"{folder} has no split {split or 'test'!r}; its splits are {names}: name one with --split")


def choose_split(names: list[str], requested: str | None) -> str:
    """Return the split to read; empty when it does not exist, or when the choice is open."""
    if requested is not None:
        return requested if requested in names else ""
    if len(names) == 1:
        return names[0]
    return next((name for name in ("test", "train") if name in names), "")


def _split_of(file: Path) -> str:
    if sharded := _SPLIT.match(file.stem):
        return sharded["split"]
    return file.stem if file.stem in _SPLIT_NAMES else ""


def _file(path: Path) -> Placed:
    reader = {".jsonl": _json_lines, ".json": _json, ".parquet": _parquet}.get(path.suffix)
    if reader is None:
        raise RowError(f"{path} is not a file of rows; name a .jsonl, .json or .parquet file")
    try:
        yield from reader(path)
    except OSError as error:
        raise RowError(f"{path} cannot be read ({error.strerror or error}); check the file") from error


def _json_lines(path: Path) -> Placed:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                place = f"{path}:{number}"
                yield place, _object(_parsed(line, place, "line"), place)


def _json(path: Path) -> Placed:
    values = _parsed(path.read_bytes(), str(path), "file")
    if not isinstance(values, list):
        raise RowError(f"{path} is not a list of rows; write a JSON list of objects, or one object a line as .jsonl")
    for number, value in enumerate(values, start=1):
        place = f"{path} row {number}"
        yield place, _object(value, place)


def _parsed(data: bytes, place: str, unit: str) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # JSON's and Unicode's errors are ValueErrors
        raise RowError(f"{place} is not JSON ({error}); fix or remove the {unit}") from error


def _object(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RowError(f"{place} is not a row but {type(value).__name__}; write one JSON object per row")
    return value


def _parquet(path: Path) -> Placed:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise RowError(f"{path} needs the package pyarrow; run: pip install 'etude[hub]'") from error
    number = 0
    try:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=64):
            for value in batch.to_pylist():
                number += 1
                yield f"{path} row {number}", value
    except pyarrow.ArrowInvalid as error:
        raise RowError(f"{path} is not a Parquet file ({str(error).splitlines()[0]}); download it again") from error


def _harbor_task(folder: Path) -> Mapping[str, Any]:
    """Return a Harbor task as a row: its ``task.toml``, and its text files by relative path."""
    try:
        settings = tomllib.loads((folder / "task.toml").read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RowError(f"{folder}/task.toml is not TOML ({error}); fix it or remove the folder") from error
    if not (folder / "instruction.md").is_file():
        raise RowError(f"{folder} has no instruction.md; add the task's statement or remove the folder")
    texts: dict[str, str] = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink() and file.stat().st_size <= _LARGEST:
            try:
                texts[str(file.relative_to(folder))] = file.read_bytes().decode("utf-8")
            except UnicodeDecodeError:  # data of the tests
                continue
    return {"task.toml": settings, FILES: texts}
