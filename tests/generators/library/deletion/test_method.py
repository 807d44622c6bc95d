"""The proposals of ``fd_method`` in both modes; no test is run here."""

from __future__ import annotations

import ast

from etude.generators.base import StatementContext
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.deletion.method import MethodDeletion

SHELVES = "src/cellar/shelves.py"

FORMS = {
    "pkg/__init__.py": "",
    "pkg/forms.py": '''
        from abc import ABC, abstractmethod
        from typing import overload


        class Base(ABC):
            @abstractmethod
            def must(self):
                return 0

            def shared(self):
                return 1


        class Forms(Base):
            """Every kind."""

            @overload
            def many(self, x: int) -> int: ...
            @overload
            def many(self, x: str) -> str: ...
            def many(self, x):
                return x

            @classmethod
            def make(cls, *args):
                return cls()

            @staticmethod
            def plain(first, second=2):
                return first + second

            async def later(self, x):
                return x

            def items(self, source):
                yield from source

            def must(self):
                return 3

            def shared(self):
                return 2

            def uses_shared(self):
                return self.shared()

            def __getitem__(self, key):
                return key

            get = __getitem__


        class Alone:
            def only(self):
                return 1
        ''',
}
MAP = {
    f"pkg/forms.py::{name}": [f"tests/test_forms.py::test_{number}"]
    for number, name in enumerate(
        "Base.must Base.shared Forms.many Forms.make Forms.plain Forms.later Forms.items Forms.must Forms.shared "
        "Forms.uses_shared Forms.__getitem__ Alone.only".split()
    )
}


def after(candidate, path):
    text = candidate.exercise[path].decode()
    ast.parse(text)
    return text


def test_a_property_is_deleted_with_its_setter(cellar, propose):
    text = after(propose("fd_method", cellar, "Shelf.names"), SHELVES)
    assert text.count("raise NotImplementedError") == 2
    assert "@names.setter" in text and '"""The names on the shelf, in order."""' in text
    text = after(propose("fd_method", cellar, "Shelf.names", mode="remove"), SHELVES)
    assert "def names" not in text and "@property" not in text and "@names.setter" not in text


def test_a_private_helper_of_the_class_is_deleted_with_its_only_caller(cellar, propose):
    candidate = propose("fd_method", cellar, "Ledger.enter")
    text = after(candidate, SHELVES)
    assert "_number" not in text
    assert candidate.features["helpers_removed"] == 1


def test_remove_mode_absorbs_a_caller_on_self_when_only_failing_tests_run_it(cellar, propose):
    candidate = propose("fd_method", cellar, "Shelf.names", mode="remove")
    assert [item.name for item in candidate.statement.also_removed] == ["Shelf.describe"]
    assert "def describe" not in after(candidate, SHELVES)


def test_remove_mode_follows_super_calls_and_leaves_an_override(cellar, propose):
    shelf = propose("fd_method", cellar, "Shelf.put", mode="remove")
    assert "SortedShelf.put" in [item.name for item in shelf.statement.also_removed]
    override = propose("fd_method", cellar, "SortedShelf.put", mode="remove")
    text = after(override, SHELVES)
    assert '"""Keeps the oldest bottle first."""' in text and "def put(self, bottle)" in text


def test_the_statement_describes_the_class_of_a_method(cellar, propose):
    statement = propose("fd_method", cellar, "Shelf.put", mode="remove", style="instruction").statement
    failing = ["tests/test_shelves.py::test_a_full_shelf_takes_nothing"]
    text = statement.render(StatementContext("cellar", failing, []))
    for part in (
        "# Implement `cellar.shelves.Shelf.put`",
        "Room for so many bottles.",
        "def describe(self)",
        "a full shelf",
    ):
        assert part in text
    assert "_bottles" not in text and "_is_full" not in text


def test_every_kind_of_method_can_be_deleted_in_both_modes(project, propose):
    snapshot = project(FORMS, MAP, passed=[f"tests/test_forms.py::test_more{number}" for number in range(9)])
    for name in ("many", "make", "plain", "later", "items"):
        stub = propose("fd_method", snapshot, f"Forms.{name}")
        assert after(stub, "pkg/forms.py").count("raise NotImplementedError") == 1
        for files in stub.probes.values():
            ast.parse(files["pkg/forms.py"])
        text = after(propose("fd_method", snapshot, f"Forms.{name}", mode="remove"), "pkg/forms.py")
        assert text.count(f"def {name}(") == 0
    assert "argument_items" in propose("fd_method", snapshot, "Forms.items").probes
    assert (
        propose("fd_method", snapshot, "Forms.plain").probes["first_argument"]["pkg/forms.py"].count(b"return first\n")
    )


def test_abstract_and_special_methods_are_not_eligible_by_default(project, propose):
    snapshot = project(FORMS, MAP, passed=[f"tests/test_forms.py::test_more{number}" for number in range(9)])

    def names(**knobs):
        candidates = MethodDeletion().candidates(
            snapshot, 0, parse_knobs(MethodDeletion.knobs, {"min_lines": 1, **knobs})
        )
        return {item.entity.rpartition("::")[2] for item in candidates}

    assert "Base.must" not in names() and "Forms.__getitem__" not in names()
    assert "Forms.__getitem__" in names(dunder="true")
    assert "Forms.must" in names() and "Forms.must" not in names(mode="remove")
    special = propose("fd_method", snapshot, "Forms.__getitem__", mode="remove", dunder=True)
    assert "get = __getitem__" not in after(special, "pkg/forms.py")


def test_an_inherited_method_still_answers(project, propose):
    snapshot = project(FORMS, MAP, passed=[f"tests/test_forms.py::test_more{number}" for number in range(9)])
    text = after(propose("fd_method", snapshot, "Forms.shared", mode="remove"), "pkg/forms.py")
    assert "return self.shared()" in text and text.count("def shared") == 1


def test_an_emptied_class_keeps_a_pass(project, propose):
    snapshot = project(FORMS, MAP, passed=[f"tests/test_forms.py::test_more{number}" for number in range(9)])
    text = after(propose("fd_method", snapshot, "Alone.only", mode="remove"), "pkg/forms.py")
    assert "class Alone:\n    pass" in text
