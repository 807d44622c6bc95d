"""Observation: of the calls that failing tests make, one whose result is wrong, as a user can type it."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from helpers.deleted_total import snapshot_of
from helpers.small_tasks import PROJECT

from etude.environments.snapshots import make_patch, scratch_tree
from etude.generators.base import CallResult, SessionLine
from etude.generators.engine.warm_batch import WarmBatch
from etude.generators.engine.warm_suite import WarmSuite
from etude.generators.python.source_tree import SourceTree
from etude.generators.validation.measured_stages import Stages
from etude.generators.validation.observation.failing_calls import Observation, OnRightTree
from etude.generators.validation.observation.session_runs import SessionGroup, SessionRuns, Way
from etude.generators.validation.observation.sessions import Session

LIBRARY = '''"""Books on shelves."""

import datetime
import os
import random
import subprocess
import sys


def shorten(title, width=20, *, mark="..."):
    """Return the title, with a mark where it is cut."""
    if len(title) <= width:
        return title
    return title[: width - len(mark)] + mark


def due(day, weeks):
    """Return the day on which a book is due."""
    return day + datetime.timedelta(weeks=weeks)


def titles(books):
    """Yield the titles."""
    for book in books:
        yield book.title()


def age(year):
    """Return the age of a book in years."""
    return datetime.date.today().year - year


def pick(books):
    """Return any book."""
    return random.choice(books)


def apply(function, title):
    """Return what a function makes of a title."""
    return function(title).strip()


def tagged(prefix):
    """Return a function that puts a prefix before titles."""

    def tag(title):
        return prefix + title

    return tag


def note(title):
    """Return how many titles were noted."""
    with open("notes.txt", "a+") as file:
        file.write(title + "\\n")
        file.seek(0)
        return len(file.readlines())


def elsewhere(title):
    """Return a title that another process has cut."""
    program = "import library, sys; print(library.shorten(sys.argv[1]))"
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(__file__))}
    return subprocess.run([sys.executable, "-c", program, title], env=environment, stdout=-1, text=True).stdout


class Shelf:
    """Room for books."""

    def __init__(self, room=10):
        self.room = room
        self._books = []

    def put(self, title):
        if len(self._books) >= self.room:
            raise OverflowError("the shelf is full")
        self._books.append(title)

    def __len__(self):
        return len(self._books)

    def __iter__(self):
        return iter(self._books)

    @property
    def first(self):
        return self._books[0]


class Card:
    """A card with a name."""

    def __init__(self, name):
        self.name = name.lower()
'''
TESTS = """import datetime

import pytest

from library import Card, Shelf, age, apply, due, pick, shorten, tagged, titles


def test_short():
    assert shorten("Emma") == "Emma"


def test_long():
    assert shorten("Pride and Prejudice", 10, mark="~") == "Pride and~"


def test_due():
    assert due(datetime.date(2024, 2, 1), weeks=4) == datetime.date(2024, 2, 29)


def test_titles():
    assert list(titles(["emma", "ulysses"])) == ["Emma", "Ulysses"]


def test_age():
    assert age(datetime.date.today().year - 3) == 3


def test_pick():
    assert pick(["emma"]) == "emma"


def test_apply():
    assert apply(lambda text: text.upper() + " ", "emma") == "EMMA"


def test_tagged():
    assert tagged("the ")("waves") == "the waves"


def test_full_shelf():
    shelf = Shelf(room=1)
    shelf.put("Emma")
    assert len(shelf) == 1
    with pytest.raises(OverflowError):
        shelf.put("Ulysses")


def test_first():
    shelf = Shelf()
    assert len(shelf) == 0
    shelf.put("Emma")
    shelf.put("Ulysses")
    assert shelf.first == "Emma"


def test_iteration():
    shelf = Shelf()
    shelf.put("Emma")
    shelf.put("Ulysses")
    assert [book for book in shelf] == ["Emma", "Ulysses"]


def test_card():
    assert Card("EMMA").name == "emma"


def test_own_object():
    class Title(str):
        pass

    assert shorten(Title("Emma")) == "Emma"
"""
MODULE = "src/library/__init__.py"
FILES = {
    "pyproject.toml": PROJECT.format(name="library"),
    MODULE: LIBRARY,
    "tests/test_library.py": TESTS,
}


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    return snapshot_of(tmp_path_factory.mktemp("source") / "library", FILES)


@pytest.fixture(params=["in a tree of its own", "in a running process"])
def observed(snapshot, request):
    """Return ``observed(right, wrong, test)``, which replaces a text of the package and observes the test.

    In the second way the tree of the exercise is the right one, so that only the exchanged functions can differ.
    """

    def observe(right, wrong, *tests):
        changes, more = patch(right, wrong), {}
        if request.param == "in a running process":
            more = {"changed": {MODULE: LIBRARY.replace(right, wrong).encode()}}
            more["warm"] = WarmBatch(WarmSuite(snapshot))
            more["right"] = OnRightTree(runs=SessionRuns(snapshot, snapshot.tree))
            changes = ""
        with scratch_tree(snapshot, changes) as exercise:
            observation = Observation(Stages(snapshot), SourceTree.of(snapshot), exercise, **more)
            return asyncio.run(observation.failing_calls([f"tests/test_library.py::{test}" for test in tests]))

    return observe


def patch(right, wrong):
    assert right in LIBRARY
    return make_patch({MODULE: LIBRARY.encode()}, {MODULE: LIBRARY.replace(right, wrong).encode()})


def test_a_call_shows_what_it_gives_and_what_it_should(observed):
    (call,) = observed("<= width", "< 0", "test_short")
    assert (call.imports, call.setup, call.call) == (("from library import shorten",), (), "shorten('Emma')")
    assert call.expected == CallResult("value", "'Emma'") and call.actual == CallResult("value", "'Emma...'")


def test_arguments_that_are_not_defaults_are_written(observed):
    (call,) = observed("width - len(mark)", "width", "test_long")
    assert call.call == "shorten('Pride and Prejudice', width=10, mark='~')"


def test_values_of_the_standard_library_are_written_with_their_imports(observed):
    (call,) = observed("day + ", "day - ", "test_due")
    assert call.imports == ("import datetime", "from library import due")
    assert call.call == "due(datetime.date(2024, 2, 1), 4)"
    assert call.expected.text == "datetime.date(2024, 2, 29)"


def test_the_items_of_an_iterator_are_shown(observed):
    (call,) = observed("book.title()", "book", "test_titles")
    assert call.call == "list(titles(['emma', 'ulysses']))" and call.actual.text == "['emma', 'ulysses']"


def test_a_loop_over_an_object_is_shown_as_a_list(observed):
    (call,) = observed("iter(self._books)", "iter(self._books[1:])", "test_iteration")
    assert call.call == "list(shelf)" and call.expected.text == "['Emma']" and call.actual.text == "[]"


def test_a_lambda_is_quoted_and_a_function_that_a_call_gives_can_be_called(observed):
    (call,) = observed(".strip()", "", "test_apply")
    assert call.call == """apply(lambda text: text.upper() + " ", 'emma')"""
    (call,) = observed("prefix + title", "title + prefix", "test_tagged")
    assert call.call == "tagged('the ')('waves')"


def test_an_object_is_made_first_and_lines_that_do_not_matter_are_left_out(observed):
    (call,) = observed(">= self.room", "> self.room", "test_full_shelf")
    assert call.setup == (SessionLine("shelf = Shelf(room=1)"), SessionLine("shelf.put('Emma')"))
    assert call.call == "shelf.put('Ulysses')" and call.actual == CallResult("nothing", "")
    assert call.expected == CallResult("raises", "OverflowError: the shelf is full")
    (call,) = observed("_books[0]", "_books[-1]", "test_first")
    assert [line.text for line in call.setup] == ["shelf = Shelf()", "shelf.put('Emma')", "shelf.put('Ulysses')"]
    assert call.call == "shelf.first" and call.expected.text == "'Emma'"


def test_an_attribute_is_asked_for_when_the_object_itself_shows_nothing(observed):
    (call,) = observed("name.lower()", "name", "test_card")
    assert call.call == "Card('EMMA').name" and call.actual.text == "'EMMA'"


def test_nothing_is_shown_that_depends_on_the_day_or_on_chance(observed):
    assert observed("year - year", "year + year", "test_age") == []
    assert observed("random.choice(books)", "random.choice(books) + '!'", "test_pick") == []


def test_nothing_is_shown_when_an_argument_cannot_be_written(observed):
    assert observed("<= width", "< 0", "test_own_object") == []


def test_the_shortest_of_some_tests_is_shown_and_every_run_gives_the_same(observed):
    tests = ("test_long", "test_own_object", "test_short")
    runs = [observed("return title\n", "return title[1:]\n", *tests) for _ in range(2)]
    assert runs[0] == runs[1] and runs[0][0].call == "shorten('Emma')"


def test_the_lines_run_as_they_are_printed(observed, snapshot):
    (call,) = observed("_books[0]", "_books[-1]", "test_first")
    program = "\n".join([*call.imports, *(line.text for line in call.setup), f"print(repr({call.call}))"])
    with scratch_tree(snapshot, patch("_books[0]", "_books[-1]")) as exercise:
        for tree, result in ((snapshot.tree, call.expected), (exercise, call.actual)):
            done = subprocess.run([sys.executable, "-c", program], cwd=tree / "src", capture_output=True, text=True)
            assert done.stdout.strip() == result.text, done.stderr


def test_groups_share_a_sandbox_and_each_has_its_own_code(snapshot):
    session = Session(("from library import shorten",), ("shorten('Emma')",), raised=False)
    broken = LIBRARY.replace("<= width", "< 0").encode()
    outside = LIBRARY.replace("class Shelf", "SHELVES = 2\n\n\nclass Shelf").encode()
    deadly = LIBRARY.replace("    if len(title) <= width", "    import os; os.kill(os.getppid(), 9)\n    if 1").encode()
    assert b"getppid" in deadly and outside != LIBRARY.encode()
    files = [{}, {MODULE: broken}, {MODULE: outside}, {MODULE: deadly}, {}]
    groups = [SessionGroup((session,), Way(number % 2), contents) for number, contents in enumerate(files)]
    first, second, third, fourth, fifth = asyncio.run(SessionRuns(snapshot, snapshot.tree).run(groups))
    assert [first[0][-1]["text"], second[0][-1]["text"]] == ["'Emma'", "'Emma...'"]
    assert third is None and fourth == [()] and fifth == first


def test_groups_do_not_see_what_others_write_or_start(snapshot):
    noting = Session(("from library import note",), ("note('Emma')",), raised=False)
    reading = Session(("from library import elsewhere",), ("elsewhere('Emma')",), raised=False)
    changed = {MODULE: LIBRARY.replace("<= width", "< 0").encode()}
    groups = [SessionGroup((item,), Way(), files) for item in (noting, reading) for files in ({}, changed)] * 2
    groups += [SessionGroup((noting, noting), Way(apart=False), {})]
    outcomes = asyncio.run(SessionRuns(snapshot, snapshot.tree).run(groups))
    shown = [[item[-1]["text"] for item in group] if group is not None else None for group in outcomes]
    assert shown == [["1"], None, ["'Emma\\n'"], None] * 2 + [["1", "2"]]


def test_a_function_that_runs_at_a_late_import_is_not_exchanged(tmp_path):
    lazy = "from late import build\n\nTABLE = build()\n"
    package = "def build():\n    return 1\n\n\ndef table():\n    from late.lazy import TABLE\n\n    return TABLE\n"
    test = "from late import build, table\n\n\ndef test_table():\n    assert (build(), table()) == (1, 1)\n"
    files = {"src/late/__init__.py": package, "src/late/lazy.py": lazy, "tests/test_late.py": test}
    late = snapshot_of(tmp_path / "late", {"pyproject.toml": PROJECT.format(name="late"), **files})
    changed = {"src/late/__init__.py": package.replace("return 1", "return 2").encode()}
    imported = Session(("from late import build, lazy",), ("(build(), lazy.TABLE)",), raised=False)
    called = Session(("from late import build, table",), ("(build(), table())",), raised=False)
    groups = [SessionGroup((item,), Way(), changed) for item in (imported, called)]
    first, second = asyncio.run(SessionRuns(late, late.tree).run(groups))
    assert first is None and second[0][-1]["text"] == "(2, 2)"


def test_a_change_outside_of_functions_is_observed_in_the_tree_of_the_exercise(snapshot):
    contents = LIBRARY.replace("width=20", "width=2")
    assert contents != LIBRARY
    more = {"changed": {MODULE: contents.encode()}, "warm": WarmBatch(WarmSuite(snapshot))}
    with scratch_tree(snapshot, make_patch({MODULE: LIBRARY.encode()}, {MODULE: contents.encode()})) as exercise:
        right = OnRightTree(runs=SessionRuns(snapshot, snapshot.tree))
        observation = Observation(Stages(snapshot), SourceTree.of(snapshot), exercise, right, **more)
        (call,) = asyncio.run(observation.failing_calls(["tests/test_library.py::test_short"]))
    assert call.call == "shorten('Emma')" and call.actual.text == "'Emm...'"
