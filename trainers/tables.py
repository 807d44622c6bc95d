"""TOML files as typed tables: what is wrong with one is said in one line, with the nearest right key."""

from __future__ import annotations

import tomllib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..registry import did_you_mean

T = TypeVar("T", bound=BaseModel)


class TableError(Exception):
    """Says where the table is wrong, and what to do."""


def read_toml(path: Path) -> dict[str, Any]:
    """Raises FileNotFoundError, and TableError for a file that is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TableError(f"{path} cannot be read as TOML: {error}") from None


def validated(model: type[T], table: Any, where: str) -> T:
    """``table`` as a ``model``. Raises TableError that begins with ``where`` and names the first wrong key or value."""
    _know(model, table, where, "")
    try:
        return model.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise TableError(f"{where}: {place}: {message}" if place else f"{where}: {message}") from None


def _know(model: type[BaseModel], table: Any, where: str, place: str) -> None:
    """Keys are looked at before values, in inner tables and lists of tables too."""
    if not isinstance(table, dict):
        return
    for name, value in table.items():
        if name not in model.model_fields:
            inside = f"{where}: [{place}]" if place else where
            raise TableError(f"{inside}: {did_you_mean('key', name, model.model_fields)}")
        kind = model.model_fields[name].annotation
        inner = [each for each in (kind, *typing.get_args(kind)) if isinstance(each, type)]
        for table_of in (each for each in inner if not isinstance(each, types.GenericAlias)):
            if issubclass(table_of, BaseModel):
                for each in value if isinstance(value, list) else [value]:
                    _know(table_of, each, where, f"{place}.{name}".lstrip("."))
