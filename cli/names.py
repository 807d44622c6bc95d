"""The names that commands take, by kind, from the registries and the shipped recipes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

PACKAGE = __name__.partition(".")[0]
RECIPES = Path(__file__).parents[1] / "recipes"
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


def names_of(kind: str) -> list[str]:
    """Return the names of one kind, sorted, without loading what they name."""
    if kind == "recipes":
        return sorted(path.stem for path in RECIPES.glob("*.toml"))
    module, attribute = REGISTRIES[kind]
    names: list[str] = getattr(import_module(module, PACKAGE), attribute).names()
    return names
