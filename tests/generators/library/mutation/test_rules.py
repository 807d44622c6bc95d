"""What all generators of mistakes have in common: where they look, in which order, and what they never change."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import get_args, get_type_hints

import pytest

from etude.errors import GeneratorError, NotApplicable
from etude.generators import GENERATORS
from etude.generators.base import StatementContext
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.mutation.family import Site, other_lines_first
from etude.generators.python.mutants import Mutant
from etude.models import InterfaceItem

NAMES = [
    "bug_arithmetic",
    "bug_control_flow",
    "bug_removed_statement",
    "bug_call",
    "bug_exception",
    "bug_class",
    "bug_shared_state",
    "bug_protocol",
    "bug_concurrency",
    "bug_masking",
]
MIXED = '''
import asyncio
import logging
from threading import Lock

log = logging.getLogger(__name__)


class Base:
    """The base: 1 + 1."""

    def size(self):
        return 0


class Shelf(Base):
    def __init__(self, books=None, most=3):
        super().__init__()
        if books is None:
            books = []
        self.books = list(books)
        self.most = most
        self.lock = Lock()

    def __len__(self):
        return len(self.books)

    def __repr__(self):
        return "Shelf(%d)" % (len(self.books) + 1)

    def __eq__(self, other):
        return self.books == other.books and self.most == other.most

    @property
    def first(self):
        return self.books[0]

    def size(self):
        return len(self.books) + 1

    def put(self, title: "a" + "b", place=0):
        log.info("put %s at %d", title, place + 1)
        with self.lock:
            if place > self.most:
                raise ValueError("no such place: %d" % (place + 1))
            for number, book in enumerate(self.books):
                if book == title:
                    break
            self.books.insert(place, title)
        try:
            return self.books.index(title) - place
        except ValueError:
            return -1

    async def later(self, title, place):
        await asyncio.sleep(0)
        return self.put(title, place)
'''


@pytest.mark.parametrize("name", NAMES)
def test_every_candidate_compiles_to_other_code_and_has_an_id_of_its_own(name, snapshot_of, propose):
    candidates = propose(snapshot_of(MIXED), name)
    assert candidates
    assert len({candidate.entity for candidate in candidates}) == len(candidates)
    for candidate in candidates:
        [(path, content)] = candidate.exercise.items()
        assert path == "module.py" and content.decode() != MIXED
        ast.parse(content)
        assert set(candidate.hidden_tests.affected) == {f"tests/test_module.py::test_{number}" for number in (0, 1)}
        assert not any(word in candidate.entity.rsplit("::")[1] for word in ("put", "Shelf", "size"))


@pytest.mark.parametrize("name", NAMES)
def test_the_order_depends_on_the_seed_alone(name, snapshot_of, propose):
    snapshot = snapshot_of(MIXED * 2)
    orders = [[item.entity for item in propose(snapshot, name, seed)] for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) > 1


@pytest.mark.parametrize("name", NAMES[:-1])
def test_texts_for_people_stay_as_they_are(name, snapshot_of, propose):
    lines = [line for line in MIXED.splitlines() if any(word in line for word in ("%", "base:", "def put", "log."))]
    for candidate in propose(snapshot_of(MIXED), name):
        content = candidate.exercise["module.py"].decode()
        kept = [line.strip() for line in lines if line.strip() in content]
        gone = [line.strip() for line in lines if line.strip() not in content]
        assert kept and all(line.startswith(("raise ", "def put")) for line in gone), gone
        assert "raise" not in "".join(gone) or "no such place: %d" in content or name != "bug_arithmetic"


@pytest.mark.parametrize("name", NAMES)
def test_code_that_no_test_runs_is_left_alone(name, snapshot_of, propose):
    with pytest.raises(NotApplicable, match=f"{name} finds no.*; take another source"):
        propose(snapshot_of(MIXED, untested=range(1, 100)), name)


@pytest.mark.parametrize("name", NAMES)
def test_code_that_too_many_tests_run_is_left_alone(name, snapshot_of, propose):
    with pytest.raises(NotApplicable):
        propose(snapshot_of(MIXED), name, max_share=0.1)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_a_knob_keeps_one_kind_and_refuses_unknown_ones(name, snapshot_of, propose):
    every = {item.entity for item in propose(snapshot_of(MIXED), name)}
    knobs = GENERATORS.load(name)().knobs
    kinds = get_args(get_type_hints(knobs)["kind"])
    with pytest.raises(GeneratorError, match="knob kind cannot be 'nonsense'; choose one of all, "):
        parse_knobs(knobs, {"kind": "nonsense"})
    parts = []
    for kind in kinds:
        if kind != "all":
            with suppress(NotApplicable):
                parts += [item.entity for item in propose(snapshot_of(MIXED), name, kind=kind)]
    assert set(parts) == every


@pytest.mark.parametrize("name", NAMES)
def test_the_report_names_symptoms_and_not_the_mistake(name, snapshot_of, propose):
    context = StatementContext(
        package="shelf 1.0",
        failing=["tests/test_module.py::test_put_twice"],
        interface=[InterfaceItem(name="shelf.Shelf", kind="class")],
    )
    for candidate in propose(snapshot_of(MIXED), name):
        text = candidate.statement.render(context)
        assert "shelf 1.0" in text and "- put twice" in text and "`shelf.Shelf`" in text
        assert "module.py" not in text and name not in text and "self." not in text


def test_a_module_in_another_encoding_is_left_alone(snapshot_of, propose):
    snapshot = snapshot_of(MIXED)
    latin = b"# coding: latin-1\n" + MIXED.encode() + b"\nNAME = '\xe9'\n"
    (snapshot.tree / "module.py").write_bytes(latin)
    with pytest.raises(NotApplicable):
        propose(snapshot, "bug_arithmetic")


def test_mistakes_on_other_lines_come_before_a_second_one_on_a_line():
    places = [("compare", 1), ("compare", 1), ("compare", 2), ("swap", 1), ("swap", 3), ("drop", 2)]
    sites = [
        Site("shelf.py", Mutant(b"", kind, number, number, b""), (line,)) for number, (kind, line) in enumerate(places)
    ]
    order = other_lines_first(sites, lambda site: site.mutant.operator)
    shown = [(site.mutant.operator, site.lines[0]) for site in order]
    assert shown[:3] == [("compare", 1), ("swap", 3), ("drop", 2)]
    assert shown[3:] == [("compare", 1), ("swap", 1), ("compare", 2)] and order[3] is sites[1]
