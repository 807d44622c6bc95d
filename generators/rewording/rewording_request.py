"""The request for another wording: the model reads the statement alone, and nothing that an agent may not read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

Message = dict[str, str]
"""One message of a chat."""

MIN_TOKENS = 4096
"""Tokens that an answer may have at least; a model that thinks first needs them."""

_RULES = """\
You are an editor. You are given the statement of a programming task and write it in your own words, as the user or the
maintainer of a package would write it. You have not seen the code and its tests: add no fact, no cause, no advice and
no example.

- Keep the kind of text. A user's report of a problem stays one, an order of a maintainer stays an order, and a note of
  one or two sentences stays that short.
- Every requirement stays, and none is added.
- Copy fenced blocks of code, and quotations (lines that start with >), exactly and in the same order. Write no others.
- Every code span, name, signature, version, number, literal and message stays, spelled as it is. Use no code span, name
  or number that the statement lacks.
- List items with code or numbers stay as they are. Items of plain words may become sentences of the same words.
- Stay between half and one and a half times the length.

Answer with the new text between <statement> and </statement>, and nothing else."""


@dataclass(frozen=True)
class Refusal:
    """Why a text cannot be the statement: ``reason`` is counted, ``detail`` is what the model is given to correct."""

    reason: str
    detail: str


def first_request(statement: str) -> list[Message]:
    """Return the messages that ask for another wording of a statement."""
    return [
        {"role": "system", "content": _RULES},
        {"role": "user", "content": f"<statement>\n{statement.strip()}\n</statement>"},
    ]


def next_request(messages: Sequence[Message], answer: str, refusals: Sequence[Refusal]) -> list[Message]:
    """Return the messages that ask once more, with the reasons why ``answer`` was refused."""
    reasons = "\n".join(f"- {refusal.detail}" for refusal in refusals)
    text = f"This text cannot be used:\n\n{reasons}\n\nWrite it again, in full, between <statement> and </statement>."
    return [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": text}]


def token_limit(statement: str) -> int:
    """Return how many tokens an answer may have: a token has at least one byte."""
    return max(MIN_TOKENS, 2 * len(statement.encode()))


def text_of(answer: str) -> str:
    """Return the text of an answer, ending with a newline; '' where there is none."""
    match = re.search(r"<statement>(.*)</statement>", answer.replace("\r\n", "\n"), re.DOTALL)
    text = match[1].strip() if match else ""
    return f"{text}\n" if text else ""
