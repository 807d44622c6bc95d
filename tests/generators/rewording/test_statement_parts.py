"""The parts of a statement, and the words in them that have to stay."""

from __future__ import annotations

import pytest

from etude.generators.rewording.statement_parts import Part, parts_of

TEXT = """\
# Wrong result of `scale('C')`

With scales 1.2.0 I get
this:

```pycon
>>> scale('C')

# not a heading
```
> Return the notes.
>
> Sorted.
Names:
- `scale`, as
  `scales.scale`
- two words
1. third
"""


def test_a_statement_is_read_part_by_part() -> None:
    assert parts_of(TEXT) == [
        Part("heading", "Wrong result of `scale('C')`"),
        Part("paragraph", "With scales 1.2.0 I get this:"),
        Part("block", "```pycon\n>>> scale('C')\n\n# not a heading\n```"),
        Part("quotation", "> Return the notes.\n>\n> Sorted."),
        Part("paragraph", "Names:"),
        Part("item", "`scale`, as `scales.scale`"),
        Part("item", "two words"),
        Part("item", "third"),
    ]


def test_a_block_that_is_not_closed_reaches_to_the_end() -> None:
    assert parts_of("````\n```\nx\n\n- y\n") == [Part("block", "````\n```\nx\n\n- y")]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("Call `f(1)` or ``a`b``.", ["f(1)", "a`b"], []),
        ("It raises KeyError (see scales.notes), not None.", [], ["KeyError", "scales.notes", "None"]),
        ("Two of 3 cases, e.g. with snake_case's value.", [], ["3", "snake_case"]),
        ("The check x == y is wrong; a<b too.", [], ["==", "a<b"]),
        (
            "A KeyError—it is **1.2.0**-only and/or _really_ ValueError-like, with -1.",
            [],
            ["KeyError", "1.2.0", "ValueError", "-1"],
        ),
        ("Nothing technical here. It is plain!", [], []),
    ],
)
def test_code_and_technical_words_are_told_from_prose(text: str, code: list[str], words: list[str]) -> None:
    part = Part("paragraph", text)
    assert (part.code, part.technical_words) == (code, words)
