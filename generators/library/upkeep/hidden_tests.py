"""The hidden test files of upkeep tasks: where they go, and the text of the one that holds documentation examples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...python.source_tree import SourceTree
from .examples import Examples

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_EXAMPLES_TEST = '''\
"""The examples in the docstrings of {module}: they run as text, and the docstrings still hold them."""

import ast
import doctest
import importlib
import importlib.util
from pathlib import Path

import pytest

MODULE = {module!r}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
EXAMPLES = {{
{texts}}}


def run(text, name):
    """Return what doctest reports about the examples of a text."""
    names = dict(vars(importlib.import_module(MODULE)))
    names["__name__"] = "__main__"
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    reported = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
    results = runner.run(test, out=reported.append)
    assert results.attempted == len(test.examples) or any(map(skipped, test.examples))
    return "".join(reported)


def skipped(example):
    """Return whether an example says that it is not run."""
    return example.options.get(doctest.SKIP, False)


def docstrings():
    """Return the docstrings of the module's source by qualified name."""
    found = {{}}

    def visit(nodes, prefix):
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found[prefix + node.name] = ast.get_docstring(node, clean=False) or ""
                visit(node.body if isinstance(node, ast.ClassDef) else [], prefix + node.name + ".")

    visit(ast.parse(Path(importlib.util.find_spec(MODULE).origin).read_bytes()).body, "")
    return found


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples(name):
    assert run(EXAMPLES[name], name) == ""
    text = docstrings().get(name, "")
    remaining = [example.source for example in doctest.DocTestParser().get_examples(text) if example.want]
    expected = [example.source for example in doctest.DocTestParser().get_examples(EXAMPLES[name]) if example.want]
    assert [source for source in expected if source not in remaining] == []
    assert run(text, name) == ""
'''


def test_folder(snapshot: Snapshot, tree: SourceTree) -> str:
    """Return the folder of the test files that most stable tests are in, with a final slash; empty for the root."""
    counts: dict[str, int] = {}
    for test in snapshot.baseline.passed:
        path = test.partition("::")[0]
        if path.endswith(".py") and tree.is_test(path):
            folder = path.rpartition("/")[0]
            counts[folder] = counts.get(folder, 0) + 1
    folder = min(counts, key=lambda name: (-counts[name], name), default="")
    return f"{folder}/" if folder else ""


def new_test_path(snapshot: Snapshot, tree: SourceTree, stem: str) -> str:
    """Return the path of a test file that the tree does not have, ``tests/test_STEM.py``."""
    folder, number = test_folder(snapshot, tree), 1
    stem = re.sub(r"\W+", "_", stem)
    path = f"{folder}test_{stem}.py"
    while path in tree.python_files:
        number += 1
        path = f"{folder}test_{stem}_{number}.py"
    return path


def examples_test(module: str, examples: list[Examples]) -> bytes:
    """Return the source of the test file that runs the examples of a module."""
    texts = "".join(f"    {item.name!r}: {item.text!r},\n" for item in examples)
    return _EXAMPLES_TEST.format(module=module, texts=texts).encode()


def examples_tests(path: str, examples: list[Examples]) -> list[str]:
    """Return the ids of the tests of that file, in the order in which they run."""
    return [f"{path}::test_examples[{name}]" for name in sorted(item.name for item in examples)]
