"""The verifier ``answer``: an exact answer and exact effects; no code runs.

Both answers are brought into a normal form before they are compared:

| form | normal form | so that these are equal |
|---|---|---|
| ``text`` | without space around it | ``four`` and `` four `` |
| ``names`` | the set of names, sorted, joined by ``, `` | ``b, a``, ``a,b``, ``[`a`, 'b']`` and one name a line |
| ``value`` | ``repr`` of the Python literal | ``{'a':1}`` and ``{"a": 1}``; a text also without its quotes |
"""

from __future__ import annotations

import ast
import re

from ...models import AnswerForm, AnswerVerifier
from .submission import Submission, Verdict, broken_task

MAX_ANSWER = 100_000
"""Characters of a value beyond which it is compared as a text."""


async def verify(submission: Submission) -> Verdict:
    """Compare the submitted answer and the effects of the episode with the task's own."""
    verifier = submission.task.verifier
    if not isinstance(verifier, AnswerVerifier):
        raise broken_task(submission.task, "no answer to compare with")
    return Verdict(
        {
            "answer": float(not submission.problem and is_answer(submission.answer, verifier)),
            "effects": float(not submission.problem and dict(submission.effects) == verifier.effects),
        },
        end_cause=submission.problem,
    )


def is_answer(text: str, verifier: AnswerVerifier) -> bool:
    """Return whether a text is the answer, in any spelling that its form allows."""
    expected = normal_form(verifier.answer, verifier.form)
    if normal_form(text, verifier.form) == expected:
        return True
    return verifier.form == "value" and expected == repr(text.strip())


def normal_form(text: str, form: AnswerForm) -> str:
    """Return the normal form of an answer; a value that is not a Python literal is compared as a text."""
    plain = text.strip()
    if form == "names":
        return ", ".join(sorted(set(_names(plain))))
    return _value(plain) if form == "value" else plain


def _names(text: str) -> list[str]:
    """Return the names of a list in any usual notation."""
    parts = (part.strip(" \t\r-*`'\"()[]{}") for part in re.split(r"[,;\n]", text))
    return [part for part in parts if part]


def _value(text: str) -> str:
    literal = text.strip("`").strip()
    if len(literal) > MAX_ANSWER:
        return text
    try:
        return _ordered(ast.literal_eval(literal))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _ordered(value: object) -> str:
    """Return ``repr`` of a literal, with the items of sets and the keys of dictionaries in one order."""
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_ordered(key)}: {_ordered(item)}" for key, item in value.items())) + "}"
    if isinstance(value, set):
        return "{" + ", ".join(sorted(map(_ordered, value))) + "}" if value else "set()"
    if isinstance(value, list):
        return "[" + ", ".join(map(_ordered, value)) + "]"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_ordered(item)}, " for item in value) + ")"
    return repr(value)
