"""Values of tests that a right solution fails: which they are, how alike their texts look, and what comes last."""

from __future__ import annotations

import ast
import random

import pytest

from etude.generators.validation.checks.control_edits import choices, other_texts, place_of

DRAW, MOST = 7, 4


def changed(source: str, *names: str) -> list[list[str]]:
    """Return the sources with each text of each value that is proposed."""
    text = source.encode()
    return [
        [
            (text[: choice.start] + other.encode() + text[choice.start + len(choice.texts[0].encode()) :]).decode()
            for other in choice.texts
        ]
        for choice in choices(text, names, random.Random(DRAW), MOST)
    ]


@pytest.mark.parametrize("text", ["7", "-1", "100", "1.5", "1e10", "'abc'", '"abc"', "b'xyz'", "'A1'", "'v1.20-rc'"])
def test_the_texts_of_a_value_differ_in_one_character_and_none_stands_out(text: str) -> None:
    for seed in range(30):
        texts = other_texts(text, random.Random(seed), MOST)
        assert texts[0] == text and len(texts) == len(set(texts)) == MOST
        values = [ast.literal_eval(other) for other in texts]
        assert len({type(value) for value in values}) == 1 and len(set(values)) == MOST
        for one in texts:  # so the right one is not the one that is nearest to all others
            assert [sum(a != b for a, b in zip(one, other, strict=True)) for other in texts if other != one] == [1] * 3


@pytest.mark.parametrize(
    ("text", "words", "word", "are_among_them"),
    [
        ("'alpha-7'", {"alpha"}, "7", False),
        ("'alpha-beta'", {"alpha"}, "beta", False),
        ("'7'", {"1", "2", "3", "7", "9"}, "7", True),
        ("'alpha'", {"alpha"}, "alpha", False),
    ],
)
def test_the_changed_word_is_not_given_away_by_the_words_around(
    text: str, words: set[str], word: str, are_among_them: bool
) -> None:
    for seed in range(20):
        texts = other_texts(text, random.Random(seed), MOST, words)
        changed_words = {other.strip("'").split("-")[-1 if "-" in text else 0] for other in texts}
        assert word in changed_words and len(changed_words) == MOST
        assert all((other in words) is are_among_them for other in changed_words - {word})


def test_a_choice_says_whether_the_file_gives_its_value_away() -> None:
    source = b"NAME = 'alpha'\n\ndef test_a():\n    assert f(3) == 'alpha'\n    assert f(4) == 41\n"
    hidden = {choice.texts[0]: choice.is_hidden for choice in choices(source, ["test_a"], random.Random(DRAW), MOST)}
    assert hidden["'alpha'"] is False and hidden["41"] is True


@pytest.mark.parametrize("text", ["''", "'-'", "b''", "None", "x", "'\\n'"])
def test_a_value_without_a_letter_or_a_digit_has_no_other_texts(text: str) -> None:
    assert other_texts(text, random.Random(DRAW), MOST) == ()


def test_the_compared_value_comes_first_and_the_opposite_last() -> None:
    first, *_, last = changed("def test_a():\n    assert f(3) == 4\n", "test_a")
    assert all(text.startswith("def test_a():\n    assert f(3) == ") for text in first) and len(set(first)) == MOST
    assert last == ["def test_a():\n    assert f(3) == 4\n", "def test_a():\n    assert not (f(3) == 4)\n"]


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("def test_a():\n    expected = ['x']\n    assert f(3) == expected\n", "f(3) == expected"),
        ("@pytest.mark.parametrize('a, b', [(1, 2), (3, 4)])\ndef test_a(a, b):\n    assert f(a) == b\n", "f(a) == b"),
        ("def test_a():\n    assert f(3) is True\n", "f(3) is False"),
        ("def test_a():\n    with pytest.raises(ValueError):\n        f(3)\n", "        f(3)"),
        ("def test_a():\n    check(f(x), 4)\n", "check(f(x), "),
    ],
)
def test_what_a_test_expects_is_found(source: str, kept: str) -> None:
    first = changed(source, "test_a")[0]
    assert first[0] == source and first[1] != source
    assert kept in first[1]
    for text in first:
        ast.parse(text)


@pytest.mark.parametrize(
    ("source", "opposite"),
    [
        ("def test_a():\n    assert f(3)\n", "assert not (f(3))"),
        ("def test_a(self):\n    self.assertTrue(f(3))\n", "self.assertFalse(f(3))"),
    ],
)
def test_the_argument_of_a_claim_comes_before_its_opposite_which_looks_wrong(source: str, opposite: str) -> None:
    argument, claim = changed(source, "test_a")
    assert len(set(argument)) == MOST and all(text.startswith(source.partition("3")[0]) for text in argument)
    assert opposite in claim[1]


def test_exceptions_are_neither_bases_of_the_expected_one_nor_derived_from_it() -> None:
    source = "def test_a():\n    with pytest.raises(LookupError):\n        f(3)\n"
    texts = {
        text for seed in range(20) for text in next(choices(source.encode(), ["test_a"], random.Random(seed), 9)).texts
    }
    assert "LookupError" in texts and not texts & {"KeyError", "IndexError"} and len(texts) > MOST


def test_an_argument_of_a_case_stays() -> None:
    source = "@pytest.mark.parametrize('a, b', [(1, 2), (3, 4)])\ndef test_a(a, b):\n    assert f(a) == b\n"
    assert all("[(1, " in text and "(3, " in text for texts in changed(source, "test_a") for text in texts)


@pytest.mark.parametrize(
    "source", ["def test_b():\n    assert f() == 1\n", "def test_a(:\n", "def test_a():\n    f(x)\n", "class A: pass\n"]
)
def test_nothing_is_proposed_where_nothing_is_expected(source: str) -> None:
    assert changed(source, "test_a") == []


def test_methods_are_found_in_their_class_alone() -> None:
    source = "class TestA:\n    def test_a(self):\n        assert f() == 1\n"
    assert changed(source, "TestA", "test_a")
    assert not changed(source, "TestB", "test_a")


def test_a_function_is_its_lines_with_decorators() -> None:
    source = "import x\n\n\n@x.y(1)\n@x.z\ndef test_a():\n    pass\n\n\nclass T:\n    def test_b(self): pass  # so\n"
    text = source.encode()
    place = place_of(text, ["test_a"])
    assert place is not None
    assert text[place.start : place.end].decode() == "@x.y(1)\n@x.z\ndef test_a():\n    pass"
    assert text[place.name_at :].startswith(b"test_a")
    method = place_of(text, ["T", "test_b"])
    assert method is not None and text[method.start : method.end] == b"    def test_b(self): pass"
    assert place_of(b"def test_b(): pass\n", ["test_a"]) is None
