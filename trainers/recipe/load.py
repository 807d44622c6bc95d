"""Reading of recipes: a TOML file with changes from the command line becomes a checked ``Recipe``.

    etude train recipe.toml -o train.steps=20 -o channels.distillation=0.5

Every mistake is reported in one line, before a model is loaded.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import RecipeError, TableError, UnknownName
from ...hints.write.hint_choice import HintChoice, load_choice
from .recipe import Recipe
from .recipe_checks import recipe_problems, unread_keys
from .typed_toml import parse_table, read_toml


def load(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """Return the recipe in a file, with each change ``key.key=value`` applied. Raise RecipeError."""
    try:
        table = read_toml(path)
    except FileNotFoundError:
        raise RecipeError(f"the recipe {path} does not exist; see recipes/ for examples") from None
    except TableError as error:
        raise RecipeError(str(error)) from None
    for change in changes:
        _apply(change, table)
    return parse(table, str(path))


def parse(table: dict[str, Any], where: str = "the recipe") -> Recipe:
    """Return a table as a checked recipe. Raise RecipeError for the first mistake, with the nearest right key."""
    try:
        recipe = parse_table(Recipe, table, where)
    except TableError as error:
        raise RecipeError(str(error)) from None
    if problems := [*recipe_problems(recipe), *unread_keys(recipe.stage, table)]:
        raise RecipeError(f"{where}: {problems[0]}")
    return recipe


def load_chooser(recipe: Recipe) -> HintChoice | None:
    """Return the choice among hints that the recipe names, or None. Raises RecipeError when it cannot be loaded."""
    name = recipe.distillation.chooser
    try:
        return load_choice(name) if name else None
    except UnknownName as error:
        raise RecipeError(f"distillation.chooser: {error}") from None


def _apply(change: str, table: dict[str, Any]) -> None:
    """Set a key of the table from ``key.key=value``. A value that is not TOML is taken as a string."""
    key, equals, text = change.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"-o {change!r} is not KEY=VALUE; write for example -o train.steps=20")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        parsed = {"value": text}
    if len(parsed) > 1:
        raise RecipeError(f"-o {change!r} holds more than one KEY=VALUE; give each its own -o")
    *names, last = key.strip().split(".")
    inner = table
    for name in names:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise RecipeError(f"-o {change!r}: {name} is a value, not a table")
    inner[last] = parsed["value"]
