"""Examples: calls of failing tests with the results of the right tree, which the workspace does not give."""

from __future__ import annotations

import asyncio

import pytest
from helpers.deleted_total import snapshot_of
from helpers.small_tasks import PROJECT

from etude.environments.snapshots import make_patch, scratch_tree
from etude.generators.base import CallResult, SessionLine
from etude.generators.python.source_tree import SourceTree
from etude.generators.statements.examples import session_text
from etude.generators.validation.measured_stages import Stages
from etude.generators.validation.observation.examples import first_cases, spread
from etude.generators.validation.observation.failing_calls import Observation

LIBRARY = '''"""Books on shelves."""

import random


def shorten(title, width=20):
    """Return the title, cut."""
    if width < 0:
        raise ValueError("a title needs room")
    return title[:width]


def genres(title):
    """Return the genres of a book."""
    return set(title.split())


def pick(title):
    """Return a letter."""
    return random.choice(title)


def stepped(title, step):
    """Return what a function makes of the title."""
    return step(title)


class Shelf:
    """Room for books."""

    def __init__(self):
        self.books = []

    def put(self, title):
        self.books.append(title)

    def __len__(self):
        return len(self.books)


class Label:
    """A label with a text."""

    def __init__(self, title):
        self.title = title

    def __repr__(self):
        return f"<{self.title}>"

    def text(self, word):
        return f"{self} {word}"

    def __getattr__(self, name):
        return None  # of any name, such as __next__


class Card:
    """A card with a name."""

    def __init__(self, name):
        self.name = name.lower()
'''
TESTS = """import pytest

from library import Card, Label, Shelf, genres, pick, shorten, stepped


@pytest.mark.parametrize("title", ["Emma", "Ulysses"])
def test_short(title):
    assert shorten(title) == title


def test_cut():
    assert shorten("Pride and Prejudice", 5) == "Pride"


def test_again():
    assert shorten("Emma") == "Emma"


def test_no_room():
    with pytest.raises(ValueError):
        shorten("Emma", -1)


def test_genres():
    assert genres("crime drama satire") == {"crime", "drama", "satire"}


def test_pick():
    assert pick("E") == "E"


def test_shelf():
    shelf = Shelf()
    assert len(shelf) == 0
    shelf.put("Emma")
    assert len(shelf) == 1


def test_step():
    def upper(title):

        return title.upper()

    assert stepped("Emma", upper) == "EMMA"


def test_own_step():
    number = 2

    def times(title):
        return title * number

    assert stepped("E", times) == "EE"


def test_label():
    label = Label("E")
    assert label.text("of") == "<E> of"
    assert repr(label) == "<E>"


def test_card():
    assert Card("EMMA").name == "emma"
"""
MODULE = "src/library/__init__.py"
FILES = {"pyproject.toml": PROJECT.format(name="library"), MODULE: LIBRARY, "tests/test_library.py": TESTS}


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    return snapshot_of(tmp_path_factory.mktemp("source") / "library", FILES)


@pytest.fixture
def observed(snapshot):
    """Return ``observed(right, wrong, test, ...)``: replace a text of the package and return examples of the tests."""

    def observe(right, wrong, *tests, names=()):
        assert right in LIBRARY
        patch = make_patch({MODULE: LIBRARY.encode()}, {MODULE: LIBRARY.replace(right, wrong).encode()})
        with scratch_tree(snapshot, patch) as exercise:
            observation = Observation(Stages(snapshot), SourceTree.of(snapshot), exercise)
            return asyncio.run(observation.examples([f"tests/test_library.py::test_{test}" for test in tests], names))

    return observe


CUT = ("    if width < 0:\n", "    raise NotImplementedError\n    if width < 0:\n")


def test_half_of_the_functions_have_an_example_and_a_parametrised_one_shows_one_case(observed):
    tests = ("short[Emma]", "short[Ulysses]", "cut", "again", "no_room")
    examples = observed(*CUT, *tests)
    assert [(item.test.partition("::")[2], item.call) for item in examples] == [
        ("test_short[Emma]", "shorten('Emma')"),
        ("test_cut", "shorten('Pride and Prejudice', width=5)"),
    ]
    assert observed(*CUT, *tests) == examples


def test_an_example_shows_the_right_result_or_exception(observed):
    (example,) = observed(*CUT, "cut")
    assert example.imports == ("from library import shorten",)
    assert example.result == CallResult("value", "'Pride'")
    (example,) = observed(*CUT, "no_room")
    assert example.result == CallResult("raises", "ValueError: a title needs room")


def test_the_same_call_of_two_tests_is_shown_once(observed):
    assert len(observed(*CUT, "short[Emma]", "again", "pick", "genres")) == 1


def test_a_name_that_cannot_be_imported_is_a_difference(observed):
    (example,) = observed("def shorten", "def _unused", "cut")
    assert example.call == "shorten('Pride and Prejudice', width=5)"


def test_the_order_of_sets_and_chance_are_not_shown(observed):
    assert observed("return set(title.split())", "raise NotImplementedError", "genres") == []
    assert observed("return random.choice(title)", "raise NotImplementedError", "pick") == []


def test_lines_before_the_call_may_be_what_the_workspace_cannot_run(observed):
    (example,) = observed("self.books.append(title)", "raise NotImplementedError", "shelf")
    assert example.setup == (SessionLine("shelf = Shelf()"), SessionLine("shelf.put('Emma')"))
    assert (example.call, example.result.text) == ("len(shelf)", "1")


def test_an_attribute_is_shown_of_an_object_that_shows_nothing_itself(observed):
    (example,) = observed("self.name = name.lower()", "raise NotImplementedError", "card")
    assert (example.call, example.result.text) == ("Card('EMMA').name", "'emma'")


def test_a_call_that_still_gives_its_result_is_no_example(observed):
    assert observed("title[:width]", "title[:width].strip()", "cut") == []


def test_a_function_that_the_test_defines_is_shown_with_the_call(observed):
    (example,) = observed("return step(title)", "raise NotImplementedError", "step")
    assert example.imports == ("from library import stepped", "def upper(title):\n    return title.upper()")
    assert (example.call, example.result.text) == ("stepped('Emma', upper)", "'EMMA'")
    assert session_text(example).startswith(">>> def upper(title):\n...     return title.upper()\n>>> stepped(")
    assert observed("return step(title)", "raise NotImplementedError", "own_step") == []  # it needs what is around it


def test_tests_with_words_of_the_subject_are_preferred(observed):
    tests = ("short[Emma]", "cut", "again", "no_room")
    for names, second in (([], "test_cut"), (["has_room"], "test_no_room")):
        examples = observed(*CUT, *tests, names=names)
        assert [item.test.partition("::")[2] for item in examples] == ["test_short[Emma]", second]


def test_calls_that_spell_a_missing_name_are_preferred_and_objects_are_not_only_made(observed):
    broken = ("        return f", "        raise NotImplementedError\n        return f")
    assert [item.call for item in observed(*broken, "label")] == ["repr(Label('E'))"]
    assert [item.call for item in observed(*broken, "label", names=["text"])] == ["Label('E').text('of')"]


def test_tests_are_taken_from_the_whole_suite():
    assert spread(10, 4) == [0, 2, 5, 7] and spread(3, 10) == [0, 1, 2] and spread(0, 3) == []
    assert first_cases(["a::x[1]", "a::x[2]", "a::y"]) == ["a::x[1]", "a::y"]
