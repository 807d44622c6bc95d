"""A small project with examples, loops and packaging, and the parts of its Snapshot that proposals need."""

from __future__ import annotations

import textwrap
from types import SimpleNamespace

import pytest

PYPROJECT = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "basket"
version = "1.0"
readme = "README.md"
requires-python = ">=3.9"
license = {text = "MIT"}

[project.scripts]
basket = "basket.cli:main"

[tool.setuptools]
packages = ["basket"]
package-dir = {"" = "src"}

[tool.setuptools.package-data]
basket = ["*.txt"]

[tool.pytest.ini_options]
testpaths = ["tests"]
markers = ["fast: a quick test"]
"""
FRUIT = '''\
"""Fruit in a basket."""


def weigh(fruit, tare=0):
    """Return the weight of all fruit.

    >>> weigh([2, 3], tare=1)
    6
    >>> weigh([])
    0
    """
    total = 0
    for weight in fruit:
        total += weight + tare // 2
    return total + tare


def labels(fruit):
    """Return a label for each.

    >>> labels(["fig", "pear"])
    ['Fig', 'Pear']
    >>> labels(["fig"])  # doctest: +SKIP
    ['Apple']
    """
    return [name.title() for name in fruit]


def distinct(fruit):
    """Return each fruit once, in order."""
    seen = set()
    result = []
    for name in fruit:
        if name not in seen:
            seen.add(name)
            result.append(name)
    return result


def unripe(fruit):
    return any(name.startswith("green") for name in fruit)
'''
FILES = {
    "pyproject.toml": PYPROJECT,
    "README.md": "# Basket\n",
    "src/basket/__init__.py": "",
    "src/basket/fruit.py": FRUIT,
    "src/basket/cli.py": "def main():\n    return 0\n",
    "src/basket/names.txt": "fig\n",
    "tests/test_basket.py": """\
    import pytest
    from basket.cli import main
    from basket.fruit import distinct, labels, unripe, weigh


    @pytest.mark.fast
    def test_main():
        assert main() == 0


    def test_no_weight():
        assert weigh([]) == 0


    def test_labels():
        assert labels(["fig"]) == ["Fig"]


    def test_distinct():
        assert distinct([3, 1, 3, 2]) == [3, 1, 2]


    def test_distinct_of_nothing():
        assert distinct([]) == []


    def test_unripe():
        assert unripe(["green fig", "pear"])
        assert not unripe(["pear"])
    """,
}
TEST = "tests/test_basket.py::test_"
TESTS = [f"{TEST}{name}" for name in ("main", "no_weight", "labels", "distinct", "distinct_of_nothing", "unripe")]
PATH = "src/basket/fruit.py"


def lines_of(text):
    """Return the number of the first line that holds a text."""
    return next(number for number, line in enumerate(FRUIT.splitlines(), 1) if text in line)


@pytest.fixture
def basket(tmp_path):
    """Return the folder of the project."""
    root = tmp_path / "basket"
    for path, text in FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    return root


@pytest.fixture
def snapshot(basket):
    """Return the parts of a Snapshot of the project that a proposal reads."""
    covered = {
        TESTS[1]: ["total = 0", "for weight", "return total"],
        TESTS[2]: ["name.title()"],
        TESTS[3]: ["seen = set()", "result = []", "for name in fruit:", "if name not", "seen.add", "result.append"],
        TESTS[4]: ["seen = set()", "result = []", "for name in fruit:"],
        TESTS[5]: ["return any("],
    }
    lines = {test: {PATH: [lines_of(text) for text in covered.get(test, [])]} for test in TESTS}
    tests_of = {
        f"{PATH}::weigh": TESTS[1:2], f"{PATH}::labels": TESTS[2:3], f"{PATH}::distinct": TESTS[3:5],
        f"{PATH}::unripe": TESTS[5:],
    }  # fmt: skip
    baseline = SimpleNamespace(passed=TESTS, tests_of=tests_of, at_import=[], covered=lines.__getitem__)
    verifier = SimpleNamespace(python_path=["src"], config_file="pyproject.toml")
    return SimpleNamespace(
        name="basket", version="1.0", tree=basket, source_roots=["src/basket"], verifier=verifier, baseline=baseline,
        recipe=SimpleNamespace(python="3.11.7"),
    )  # fmt: skip
