"""Needles: which words of removed code give it away, and which ones the agent may read."""

from __future__ import annotations

from etude.monitors.leaks import Needles, needles
from etude.monitors.leaks.text import read


def texts(needles: Needles, kind: str) -> list[str]:
    return [needle.text for needle in needles.items if needle.kind == kind]


def test_names_that_stay_elsewhere_are_not_needles(shape_needles: Needles):
    names = texts(shape_needles, "name")
    assert {"quadrant_changes", "first_vertex", "second_vertex"} <= set(names)
    assert not {"winding_number", "polygon", "centre_point", "crossing_direction", "ValueError", "return"} & set(names)


def test_a_message_is_a_needle_unless_the_statement_quotes_it(removed: bytes):
    message = "the polygon passes through its centre point"
    assert message in texts(needles([removed], visible=[]), "constant")
    assert texts(needles([removed], visible=[f"It raises `{message}`".encode()]), "constant") == []


def test_a_docstring_is_not_a_needle_when_the_statement_quotes_it_wrapped(removed: bytes):
    assert texts(needles([removed], visible=[]), "docstring")
    wrapped = b"> Count how often a closed polygon\n> turns around one fixed point in the plane."
    assert texts(needles([removed], visible=[wrapped]), "docstring") == []


def test_documents_may_share_words_but_not_code(removed: bytes):
    assert texts(needles([removed], visible=[], prose=[removed]), "name") == []
    assert texts(needles([removed], visible=[], prose=[removed]), "code")
    assert texts(needles([removed], visible=[removed]), "code") == []


def test_formatting_hides_nothing(removed: bytes):
    candidates = needles([removed], visible=[])
    packed = removed.replace(b"\n", b" ").replace(b" in ", b"  in\t").replace(b"'", b'"')
    assert {needle.kind for needle in candidates.within(read(packed))} >= {"name", "code"}


def test_dropping_common_words_keeps_phrases(shape_needles: Needles):
    remaining = shape_needles.without([b"quadrant_changes"])
    assert "quadrant_changes" not in texts(remaining, "name")
    assert texts(remaining, "code") == texts(shape_needles, "code")
