"""The tests of a move: one object at both places, defined in the new module, and no import cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...base import Files
from ...python.hidden_tests import test_file
from ...python.source_tree import SourceTree
from .moving import Move
from .symbols import with_imports

_TESTS = """

def test_{name}_is_one_object_in_both_modules():
    assert getattr(importlib.import_module("{new}"), "{name}") is getattr(importlib.import_module("{old}"), "{name}")


def test_{name}_is_defined_in_its_new_module():
    module = importlib.import_module("{new}")
    assert module.{name}.__module__ == "{new}"
    with open(module.__spec__.origin, encoding="utf-8") as file:
        names = [getattr(node, "name", "") for node in ast.parse(file.read()).body]
    assert "{name}" in names


def test_{name}_is_no_longer_defined_in_its_old_module():
    with open(importlib.import_module("{old}").__spec__.origin, encoding="utf-8") as file:
        nodes = ast.walk(ast.parse(file.read()))
    assert importlib.import_module("{new}").{name}.__module__ == "{new}"
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    assert "{name}" not in [node.name for node in nodes if isinstance(node, definitions)]


@pytest.mark.parametrize("modules", [("{old}", "{new}"), ("{new}", "{old}")])
def test_{name}_can_be_imported_in_a_fresh_interpreter(modules):
    program = "".join(f"from {{module}} import {name}\\n" for module in modules)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {{**os.environ, "PYTHONPATH": path}}
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
"""


@dataclass(frozen=True)
class MovedTests:
    """The tests of one move."""

    files: Files  # the test file that holds them
    tests: list[str]  # their ids


def host_file(tree: SourceTree, affected: Sequence[str]) -> str | None:
    """Return the test file that holds most of the tests; None where all are doctests of the package."""
    counts = Counter(test_file(test) for test in affected)
    paths = [path for path, _ in counts.most_common() if path in tree.python_files]
    outside = [path for path in paths if not tree.is_source(path)]
    return next(iter([*outside, *filter(tree.is_test, paths)]), None)


def moved_tests(tree: SourceTree, move: Move, affected: Sequence[str]) -> MovedTests | None:
    """Return the tests of a move, in the test file that runs the symbol most; None without such a file."""
    path = host_file(tree, affected)
    if path is None:
        return None
    name, old = move.symbol.name, move.symbol.file.dotted
    source = tree.python_files[path].rstrip() + b"\n"
    text = _TESTS.format(name=name, old=old, new=move.module)
    modules = ("ast", "importlib", "os", "subprocess", "sys", "pytest")
    titles = (
        f"test_{name}_is_one_object_in_both_modules",
        f"test_{name}_is_defined_in_its_new_module",
        f"test_{name}_is_no_longer_defined_in_its_old_module",
        *(f"test_{name}_can_be_imported_in_a_fresh_interpreter[modules{number}]" for number in range(2)),
    )
    return MovedTests({path: with_imports(source, *modules) + text.encode()}, [f"{path}::{t}" for t in titles])
