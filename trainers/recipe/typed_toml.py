"""TOML files as typed tables: what is wrong with one is said in one line, with the nearest right key."""

from __future__ import annotations

import json
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ...errors import TableError
from ...registry import did_you_mean

T = TypeVar("T", bound=BaseModel)


_SAID = {
    "model_type": "Input should be a table, such as { key = 1 }",
    "dict_type": "Input should be a table, such as { key = 1 }",
    "tuple_type": "Input should be a list, in [ and ]",
    "string_type": "Input should be a string, in quotes",
}
"""Of pydantic's complaints, by their type: those that tell of Python."""


def read_toml(path: Path) -> dict[str, Any]:
    """Raises FileNotFoundError, and TableError for a file that is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise
    except UnicodeDecodeError:
        raise TableError(f"{path} cannot be read as TOML: it is no UTF-8 text, save it as that") from None
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise TableError(f"{path} cannot be read as TOML: {error}") from None


def validated(model: type[T], table: Any, where: str) -> T:
    """``table`` as a ``model``. Raises TableError that begins with ``where`` and names the first wrong key or value."""
    _know(model, table, where, "")
    try:
        return model.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = _SAID.get(first["type"], first["msg"].removeprefix("Value error, "))
        raise TableError(f"{where}: {place}: {message}" if place else f"{where}: {message}") from None


def of_json(table: dict[str, Any]) -> dict[str, Any]:
    """The table, if JSON can hold it: TOML has dates, and numbers that are none. Raises ValueError."""
    try:
        json.dumps(table, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{error}: put it in quotes, or take it out") from None
    return table


def _know(model: type[BaseModel], table: Any, where: str, place: str) -> None:
    """Keys are looked at before values, in inner tables and lists of tables too; and no truth is taken for a number."""
    if not isinstance(table, dict):
        return
    for name, value in table.items():
        if name not in model.model_fields:
            inside = f"{where}: [{place}]" if place else where
            raise TableError(f"{inside}: {did_you_mean('key', name, model.model_fields)}")
        kind = model.model_fields[name].annotation
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, bool) and _is_number(kind):
                full = f"{place}.{name}".lstrip(".")
                raise TableError(f"{where}: {full}: Input should be a number, not {str(each).lower()}")
        inner = [each for each in (kind, *typing.get_args(kind)) if isinstance(each, type)]
        for table_of in (each for each in inner if not isinstance(each, types.GenericAlias)):
            if issubclass(table_of, BaseModel):
                for each in value if isinstance(value, list) else [value]:
                    _know(table_of, each, where, f"{place}.{name}".lstrip("."))


def _is_number(kind: Any) -> bool:
    """An annotation of numbers, or of several."""
    return kind in (int, float) or any(map(_is_number, typing.get_args(kind)))
