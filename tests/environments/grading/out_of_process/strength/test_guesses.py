"""Guesses: the one-line bodies that are tried in place of a deleted function."""

from __future__ import annotations

import pytest

from etude.environments.grading.out_of_process.strength.guesses import guessed_together, guesses, negated

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


def test_the_body_of_the_solution_itself_is_no_guess() -> None:
    found = dict(guesses(PRISTINE.encode(), QUOTE.format("return text").encode(), "quote"))
    assert "text" not in found and "repr(text)" in found


@pytest.mark.parametrize(
    ("name", "call", "expected"),
    [
        ("is_even", "is_even(3)", True),
        ("Number.is_small", "Number(3).is_small", False),
        ("Number.is_of", "Number.is_of(3)", False),
        ("missing", "", None),
        ("empty", "", None),
        ("steps", "", None),
    ],
)
def test_the_opposite_of_a_function_keeps_its_kind(name: str, call: str, expected: bool | None) -> None:
    source = (
        '"""Numbers."""\nfrom __future__ import annotations\n\ndef is_even(n):\n    return n % 2 == 0\n\n'
        "def empty(n):\n    raise NotImplementedError\n\ndef steps(n):\n    yield n\n\n"
        "class Number:\n    def __init__(self, n):\n        self.n = n\n    @property\n    def is_small(self):\n"
        "        return self.n < 9\n    @classmethod\n    def is_of(cls, n):\n        return True\n"
    )
    text = negated(source.encode(), name)
    if expected is None:
        assert text == b""
        return
    scope: dict[str, object] = {}
    exec(compile(text, "module", "exec"), scope)
    assert eval(call, scope) is expected


def test_functions_are_guessed_together_with_one_kind_of_body() -> None:
    texts = guessed_together(PRISTINE.encode(), ["quote", "Path.__init__", "Path.joined", "Path.gone"])
    assert len(texts) == 3
    argument = texts["their argument, of all"].decode()
    assert "return text" in argument and "return other" in argument and "self.parts = parts" in argument
    assert "return str(other)" in texts["the text of their argument, of all"].decode()
    for text in texts.values():
        compile(text, "module", "exec")
