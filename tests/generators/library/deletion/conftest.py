"""Small real trees, with the parts of a Snapshot that proposing needs: the test map is written by hand."""

from __future__ import annotations

import textwrap
from types import SimpleNamespace

import pytest
from helpers.paths import DATA

from etude.generators import GENERATORS

CELLAR = DATA / "cellar"


def fake_snapshot(tree, roots, python_path, tests_of, passed=(), at_import=()):
    every = sorted({*passed, *(test for tests in tests_of.values() for test in tests)})
    return SimpleNamespace(
        tree=tree,
        source_roots=list(roots),
        verifier=SimpleNamespace(python_path=list(python_path)),
        baseline=SimpleNamespace(passed=every, at_import=list(at_import), tests_of=tests_of),
    )


@pytest.fixture
def project(tmp_path):
    """``project({path: text}, {entity: tests})`` writes a package ``pkg`` and its tests."""

    def make(files, tests_of, **more):
        for path, text in files.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(text).lstrip("\n"))
        return fake_snapshot(tmp_path, ["pkg"], ["."], tests_of, **more)

    return make


@pytest.fixture
def cellar():
    bottles, shelves = "src/cellar/bottles.py", "src/cellar/shelves.py"
    of = "tests/test_shelves.py::test_"
    tests_of = {
        f"{bottles}::label": ["tests/test_bottles.py::test_label_has_name_and_year"],
        f"{bottles}::_clean": ["tests/test_bottles.py::test_label_has_name_and_year"],
        f"{bottles}::catalogue": [
            "tests/test_bottles.py::test_label_has_name_and_year",
            "tests/test_bottles.py::test_nothing_to_list",
        ],
        f"{bottles}::Bottle.key": [f"{of}sorted_shelf_puts_the_oldest_first"],
        f"{shelves}::Shelf.__len__": [f"{of}an_empty_shelf_has_no_length"],
        f"{shelves}::Shelf.put": [f"{of}description", f"{of}sorted_shelf_puts_the_oldest_first"],
        f"{shelves}::Shelf._is_full": [f"{of}description", f"{of}sorted_shelf_puts_the_oldest_first"],
        f"{shelves}::Shelf.names": [f"{of}description", f"{of}names_in_order"],
        f"{shelves}::Shelf.describe": [f"{of}description"],
        f"{shelves}::SortedShelf.put": [f"{of}sorted_shelf_puts_the_oldest_first"],
        f"{shelves}::Ledger.enter": [f"{of}ledger_counts"],
        f"{shelves}::Ledger._number": [f"{of}ledger_counts"],
    }
    more = [f"tests/test_bottles.py::test_more[{number}]" for number in range(10)]
    return fake_snapshot(CELLAR, ["src/cellar"], ["src"], tests_of, passed=more)


@pytest.fixture
def propose():
    """``propose(generator, snapshot, name, knob=value)``: the candidate for one entity."""

    def find(generator, snapshot, name, **knobs):
        found = GENERATORS.load(generator)().candidates(snapshot, 0, {"min_lines": 1, **knobs})
        return next(item for item in found if item.entity.endswith(f"::{name}"))

    return find
