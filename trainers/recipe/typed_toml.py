"""TOML files as typed tables: every mistake in one is reported in one line, with the nearest right name."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ...errors import TableError
from ...registry import did_you_mean

T = TypeVar("T", bound=BaseModel)

_MESSAGES = {
    "missing": "Field required; add it",
    "model_type": "Input should be a table, such as { key = 1 }",
    "dict_type": "Input should be a table, such as { key = 1 }",
    "tuple_type": "Input should be a list, in [ and ]",
    "string_type": "Input should be a string, in quotes",
}
"""Messages in terms of TOML, by pydantic's type of error, for errors that pydantic words in terms of Python."""


class Table(BaseModel):
    """Base of typed tables: unknown keys, infinities and NaN are refused, and values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table in a TOML file. Raise FileNotFoundError, or TableError for a file that is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise
    except UnicodeDecodeError:
        raise TableError(f"{path} cannot be read as TOML because it is not UTF-8 text; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"{path} cannot be read as TOML: {error}; repair it") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}; name a TOML file") from None


def parse_table(model: type[T], table: Any, where: str) -> T:
    """Return a table as a ``model``. Raise TableError, starting with ``where``, for the first wrong key or value."""
    _check_keys(model, table, where, "")
    try:
        return model.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = _MESSAGES.get(first["type"], first["msg"].removeprefix("Value error, "))
        if first["type"] == "literal_error" and isinstance(first["input"], str):
            choices = re.findall(r"'([^']*)'", first["ctx"]["expected"])
            nearest = difflib.get_close_matches(first["input"], choices, n=1)
            message += f". Did you mean {nearest[0]!r}?" if nearest else ""
        raise TableError(f"{where}: {place}: {message}" if place else f"{where}: {message}") from None


def as_json_table(table: dict[str, Any]) -> dict[str, Any]:
    """Return the table. Raise ValueError if JSON cannot hold it: TOML also has dates, infinities and NaN."""
    try:
        json.dumps(table, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{error}; put it in quotes, or remove it") from None
    return table


def _check_keys(model: type[BaseModel], table: Any, where: str, place: str) -> None:
    """Raise TableError for an unknown key, also in inner tables, or for a boolean where a number belongs.

    Keys are checked before values, because a misspelt key is the likelier cause of what pydantic would report first.
    """
    if not isinstance(table, dict):
        return
    for name, value in table.items():
        if name not in model.model_fields:
            inside = f"{where}: [{place}]" if place else where
            raise TableError(f"{inside}: {did_you_mean('key', name, model.model_fields)}")
        annotation = model.model_fields[name].annotation
        full_name = f"{place}.{name}".lstrip(".")
        values = value if isinstance(value, list) else [value]
        for item in values:
            if isinstance(item, bool) and _is_number(annotation):
                raise TableError(f"{where}: {full_name}: Input should be a number, not {str(item).lower()}")
        for part in (annotation, *typing.get_args(annotation)):
            if isinstance(part, type) and not isinstance(part, types.GenericAlias) and issubclass(part, BaseModel):
                for item in values:
                    _check_keys(part, item, where, full_name)


def _is_number(annotation: Any) -> bool:
    """Return whether an annotation is of numbers, or of a union or list of numbers."""
    return annotation in (int, float) or any(map(_is_number, typing.get_args(annotation)))
