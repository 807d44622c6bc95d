"""Code that looks for another copy of its own package among the installed ones, to read or to load it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...evidence.added_code import Hit, hit_at
from ...reading import AddedFile, Module

_FINDERS = re.compile(
    r"site\.(getsitepackages|getusersitepackages|USER_SITE|PREFIXES)|sysconfig\.get_paths?|distutils\.sysconfig\.get_python_lib|"
    r"importlib\.metadata\.(files|distributions?)|importlib\.machinery\.PathFinder\.find_spec"
)
_LOADERS = re.compile(
    r"(io\.)?open|importlib\.util\.spec_from_file_location|importlib\.machinery\.\w+|runpy\.\w+|exec|compile|"
    r"importlib\.(import_module|util\.module_from_spec)|.*\.(read_text|read_bytes|exec_module|load_module|read)(\(\))?"
)
_OWN = frozenset(("__file__", "__name__", "__package__"))
_FOLDERS = frozenset(("src", "lib", "__init__", ""))
MAX_TEXT = 200


def other_copies(part: Module, file: AddedFile) -> Iterator[Hit]:
    """Yield a Hit for each search of the package folders in a function that also names its own module or package.

    Yields nothing for code that calls nothing that reads, loads or executes.
    """
    searches = [use.node for use in part.uses if _FINDERS.fullmatch(use.name)]
    searches += [
        node for node in part.nodes if isinstance(node, ast.For | ast.comprehension) and _is_path(part, node.iter)
    ]
    if not searches or not any(_LOADERS.fullmatch(use.name) for use in part.uses):
        return
    own_names = set(re.split(r"[/.]", file.path.removesuffix(".py"))) - _FOLDERS
    names = {part.inside.get(getattr(node, "lineno", 0)) for node in part.nodes if _names_own(node, own_names)}
    for node in searches:
        place = node.iter if isinstance(node, ast.comprehension) else node
        if part.inside.get(getattr(place, "lineno", 0)) in names:
            yield hit_at(part, place, "L08", "seeks another copy of its own package")


def _is_path(part: Module, source: ast.AST) -> bool:
    """Return whether a loop goes over the folders that modules are imported from."""
    return any(isinstance(node, ast.Attribute) and part.dotted(node) == "sys.path" for node in ast.walk(source))


def _names_own(node: ast.AST, own_names: set[str]) -> bool:
    """Return whether a node is a path or dotted name of the module or package itself."""
    if isinstance(node, ast.Name):
        return node.id in _OWN
    text = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(text, str) or len(text) > MAX_TEXT or " " in text:
        return False
    return not own_names.isdisjoint(re.split(r"[/\\.*]+", text.removesuffix(".py")))
