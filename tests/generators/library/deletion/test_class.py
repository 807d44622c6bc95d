"""What ``fd_class`` proposes, in both modes; nothing is run here."""

from __future__ import annotations

import ast

from etude.generators.library.deletion.class_ import ClassDeletion
from etude.generators.library.deletion.statement import deletion_statement

SHELVES = "src/cellar/shelves.py"


def after(candidate, path):
    text = candidate.exercise[path].decode()
    ast.parse(text)
    return text


def test_stub_keeps_what_is_public(cellar, propose):
    text = after(propose("fd_class", cellar, "Shelf"), SHELVES)
    shelf = text[text.index("class Shelf:") : text.index("class SortedShelf")]
    assert shelf.count("raise NotImplementedError") == 6 and "_is_full" not in shelf
    for kept in (
        "def __init__(self, room)",
        "@names.setter",
        '"""Room for so many bottles."""',
        "Raises OverflowError",
    ):
        assert kept in shelf
    assert "super().put(bottle)" in text


def test_remove_takes_the_exports_and_the_subclass_along(cellar, propose):
    candidate = propose("fd_class", cellar, "Shelf", mode="remove")
    assert "Shelf" not in after(candidate, SHELVES)
    assert "Shelf" not in after(candidate, "src/cellar/__init__.py")
    assert [item["name"] for item in candidate.facts["entities"]] == ["SortedShelf"]
    assert b"from cellar import Bottle\n" in candidate.tests["tests/conftest.py"]


def test_a_subclass_that_others_use_blocks(cellar, propose):
    cellar.baseline.tests_of[f"{SHELVES}::SortedShelf.put"] = ["tests/test_bottles.py::test_more[0]"]
    assert propose("fd_class", cellar, "Shelf", mode="remove").blocked.startswith("v0_built_on")


def test_the_statement_holds_the_public_interface(cellar, propose):
    text = deletion_statement("cellar", propose("fd_class", cellar, "Shelf", mode="remove").facts, [], [])
    for part in (
        "`def put(self, bottle)`",
        "`@property def names(self)`",
        "Also missing: `cellar.shelves.SortedShelf`",
    ):
        assert part in text
    assert "_is_full" not in text and "_bottles" not in text


def test_fields_of_a_dataclass_stay_in_stub_mode_and_are_told_in_remove_mode(cellar, propose):
    text = after(propose("fd_class", cellar, "Bottle"), "src/cellar/bottles.py")
    assert "size: float = 0.75" in text and "return self.year" not in text
    facts = propose("fd_class", cellar, "Bottle", mode="remove").facts
    assert {"signature": "size: float = 0.75", "docstring": ""} in facts["members"]
    assert "@dataclass" in facts["signature"]


def test_probes_fill_every_method(cellar, propose):
    probes = propose("fd_class", cellar, "Shelf").probes
    assert {"none", "true", "itself", "first_argument"} <= set(probes)
    for files in probes.values():
        ast.parse(files[SHELVES])


def test_what_only_declares_is_no_target(project):
    files = {
        "pkg/__init__.py": "",
        "pkg/kinds.py": """
            import enum


            class Colour(enum.Enum):
                RED = 1


            class Oops(ValueError):
                pass


            class Meta(type):
                def __call__(cls):
                    return super().__call__()
            """,
    }
    tests_of = {"pkg/kinds.py::Meta.__call__": ["tests/test_kinds.py::test_meta"]}
    snapshot = project(files, tests_of, passed=[f"tests/test_kinds.py::test_{number}" for number in range(5)])
    assert not list(ClassDeletion().candidates(snapshot, 0, {"min_lines": 1}))
