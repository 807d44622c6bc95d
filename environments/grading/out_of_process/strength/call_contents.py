"""Contents of calls without the numbers of objects, by which calls are counted as equal or different.

A form that names an object of an earlier message stands for the last known content of that object.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..forms import argument_forms
from ..recorded_calls import Call
from ..values.places import canonical

_NUMBERED = frozenset(("l", "S", "d", "ba", "o", "m", "n", "h", "O", "fn", "k", "L", "B", "r"))
_NUMBER = re.compile(r"\d+\..*\d")
_KNOWN = ("r", "h")
"""Tags of forms that name an object which another message has in full."""


def call_contents(calls: Sequence[Call]) -> list[str]:
    """Return a text for each call of one test, with its target and the contents of its arguments."""
    arguments = [*map(argument_forms, calls)]
    named = {form[1] for form in _numbered(arguments) if form[0] in _KNOWN} | {call["target"][1:] for call in calls}
    digests: dict[Any, str] = {}
    texts = _Texts()
    contents: list[str] = []
    for call in calls:
        parts = [*call["arguments"], *map(list, call["keywords"].items())]
        contents.append(canonical([_target(call["target"], digests), [_content(part, digests) for part in parts]]))
        answer = call.get("answer")
        answer = answer if isinstance(answer, dict) else {}
        for part in [*argument_forms(call), *(answer.get("after") or []), answer.get("result")]:
            for form in _numbered(part):
                if form[0] not in _KNOWN and form[1] in named:
                    text = texts.of(form)
                    digests[form[1]] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return contents


def _target(target: str, digests: dict[Any, str]) -> str:
    return f"@{digests.get(target[1:], '')}" if target.startswith("@") else target


def _content(form: Any, digests: dict[Any, str]) -> Any:
    """Return a form without numbers."""
    if not isinstance(form, list):
        return form
    if not _is_numbered(form):
        return [_content(part, digests) for part in form]
    digest = digests.get(form[1]) if form[0] in _KNOWN else None
    return [form[0], digest, *(_content(part, digests) for part in form[2:])]


class _Texts:
    """Texts of forms without numbers. Named forms may hold one another, so that each part is written once."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Any, str]] = {}

    def of(self, form: Any) -> str:
        """Return the canonical text of a form without numbers."""
        if not isinstance(form, list):
            return canonical(form)
        written = self._texts.get(id(form))
        if written is None:
            parts = [form[0], None, *form[2:]] if _is_numbered(form) else form
            text = "[" + ",".join(map(self.of, parts)) + "]"
            written = self._texts[id(form)] = form, text
        return written[1]


def _numbered(form: Any) -> Iterator[list[Any]]:
    if isinstance(form, list):
        for part in form:
            yield from _numbered(part)
        if _is_numbered(form):
            yield form


def _is_numbered(form: list[Any]) -> bool:
    """Return whether a form has a number; data that looks like one is taken for one."""
    if len(form) < 2 or not isinstance(form[0], str) or form[0] not in _NUMBERED or (form[0] != "r" and len(form) < 3):
        return False
    return type(form[1]) is int or (isinstance(form[1], str) and _NUMBER.fullmatch(form[1]) is not None)
