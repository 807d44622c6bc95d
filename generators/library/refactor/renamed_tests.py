"""The tests of a renaming: those of the package under the new name, and copies that hold the two names apart.

A test file keeps what it imports: a use of the old name becomes one of the new name in its module, so that only tests
which use the name fail where it is missing. A copy of one test runs under the old name and must warn, another one
under the new name must not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....errors import Rejected
from ...base import Files
from ...python.hidden_tests import split_test_id
from ...python.source import Edit, apply_edits, items_without, words
from ..deletion.removal.source_file import Function, SourceFile
from .renaming import last_name
from .symbols import Symbol, with_imports

OLD_SUFFIX, NEW_SUFFIX = "_under_the_old_name", "_under_the_new_name"
_FIXTURES = '''

@pytest.fixture
def old_name_warns():
    """Check that a test calls for a deprecation warning that names the new name."""
    with pytest.warns(DeprecationWarning, match="{new}"):
        yield


@pytest.fixture
def new_name_does_not_warn():
    """Make the deprecation warning of the old name an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=r".*\\b{old}\\b", category=DeprecationWarning)
        yield
'''
_AVAILABLE = '''

def test_both_names_are_available():
    """Check that each module which had the old name has both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in {modules}:
            for name in ("{old}", "{new}"):
                assert hasattr(importlib.import_module(module), name), f"{{module}} has no {{name}}"
'''
_SAME_CLASS = '''

def test_the_old_name_is_the_same_class():
    """Check that both names give one class, and that the old one warns."""
    module = importlib.import_module("{home}")
    with pytest.warns(DeprecationWarning, match="{new}"):
        former = getattr(module, "{old}")
    assert former is getattr(module, "{new}")
'''


@dataclass(frozen=True)
class RenamedTests:
    """The rewritten test files of a renaming."""

    files: Files  # test files as they are graded
    tests: list[str]  # the tests that are new


@dataclass(frozen=True)
class _Chosen:
    """A test whose copies hold the two names apart."""

    file: SourceFile
    node: Function
    ids: list[str]  # its ids in the baseline


def renamed_tests(symbol: Symbol, new: str, affected: Sequence[str]) -> RenamedTests:
    """Return the rewritten test files. ``affected`` are the stable tests that run the symbol.

    Raises Rejected where no test can be repeated under both names, or a test file hides what its names stand for.
    """
    chosen = next(_suitable(symbol, affected), None)
    if chosen is None:
        raise Rejected("v0_no_test_to_repeat", f"no test names {symbol.qualified} in its body and can run twice")
    files: Files = {}
    for file in symbol.files:
        if file.path not in symbol.index.own and symbol.index.tree.is_test(file.path):
            edits = _edits(symbol, file, new)
            if file is chosen.file:
                imported = ["warnings", "pytest", *(["importlib"] if symbol.owner is None else [])]
                graded = apply_edits(file.source, [*edits, _copies(symbol, chosen, new)])
                with_names = with_imports(graded.rstrip() + b"\n", *imported)
                files[file.path] = with_names + _tail(symbol, new)
            elif edits:
                files[file.path] = apply_edits(file.source, edits)
    suffixes = (OLD_SUFFIX, NEW_SUFFIX)
    tests = [_renamed_id(test, chosen.node.name + suffix) for test in chosen.ids for suffix in suffixes]
    if symbol.owner is None:
        tests.append(f"{chosen.file.path}::test_both_names_are_available")
    if symbol.kind == "class":
        tests.append(f"{chosen.file.path}::test_the_old_name_is_the_same_class")
    return RenamedTests(files, tests)


def _edits(symbol: Symbol, file: SourceFile, new: str) -> list[Edit]:
    """Return the edits that rename every use. Raises Rejected for a use that no import of the file explains."""
    edits: list[Edit] = []
    homes: dict[str, str] = {}
    for statement in dict.fromkeys(node for node, _ in symbol.imports(file)):
        dropped = {number for number, alias in enumerate(statement.names) if alias.name == symbol.name}
        home = file.absolute(statement)
        for number in dropped:
            alias = statement.names[number]
            homes[alias.asname or alias.name] = home
        edits += _import_edits(file, statement, dropped, home)
    for node in symbol.references(file):
        if isinstance(node, ast.Attribute):
            edits.append(last_name(file, node, new))
        elif node.id not in homes or not isinstance(node.ctx, ast.Load):
            raise Rejected("v0_unclear_test", f"{file.path} uses {node.id} without importing it by name")
        else:
            edits.append((file.span(node), f"{_bound_module(homes[node.id])}.{new}".encode()))
    return edits


def _bound_module(dotted: str) -> str:
    """Return the name under which a rewritten test file imports a module."""
    return dotted.replace(".", "_") + "_module"


def _import_edits(file: SourceFile, statement: ast.ImportFrom, dropped: set[int], home: str) -> list[Edit]:
    line = f"import {home} as {_bound_module(home)}".encode()
    span = file.span(statement)
    if len(dropped) == len(statement.names):
        return [(span, line)]
    items = [file.span(alias) for alias in statement.names]
    added = b"\n" + file.indentation(statement) + line
    return [*items_without(file.source, items, dropped), ((span[1], span[1]), added)]


def _suitable(symbol: Symbol, affected: Sequence[str]) -> Iterator[_Chosen]:
    """Yield tests that use the symbol in their bodies, run it, and say nothing about warnings; plain ones first."""
    by_function: dict[tuple[str, ...], list[str]] = {}
    for test in affected:
        path, parts = split_test_id(test)
        by_function.setdefault((path, *parts), []).append(test)
    candidates: list[tuple[int, int, _Chosen]] = []
    for file in symbol.files:
        if file.path in symbol.index.own or not symbol.index.tree.is_test(file.path):
            continue
        users = {file.function(node) for node in symbol.references(file)}
        for node in sorted((item for item in users if item is not None), key=lambda item: item.lineno):
            owner = file.owner(node)
            key = (file.path, *([owner.name] if owner else []), node.name)
            mentions = words(file.text(node).encode())
            if key in by_function and not any(
                "warn" in word.lower() or "deprecat" in word.lower() for word in mentions
            ):
                simple = len(node.decorator_list) + len(node.args.args) + 2 * (owner is not None)
                candidates.append((simple, len(candidates), _Chosen(file, node, by_function[key])))
    yield from (item for _, _, item in sorted(candidates, key=lambda item: item[:2]))


def _copies(symbol: Symbol, chosen: _Chosen, new: str) -> Edit:
    """Return the edit that adds the copies after the chosen test."""
    file, node = chosen.file, chosen.node
    first = min([node, *node.decorator_list], key=lambda item: item.lineno)
    start, end = file.span(first)[0] - (first is not node), file.span(node)[1]
    indentation = file.indentation(node)
    text = b""
    for suffix, name, fixture in (
        (OLD_SUFFIX, symbol.name, "old_name_warns"),
        (NEW_SUFFIX, new, "new_name_does_not_warn"),
    ):
        inner = [edit for edit in _edits(symbol, file, name) if start <= edit[0][0] and edit[0][1] <= end]
        mark = indentation + f'@pytest.mark.usefixtures("{fixture}")\n'.encode() + indentation
        copy = apply_edits(file.source[start:end], [((a - start, b - start), to) for (a, b), to in inner])
        copy = re.sub(
            rb"\b(def\s+)" + node.name.encode() + rb"\b", rb"\g<1>" + (node.name + suffix).encode(), copy, count=1
        )
        text += (b"\n\n" if indentation else b"\n\n\n") + mark + copy
    return (end, end), text


def _tail(symbol: Symbol, new: str) -> bytes:
    """Return the fixtures of the copies, and the tests of modules that have both names."""
    tail = _FIXTURES.format(old=re.escape(symbol.name), new=new)
    modules = [symbol.file.dotted, *(file.dotted for file in symbol.exporters)]
    if symbol.owner is None:
        tail += _AVAILABLE.format(old=symbol.name, new=new, modules=modules)
    if symbol.kind == "class":
        tail += _SAME_CLASS.format(old=symbol.name, new=new, home=modules[-1])
    return tail.encode()


def _renamed_id(test: str, name: str) -> str:
    """Return the id of a test's copy with this name."""
    head, bracket, parameters = test.partition("[")
    return f"{head.rpartition('::')[0]}::{name}{bracket}{parameters}"
