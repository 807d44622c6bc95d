"""Small real trees with the parts of a Snapshot that a proposal needs; the test map is written by hand."""

from __future__ import annotations

import textwrap
from types import SimpleNamespace

import pytest
from helpers.paths import DATA

from etude.generators import GENERATORS
from etude.generators.knob_parsing import parse_knobs

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
    """Return ``project({path: text}, {entity: tests})``, which writes a package ``pkg`` and its tests."""

    def write(files, tests_of, **more):
        for path, text in files.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(text).lstrip("\n"))
        return fake_snapshot(tmp_path, ["pkg"], ["."], tests_of, **more)

    return write


@pytest.fixture
def cellar():
    bottles, shelves = "src/cellar/bottles.py", "src/cellar/shelves.py"
    shelf_test = "tests/test_shelves.py::test_"
    tests_of = {
        f"{bottles}::label": ["tests/test_bottles.py::test_label_has_name_and_year"],
        f"{bottles}::_clean": ["tests/test_bottles.py::test_label_has_name_and_year"],
        f"{bottles}::catalogue": [
            "tests/test_bottles.py::test_label_has_name_and_year",
            "tests/test_bottles.py::test_nothing_to_list",
        ],
        f"{bottles}::Bottle.key": [f"{shelf_test}sorted_shelf_puts_the_oldest_first"],
        f"{shelves}::Shelf.__len__": [f"{shelf_test}an_empty_shelf_has_no_length"],
        f"{shelves}::Shelf.put": [f"{shelf_test}description", f"{shelf_test}sorted_shelf_puts_the_oldest_first"],
        f"{shelves}::Shelf._is_full": [f"{shelf_test}description", f"{shelf_test}sorted_shelf_puts_the_oldest_first"],
        f"{shelves}::Shelf.names": [f"{shelf_test}description", f"{shelf_test}names_in_order"],
        f"{shelves}::Shelf.describe": [f"{shelf_test}description"],
        f"{shelves}::SortedShelf.put": [f"{shelf_test}sorted_shelf_puts_the_oldest_first"],
        f"{shelves}::Ledger.enter": [f"{shelf_test}ledger_counts"],
        f"{shelves}::Ledger._number": [f"{shelf_test}ledger_counts"],
    }
    more = [f"tests/test_bottles.py::test_more[{number}]" for number in range(10)]
    return fake_snapshot(CELLAR, ["src/cellar"], ["src"], tests_of, passed=more)


@pytest.fixture
def propose():
    """Return ``propose(generator, snapshot, name, knob=value)``, which gives the candidate for one entity."""

    def find(generator, snapshot, name, **knobs):
        maker = GENERATORS.load(generator)()
        candidates = maker.candidates(snapshot, 0, parse_knobs(maker.knobs, {"min_lines": 1, **knobs}))
        return next(item for item in candidates if item.entity.endswith(f"::{name}"))

    return find
