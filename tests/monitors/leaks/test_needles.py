"""What counts as giving removed code away, and what may be said."""

from __future__ import annotations

from etude.monitors.leaks import Needles, needles
from etude.monitors.leaks.text import read


def texts(found: Needles, kind: str) -> list[str]:
    return [needle.text for needle in found.items if needle.kind == kind]


def test_names_that_stay_elsewhere_are_none(needle_set: Needles):
    names = texts(needle_set, "name")
    assert {"quadrant_changes", "first_vertex", "second_vertex"} <= set(names)
    assert not {"winding_number", "polygon", "centre_point", "crossing_direction", "ValueError", "return"} & set(names)


def test_a_message_is_a_needle_until_the_statement_says_it(removed: bytes):
    message = "the polygon passes through its centre point"
    assert message in texts(needles([removed], public=[]), "constant")
    assert texts(needles([removed], public=[f"It raises `{message}`".encode()]), "constant") == []


def test_a_docstring_in_the_statement_is_free_however_it_is_wrapped(removed: bytes):
    assert texts(needles([removed], public=[]), "docstring")
    wrapped = b"> Count how often a closed polygon\n> turns around one fixed point in the plane."
    assert texts(needles([removed], public=[wrapped]), "docstring") == []


def test_documents_may_share_words_but_no_code(removed: bytes):
    assert texts(needles([removed], public=[], prose=[removed]), "name") == []
    assert texts(needles([removed], public=[], prose=[removed]), "code")
    assert texts(needles([removed], public=[removed]), "code") == []


def test_formatting_hides_nothing(removed: bytes):
    found = needles([removed], public=[])
    packed = removed.replace(b"\n", b" ").replace(b" in ", b"  in\t").replace(b"'", b'"')
    assert {needle.kind for needle in found.within(read(packed))} >= {"name", "code"}


def test_dropping_common_words_keeps_phrases(needle_set: Needles):
    left = needle_set.without([b"quadrant_changes"])
    assert "quadrant_changes" not in texts(left, "name")
    assert texts(left, "code") == texts(needle_set, "code")
