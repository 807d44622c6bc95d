"""Which bodies of one expression are tried in place of a deleted function."""

from __future__ import annotations

import pytest

from etude.environments.grading.out_of_process.guesses import guesses

PRISTINE = """
def quote(text, safe=""):
    raise NotImplementedError


def quote_plus(text, safe=""):
    return text


def unquote(text):
    return text


def needs_two(text, other):
    return text


async def later(text):
    return text


class Path:
    def __init__(self, parts):
        self.parts = parts

    @property
    def name(self):
        return ""

    def joined(self, other):
        raise NotImplementedError

    def added(self, *others):
        return self

    @staticmethod
    def of(text):
        return text

    def steps(self):
        raise NotImplementedError
"""
QUOTE = "def quote(text, safe=''):\n    {}\n"
METHOD = "class Path:\n    def {}:\n        {}\n"


@pytest.mark.parametrize(
    ("name", "solved", "expected"),
    [
        (
            "quote",
            QUOTE.format("return text.upper()"),
            ["text", "repr(text)", "str(text)", "quote_plus(text)", "unquote(text)"],
        ),
        ("quote", QUOTE.format("return str(quote_plus(text))"), ["text", "repr(text)", "unquote(text)"]),
        ("quote", QUOTE.format("yield text"), []),
        (
            "Path.joined",
            METHOD.format("joined(self, other)", "return Path([other])"),
            ["other", "repr(other)", "str(other)", "self.__init__(other)", "self.added(other)"],
        ),
        (
            "Path.steps",
            METHOD.format("steps(self)", "return self.parts"),
            ["self", "repr(self)", "str(self)", "self.added()"],
        ),
        ("Path.gone", METHOD.format("gone(self)", "return self.parts"), []),
    ],
)
def test_guesses_are_what_the_solution_does_not_use_itself(name: str, solved: str, expected: list[str]) -> None:
    found = dict(guesses(PRISTINE.encode(), solved.encode(), name))
    assert sorted(found) == sorted(expected)
    for expression, text in found.items():
        assert f"return {expression}".encode() in text
        compile(text, "module", "exec")
