"""Modules of this package as text, for a Python that cannot import them: one in a container, or in a sandbox."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources

LOADER = """
import sys, types
def add(name):
    module = sys.modules[name] = types.ModuleType(name)
    parent, _, last = name.rpartition(".")
    module.__package__ = parent
    if parent:
        setattr(sys.modules[parent], last, module)
    return module
def load(modules):
    for name, text in modules:
        parts = ["sandbox", *name.split(".")]
        for size in range(1, len(parts)):
            if ".".join(parts[:size]) not in sys.modules:
                add(".".join(parts[:size])).__path__ = []
        module = add(".".join(parts))
        exec(compile(text, name, "exec"), module.__dict__)
    return module
"""
"""Text that defines ``load``: it loads names and texts of modules below the package ``sandbox``, returns the last."""


def module_texts(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the names (``kernel.linux``) with the texts of their modules; a module comes after those it imports."""
    files = ((name, name.replace(".", "/")) for name in names)
    return [
        (name, resources.files(__package__ or "").joinpath(f"{path}.py").read_text("utf-8")) for name, path in files
    ]
