"""``etude list``: every name that a command or a recipe can take, with a description."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..names import PACKAGE, RECIPES, REGISTRIES
from ..options import Json

KINDS = (*REGISTRIES, "recipes")
WIDTH = 100
"""Columns of the printed table."""
_SENTENCE_END = re.compile(r"(?<=[\w)`]\.)\s+(?=[A-Z`])")


@dataclass(frozen=True)
class Entry:
    """One name that exists here."""

    kind: str
    """Kind, one of ``KINDS``."""
    name: str
    """Name that a command or a recipe takes."""
    description: str
    """First sentence of its documentation, or the reason why it cannot be loaded."""
    path: str
    """Dotted path of the object, or the path of the file."""


def list_(
    kind: Annotated[
        str,
        typer.Argument(
            help=f"List only this kind: {', '.join(KINDS)}; default: all.",
            autocompletion=lambda incomplete: [name for name in KINDS if name.startswith(incomplete)],
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """List what is available here, built in or from other packages, with a description."""
    entries = catalogue([kind] if kind else KINDS)
    rows = [{"kind": entry.kind, "name": entry.name, "description": entry.description} for entry in entries]
    data: dict[str, dict[str, dict[str, str]]] = {}
    for entry in entries:
        data.setdefault(entry.kind, {})[entry.name] = {"description": entry.description, "path": entry.path}
    console.show(data, rows, as_json, columns=WIDTH)


def catalogue(kinds: Iterable[str]) -> list[Entry]:
    """Return the entries of some kinds, sorted by name within each kind. Raises UnknownName."""
    from ...errors import UnknownName
    from ...registry import did_you_mean

    entries: list[Entry] = []
    for kind in kinds:
        if kind not in KINDS:
            raise UnknownName(did_you_mean("kind", kind, KINDS))
        entries += _recipes() if kind == "recipes" else _registered(kind)
    return entries


def _registered(kind: str) -> list[Entry]:
    module, attribute = REGISTRIES[kind]
    registry = getattr(import_module(module, PACKAGE), attribute)
    return [
        Entry(kind, name, registry.describe(name), f"{PACKAGE}{path}" if path.startswith(".") else path)
        for name, path in sorted(registry.paths().items())
    ]


def _recipes() -> list[Entry]:
    """Return the shipped recipes; a recipe is described by the comment on its first lines."""
    entries = []
    for path in sorted(RECIPES.glob("*.toml")):
        comment = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                break
            comment.append(line.removeprefix("#").strip())
        description = _SENTENCE_END.split(" ".join(comment))[0]
        entries.append(Entry("recipes", path.stem, description, str(path)))
    return entries


def recipe_path(name: Path) -> Path:
    """Return the file of a recipe from its path or, for a shipped recipe, its name. Raises UnknownName."""
    from ...errors import UnknownName
    from ...registry import did_you_mean

    if name.exists() or name.parent != Path():
        return name
    shipped = {path.stem: path for path in RECIPES.glob("*.toml")}
    stem = str(name).removesuffix(".toml")  # a name may hold a dot: qwen3-0.6b
    if stem not in shipped:
        raise UnknownName(did_you_mean("recipe", str(name), [*shipped, *(path.name for path in shipped.values())]))
    return shipped[stem]
