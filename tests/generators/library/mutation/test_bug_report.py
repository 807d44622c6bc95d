"""Bug reports: the symptom in one of three styles, with a reproduction where there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from etude.generators.base import CallResult, FailingCall, SessionLine, StatementContext
from etude.generators.library.mutation.bug_report import BugReport
from etude.models import InterfaceItem

TESTS = ["tests/test_shelf.py::test_full", "tests/test_shelf.py::ShelfTest::test_put_twice"]
TRUE, FALSE = CallResult("value", "True"), CallResult("value", "False")
CALL = FailingCall(["from shelf import full"], [SessionLine("books = [1]")], "full(books, 1)", TRUE, FALSE)
STYLES = ("issue", "instruction", "terse")


def context(call=CALL, **more):
    return StatementContext("shelf 1.0", TESTS, [], failing_calls=[call] if call else [], **more)


def reports(style, call=CALL, policy="hidden", **more):
    """Return the texts of one style that ten seeds give."""
    return [BugReport(policy, style, seed, "key").render(context(call, **more)) for seed in range(10)]


@pytest.mark.parametrize("style", STYLES)
def test_the_reproduction_is_a_console_session(style):
    session = ">>> from shelf import full\n>>> books = [1]\n>>> full(books, 1)\nFalse\n```\n"
    for text in reports(style):
        assert session in text and "`True`" in text and "put twice" in text
        assert text.endswith("\n") and "\n\n\n" not in text


def test_titles_name_the_symptom():
    for style in ("issue", "instruction"):
        for text in reports(style):
            title = text.splitlines()[0]
            assert title.startswith("# ") and "`full(books, 1)`" in title and "`False`" in title


@pytest.mark.parametrize("style", STYLES)
def test_each_style_has_several_phrasings_and_one_seed_gives_one(style):
    assert len(set(reports(style))) > 2
    assert reports(style) == reports(style)


def test_the_seed_draws_the_style():
    texts = [BugReport("hidden", "seeded", seed, "key").render(context()) for seed in range(20)]
    titled = [text for text in texts if text.startswith("# ")]
    assert 3 < len(titled) < 20
    assert texts == [BugReport("hidden", "seeded", seed, "key").render(context()) for seed in range(20)]


def test_a_terse_report_has_no_title_and_at_most_three_sentences_around_the_session():
    for text in reports("terse"):
        prose = text.split("```")[0] + text.split("```")[2]
        assert not text.startswith("#") and prose.count(".\n") + prose.count(". ") <= 4


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        (TRUE, CallResult("raises", "shelf.errors.Full: no room"), ["Full", "return `True`"]),
        (CallResult("raises", "ValueError: no shelf"), FALSE, ["ValueError", "raise `ValueError: no shelf`"]),
        (
            CallResult("raises", "ValueError: no shelf"),
            CallResult("raises", "TypeError: x"),
            ["TypeError", "ValueError"],
        ),
        (CallResult("nothing", ""), CallResult("raises", "TypeError: x"), ["TypeError", "`None`"]),
        (TRUE, CallResult("nothing", ""), ["`True`", "None"]),
        (CallResult("value", "1\n2"), CallResult("value", "1"), ["```\n1\n2\n```"]),
        (
            CallResult("nothing", "", "a\n"),
            CallResult("nothing", "", "b\n"),
            [">>> full(books, 1)\nb\n```", "```\na\n```"],
        ),
    ],
)
def test_every_kind_of_result_is_described(expected, actual, words):
    call = FailingCall(CALL.imports, CALL.setup, CALL.call, expected, actual)
    for style in STYLES:
        for text in reports(style, call):
            assert all(word in text for word in words), text


def test_an_exception_in_the_session_looks_like_a_traceback():
    call = FailingCall([], [], "full(None, 1)", FALSE, CallResult("raises", "TypeError: no books"))
    session = ">>> full(None, 1)\nTraceback (most recent call last):\n  ...\nTypeError: no books\n```"
    assert all(session in text for text in reports("issue", call))


def test_backticks_in_a_value_do_not_end_the_code():
    call = FailingCall([], [], "full('`')", CallResult("value", "'``` `'"), FALSE)
    for text in reports("instruction", call):
        assert "`` full('`') ``" in text and "```` '``` `' ````" in text


@pytest.mark.parametrize("style", STYLES)
def test_without_a_call_the_report_says_how_tests_fail_and_shows_no_session(style):
    messages = {TESTS[0]: "AssertionError: assert 1 == 2", TESTS[1]: "Failed: DID NOT RAISE <class 'shelf.Full'>"}
    names = [InterfaceItem(name="shelf.full", kind="function"), InterfaceItem(name="KeyError", kind="exception")]
    for seed in range(5):
        facts = StatementContext("shelf 1.0", TESTS, names, messages)
        text = BugReport("hidden", style, seed, "key").render(facts)
        assert ">>>" not in text and "shelf 1.0" in text and "- full" in text and "`shelf.full`" not in text
        assert "`AssertionError: assert 1 == 2`" in text and "no `Full` is raised" in text and "KeyError" not in text


@pytest.mark.parametrize("style", STYLES)
def test_names_are_given_where_nothing_else_says_what_is_affected(style):
    names = [InterfaceItem(name="shelf.full", kind="function"), InterfaceItem(name="KeyError", kind="exception")]
    text = BugReport("hidden", style, 0, "key").render(StatementContext("shelf 1.0", TESTS, names))
    assert "`shelf.full`" in text and "KeyError" not in text
    bare = {TESTS[0]: "AssertionError"}
    text = BugReport("hidden", style, 0, "key").render(StatementContext("shelf 1.0", TESTS, names, bare))
    assert "`shelf.full`" in text  # an assertion without a message says nothing


def test_a_long_error_instead_of_nothing_is_said_in_words():
    call = replace(CALL, expected=CallResult("nothing", ""), actual=CallResult("raises", f"TypeError: {'x' * 90}"))
    (text, *_) = reports("terse", call)
    assert "Expected:\n\nNothing (`None`)." in text


@pytest.mark.parametrize("policy", ["visible", "half"])
def test_tests_that_the_workspace_shows_are_named(policy):
    for call in (CALL, None):
        for style in STYLES:
            for text in reports(style, call, policy):
                assert all(f"- `{test}`" in text for test in TESTS)


def test_two_mistakes_are_announced():
    assert "Two places of the code are wrong" in BugReport("hidden", "terse", 0, "key", mistakes=2).render(context())
