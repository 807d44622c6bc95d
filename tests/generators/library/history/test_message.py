"""Messages of commits as prose: numbers, addresses, hashes, people and trailers are gone, the content stays."""

from __future__ import annotations

import pytest

from etude.generators.library.history.message import describe
from etude.generators.library.history.usefulness import useless


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("fix(cli): keep the order of options (#123)", "Keep the order of options"),
        ("BUG: keep the order of options, closes gh-12", "Keep the order of options"),
        ("Fixed #321 -- Keep the order of options.", "Keep the order of options"),
        ("[3.2.x] Keep the order of options", "Keep the order of options"),
        (":bug: Keep the order of options", "Keep the order of options"),
        ("Merge pull request #9 from ada/order\n\nKeep the order of options", "Keep the order of options"),
    ],
)
def test_a_title_loses_prefixes_and_numbers(message, expected):
    assert describe(message).title == expected


def test_a_body_loses_trailers_people_hashes_and_addresses():
    message = """Keep the order of options

Since commit 1a2b3c4d5e the order was lost, see https://example.invalid/x/1.
Patch by Grace Hopper. Options come as declared, as `@option` gives them.

Found by @ada in review. [The manual](https://example.invalid/manual) says so, and Grace Hopper agrees.

Signed-off-by: Grace Hopper <grace@example.invalid>
Co-authored-by: Ada <ada@example.invalid>
"""
    text = describe(message, {"Grace Hopper"}).text
    for secret in ("1a2b3c4d5e", "example.invalid", "Grace", "Hopper", "@ada", "Co-authored", "Signed"):
        assert secret not in text
    assert "Options come as declared, as `@option` gives them." in text
    assert "The manual says so" in text


def test_a_body_loses_list_entries_without_a_behaviour():
    entries = "* Keep the order in help too\n\n* fix lint\n\n* Update test_cli.py\n\n* wip\n\n---------\n"
    message = f"Keep the order of options (#4)\n\n{entries}"
    assert describe(message).body == "* Keep the order in help too"


@pytest.mark.parametrize(
    "line",
    [
        *("* Added test_order, 1122 passed", "ruff and mypy clean", "TODO: the other order", "* fix packaging tox job"),
        *("All 12 tests pass", "- initial test and impl", "Adds two regression tests"),
    ],
)
def test_a_body_loses_lines_about_the_authors_work(line):
    assert describe(f"Keep the order of options\n\nKeep it in help too.\n\n{line}").body == "Keep it in help too."


def test_an_image_in_a_body_stays():
    text = "Turn `![alt](javascript:x)` into a harmless address."
    assert describe(f"Keep the order of options\n\n{text}").body == text


def test_code_and_parentheses_in_a_body_stay():
    text = "Call show() as before, see gh-7, or `schema . name` (by @ada in #3).\n\n    first  = 1\n"
    message = f"Keep the order of options\n\n{text}"
    assert describe(message).body == "Call show() as before, or `schema . name`.\n\n    first  = 1"


def test_a_decorator_of_the_code_base_stays_and_an_account_goes():
    message = "Keep statistics when @retry is wrapped\n\nFixed together with @ada. Thanks :user:`ada` for the report."
    description = describe(message, (), {"retry"})
    assert description.title == "Keep statistics when @retry is wrapped"
    assert "ada" not in description.body


def test_a_title_that_starts_with_a_name_of_the_code_keeps_its_letter():
    assert describe("wait_chain: refuse an empty list").title == "wait_chain: refuse an empty list"


def test_a_wrapped_title_is_joined():
    assert describe("Keep the order of options\nin the help text\n\nMore.").title == (
        "Keep the order of options in the help text"
    )


@pytest.mark.parametrize(
    "title",
    ["Fix", "Update code", "wip", "Fix tests", "Docs: options", "Typing of options", "Speed up parsing of options"],
)
def test_titles_that_say_no_behaviour_are_useless(title):
    assert useless(title, "")


@pytest.mark.parametrize(
    "title",
    ["Keep the declared order of options", "Accept black as a colour of text", "Split arguments at quoted commas"],
)
def test_titles_that_say_a_behaviour_are_not_useless(title):
    body = "Each option keeps its own place."
    assert (useless(title, body) == "") == (not title.startswith("Split"))
