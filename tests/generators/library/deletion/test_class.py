"""The proposals of ``fd_class`` in both modes; no test is run here."""

from __future__ import annotations

import ast

from etude.generators.base import StatementContext
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.deletion.class_ import ClassDeletion
from etude.generators.library.deletion.statement import Member

SHELVES = "src/cellar/shelves.py"


def after(candidate, path):
    text = candidate.exercise[path].decode()
    ast.parse(text)
    return text


def test_stub_mode_leaves_the_public_interface(cellar, propose):
    text = after(propose("fd_class", cellar, "Shelf"), SHELVES)
    shelf = text[text.index("class Shelf:") : text.index("class SortedShelf")]
    assert shelf.count("raise NotImplementedError") == 6 and "_is_full" not in shelf
    for text_of_interface in (
        "def __init__(self, room)",
        "@names.setter",
        '"""Room for so many bottles."""',
        "Raises OverflowError",
    ):
        assert text_of_interface in shelf
    assert "super().put(bottle)" in text


def test_remove_mode_deletes_the_exports_and_absorbs_the_subclass(cellar, propose):
    candidate = propose("fd_class", cellar, "Shelf", mode="remove")
    assert "Shelf" not in after(candidate, SHELVES)
    assert "Shelf" not in after(candidate, "src/cellar/__init__.py")
    assert [item.name for item in candidate.statement.also_removed] == ["SortedShelf"]
    assert b"from cellar import Bottle\n" in candidate.hidden_tests.rewritten["tests/conftest.py"]


def test_remove_mode_is_blocked_when_other_tests_use_a_subclass(cellar, propose):
    cellar.baseline.tests_of[f"{SHELVES}::SortedShelf.put"] = ["tests/test_bottles.py::test_more[0]"]
    blocked = propose("fd_class", cellar, "Shelf", mode="remove").blocked
    assert (blocked.reason, blocked.detail) == (
        "v0_built_on",
        "src/cellar/shelves.py::SortedShelf is built on Shelf",
    )


def test_the_statement_lists_the_public_interface(cellar, propose):
    statement = propose("fd_class", cellar, "Shelf", mode="remove").statement
    text = statement.render(StatementContext("cellar", [], []))
    for part in (
        "`def put(self, bottle)`",
        "`@property def names(self)`",
        "Also missing: `cellar.shelves.SortedShelf`",
    ):
        assert part in text
    assert "_is_full" not in text and "_bottles" not in text


def test_fields_of_a_dataclass_stay_in_stub_mode_and_are_listed_in_remove_mode(cellar, propose):
    text = after(propose("fd_class", cellar, "Bottle"), "src/cellar/bottles.py")
    assert "size: float = 0.75" in text and "return self.year" not in text
    target = propose("fd_class", cellar, "Bottle", mode="remove").statement.target
    assert Member("size: float = 0.75") in target.members
    assert "@dataclass" in target.signature


def test_a_probe_gives_every_method_a_body(cellar, propose):
    probes = propose("fd_class", cellar, "Shelf").probes
    assert {"none", "true", "itself", "first_argument"} <= set(probes)
    for files in probes.values():
        ast.parse(files[SHELVES])


def test_a_class_is_not_eligible_when_it_has_no_method_with_code(project):
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
    assert not list(ClassDeletion().candidates(snapshot, 0, parse_knobs(ClassDeletion.knobs, {"min_lines": 1})))
