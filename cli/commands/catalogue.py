"""``etude list``: every name that a command or a recipe can take, with a description."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..options import Json

PACKAGE = __name__.partition(".")[0]
RECIPES = Path(__file__).parents[2] / "recipes"
"""Folder of the recipes that are shipped with Etude."""
REGISTRIES = {
    "generators": (".generators", "GENERATORS"),
    "environments": (".environments", "ENVIRONMENTS"),
    "monitors": (".monitors", "MONITORS"),
    "verifiers": (".environments.grading.submission", "VERIFIERS"),
    "hints": (".hints.write.templates", "HINTS"),
    "sandboxes": (".environments.sandbox", "SANDBOXES"),
    "agents": (".environments.agents", "AGENTS"),
    "faults": (".environments.faults", "FAULTS"),
    "log-formats": (".environments.logs", "LOG_FORMATS"),
    "exports": (".generators.export", "EXPORTS"),
    "exploits": (".monitors.exploits", "EXPLOITS"),
}
"""Module and attribute of the registry of each kind."""
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


def names_of(kind: str) -> list[str]:
    """Return the names of one kind, sorted, without loading what they name."""
    if kind == "recipes":
        return sorted(path.stem for path in RECIPES.glob("*.toml"))
    module, attribute = REGISTRIES[kind]
    names: list[str] = getattr(import_module(module, PACKAGE), attribute).names()
    return names


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
