"""Statements of deletions: three styles that say the same, and nothing twice or false."""

from __future__ import annotations

import pytest

from etude.generators.base import CallResult, Example, SessionLine, StatementContext
from etude.generators.library.deletion.documentation import redact_docstring
from etude.generators.library.deletion.statement import DeletionStatement, Entity, Member, OwnerClass, ReplacedCaller
from etude.generators.statements.examples import examples_text
from etude.models import InterfaceItem

STYLES = ("issue", "instruction", "terse")
OWNER = OwnerClass(
    "class Shelf(object)", "Room for books.", ["def put(self, book)", "def take(self)", "def sort(self)"]
)
TESTS = ["tests/test_shelf.py::ShelfTest::test_put_twice", "README.md::README.md"]


def method(name, **more):
    return Entity("shelf.core", f"Shelf.{name}", "method", f"def {name}(self)", f"Do {name}.", ["Full"], OWNER, **more)


def render(style="instruction", mode="stub", seed=0, context=None, target=None, **more):
    facts = context or StatementContext("shelf 1.0", TESTS, [])
    statement = DeletionStatement(target or method("put"), mode, "hidden", [], 0, 0, style=style, seed=seed, **more)
    return statement.render(facts)


def example(call, result, line="from shelf import full", setup=()):
    return Example("tests/test_shelf.py::test_put_twice[1]", (line,), setup, call, CallResult("value", result))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("mode", ["stub", "remove"])
def test_every_style_says_what_is_missing_and_how_it_behaves(style, mode):
    for seed in range(6):
        text = render(style, mode, seed)
        for part in ("`shelf.core.Shelf.put`", "shelf 1.0", "def put(self)", "> Do put.", "`Full`", "put twice"):
            assert part in text
        assert "\n\n\n" not in text and text.endswith("\n") and ("# " in text.splitlines()[0]) == (style != "terse")


def test_the_seed_draws_the_style_and_the_phrasing():
    texts = [render("seeded", seed=seed) for seed in range(20)]
    assert texts == [render("seeded", seed=seed) for seed in range(20)]
    assert len({text.splitlines()[0] for text in texts}) > 5
    for style in STYLES:
        assert len({render(style, seed=seed) for seed in range(20)}) > 1


@pytest.mark.parametrize("style", STYLES)
def test_a_class_is_shown_once_and_without_members_that_are_removed_too(style):
    entity = Entity("shelf.core", "Shelf.put", "method", "def put(self)", "", [], OWNER)
    text = render(style, "remove", target=entity, also_removed=[method("sort")])
    assert text.count("class Shelf(object)") == 1 and text.count("Room for books.") == 1
    assert "- `def take(self)`" in text and "- `def sort(self)`" not in text and "- `def put(self" not in text


@pytest.mark.parametrize("style", STYLES)
def test_what_has_to_be_restored_is_in_every_style(style):
    callers = [ReplacedCaller("shelf/core.py", "Shelf.fill", "self.put(1)")]
    text = render(style, "remove", names_to_restore=["`put` in `__all__`"], callers=callers)
    assert "- `put` in `__all__`" in text and "```python\nself.put(1)\n```" in text
    assert "Every name that referred to it is gone too." in text


def test_the_name_under_which_tests_use_the_target_is_not_listed_again():
    target = Entity("shelf._core", "full", "function", "def full(shelf)", "", ["KeyError"])
    items = [
        InterfaceItem(name="KeyError", kind="exception"),
        InterfaceItem(name="shelf.full", kind="function", signature="def full(shelf)"),
        InterfaceItem(name="shelf.Shelf", kind="class", signature="class Shelf(object)"),
        InterfaceItem(name="shelf.core.Shelf", kind="class", signature="class Shelf(object)"),
    ]
    text = render(context=StatementContext("shelf 1.0", TESTS, items), target=target)
    assert "Tests use it as `shelf.full`." in text and text.count("shelf.full") == 1 and text.count("KeyError") == 1
    assert "class Shelf(object)" not in text  # the workspace has it


@pytest.mark.parametrize("style", STYLES)
def test_an_example_shows_the_right_result(style):
    text = render(style, context=StatementContext("shelf 1.0", TESTS, [], examples=[example("full([])", "False")]))
    assert ">>> from shelf import full\n\n>>> # put twice\n>>> full([])\nFalse\n```" in text


def test_a_terse_statement_shows_three_examples_from_the_whole_suite():
    examples = [example(f"full({number})", "False") for number in range(9)]
    text = render("terse", context=StatementContext("shelf 1.0", TESTS, [], examples=examples))
    assert [line for line in text.splitlines() if line.startswith(">>> full")] == [
        ">>> full(0)",
        ">>> full(3)",
        ">>> full(6)",
    ]


def test_examples_share_their_imports_unless_these_bind_a_name_twice():
    one, other = example("full([])", "False"), example("Shelf()", "<Shelf>", "from shelf.core import Shelf")
    text = examples_text([one, other])
    assert text.count("```pycon") == 1
    assert text.startswith("```pycon\n>>> from shelf import full\n>>> from shelf.core import Shelf\n\n>>> #")
    assert examples_text([one, example("full()", "1", "from other import full")]).count("```pycon") == 2
    assert examples_text([one, example("1", "1", setup=[SessionLine("full = 3")])]).count("```pycon") == 1
    assert examples_text([one, example("1", "1", "import x", setup=[SessionLine("full = 3")])]).count("```pycon") == 2


def test_only_keywords_messages_and_unnamed_exceptions_of_the_interface_are_listed():
    items = [
        InterfaceItem(name="put(twice=)", kind="keyword"),
        InterfaceItem(name="is full", kind="message"),
        InterfaceItem(name="shelf.core.Full", kind="exception"),
        InterfaceItem(name="LookupError", kind="exception"),
        InterfaceItem(name="shelf.core.take", kind="function", signature="def take(shelf)"),
    ]
    text = render(context=StatementContext("shelf 1.0", TESTS, items))
    listed = text.partition("## Interface")[2]
    assert "twice=" in listed and "is full" in listed and "LookupError" in listed
    assert "shelf.core.Full" not in listed and "take" not in listed  # "It raises `Full`", and the workspace has `take`


def test_documents_that_lost_parts_are_named():
    assert "`README.md` has lost the examples" in render(documents=["README.md"])
    assert "`a.md`, `b.md` and `c.md` have lost" in render("issue", documents=["a.md", "b.md", "c.md"])
    assert "have lost" not in render() and "has lost" not in render()


def test_doctests_are_named_by_their_document():
    assert "- the examples of `README.md`" in render()


def test_members_of_a_class_are_listed():
    target = Entity("shelf.core", "Shelf", "class", "class Shelf", "", [], members=[Member("def put(self)", "Put it.")])
    for style in STYLES:
        assert "- `def put(self)`\n\n  Put it.\n" in render(style, target=target)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Put it.\n\nExamples:\n\n.. doctest::\n\n    >>> put(1)\n    1\n\n:param x: it", "Put it.\n\n:param x: it"),
        ("Put it. For example::\n\n    >>> put(1)\n    1\n\nMore.", "Put it.\n\nMore."),
        (
            "Put it.\n\nExamples\n--------\n>>> put(1)\n1\n\nReturns\n-------\nint\n",
            "Put it.\n\nReturns\n-------\nint\n",
        ),
        ("EXAMPLE: put(1, 2) is equivalent to:\n\n>>> put(1)\n1\n", ""),
        ("Put it.\n\n>>> put(1)\n1\n\n>>> put(2)\n2\n\nThe end.", "Put it.\n\nThe end."),
        (
            "Put it.\n\n    A custom `form` controls how the fractional part is\n    represented:\n\n"
            "    ```pycon\n    >>> put(1)\n    1\n    ```\n\n    For example putting one and still having room "
            "for two:\n\n    ```pycon\n    >>> put(1)\n\n    ```\n",
            "Put it.\n\n    A custom `form` controls how the fractional part is\n    represented.\n\n",
        ),
        ("No examples here:\n\n    code\n", "No examples here:\n\n    code\n"),
    ],
)
def test_nothing_that_only_leads_to_an_example_stays(text, redacted):
    assert redact_docstring(text) == redacted
