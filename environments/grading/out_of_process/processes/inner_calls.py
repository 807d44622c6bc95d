"""Examined functions that run inside the calls of a test: which calls run one, and how its answers vary there.

The text of this file runs in the sandbox of the tests, before that of ``boundary.py``, on Python 3.8 and later.
"""

from __future__ import annotations

import hashlib
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from ..values.places import text_of

MAX_NOTES = 20
"""Most different answers of an examined function that are noted for one test."""


def noted_answer(
    boundary: Any, target: str, original: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Call an examined function inside a recorded call, and note its answer: one that never varies could be guessed."""
    notes = boundary.inner.setdefault(target, [])
    if len(notes) > MAX_NOTES:
        return original(*arguments, **keywords)
    sent = [*arguments, *keywords.values()]
    before = boundary.values.texts(sent)
    try:
        result = original(*arguments, **keywords)
    except Exception as error:
        notes.append(f"{type(error).__name__} {text_of(error)}"[:200])
        raise
    after = boundary.values.texts(sent)
    changes = [text if text != old else "" for text, old in zip(after, before)]  # noqa: B905  of Python 3.10
    digest = hashlib.sha256(repr([boundary.values.texts([result]), changes]).encode("utf-8", "replace")).hexdigest()
    if digest not in notes:
        notes.append(digest)
    return result


def observed(boundary: Any, target: str, original: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a function of the workspace; note it as an entry where an examined one runs."""
    before, boundary.reached = boundary.reached, {target}
    try:
        result = original(*arguments, **keywords)
        return boundary.values.taken(result) if isinstance(result, types.GeneratorType) else result
    finally:
        _note_entry(boundary, target, before)


async def observed_coroutine(
    boundary: Any, target: str, original: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Call a coroutine function of the workspace; note it as an entry where an examined one runs."""
    before, boundary.reached = boundary.reached, {target}
    try:
        return await original(*arguments, **keywords)
    finally:
        _note_entry(boundary, target, before)


def _note_entry(boundary: Any, target: str, before: set[str]) -> None:
    if boundary.reached & boundary.targets:
        boundary.entries.add(target)
    boundary.reached |= before
