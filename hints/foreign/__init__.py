"""Transcripts of other harnesses, which have no status lines, read into turns and calls with an outcome each.

Kept small on purpose: an outcome comes from schemas, flags, exit codes and result objects, and from about fifteen
patterns where a result has only words. What these do not cover counts as a call that worked.

Reading order: ``drafts`` (calls before judgement), ``formats`` and ``react_text`` (one reader per format),
``outcomes`` (the order of evidence), ``exit_codes``, ``result_objects``, ``result_words`` (three kinds of evidence),
``error_patterns`` (the kind of a failure).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import UnknownName
from ...registry import did_you_mean
from ..transcript.parsing import text_of
from ..transcript.past_turns import PastTurn
from ..transcript.status_line import is_status
from .drafts import DraftTurn
from .formats import read_hermes, read_openai
from .outcomes import settle
from .react_text import has_action, read_react

READERS: dict[str, Callable[[Sequence[Mapping[str, Any]]], list[DraftTurn]]] = {
    "etude": partial(read_openai, strict=True),
    "openai": read_openai,
    "hermes": read_hermes,
    "react": read_react,
}


def read(messages: Sequence[Any], tools: Sequence[Any] = (), dialect: str = "auto") -> list[PastTurn]:
    """Return the turns of a transcript in the format ``dialect`` (``auto``: see ``detect``).

    When every result begins with a status line, and always in the dialect ``etude``, that line alone decides. Otherwise
    the outcome comes from the shape of the results and from the ``tools``' schemas. Messages that are not mappings are
    skipped; nothing in a message raises. Raises UnknownName for an unknown dialect.
    """
    readable = [message for message in messages if isinstance(message, Mapping)]
    if dialect == "auto":
        dialect = detect(readable)
    if dialect not in READERS:
        raise UnknownName(did_you_mean("dialect", dialect, [*READERS, "auto"]))
    return settle(READERS[dialect](readable), tools, has_status_lines=dialect == "etude")


def detect(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the dialect that the first message names (``dialect``), else the one that the calls look like.

    Calls in fields win over calls in text, because text may quote anything.
    """
    named = messages[0].get("dialect") if messages and messages[0].get("role") != "assistant" else None
    if isinstance(named, str) and named in READERS:
        return named
    spoken = [message for message in messages if message.get("role") == "assistant"]
    results = [text_of(message.get("content")) for message in messages if message.get("role") in ("tool", "function")]
    structured = "etude" if results and all(map(is_status, results)) else "openai"
    if any(message.get("tool_calls") or message.get("function_call") or message.get("tool") for message in spoken):
        return structured
    texts = [text_of(message.get("text")) or text_of(message.get("content")) for message in spoken]
    if any("<tool_call>" in text for text in texts):
        return "hermes"
    return "react" if any(has_action(text) for text in texts) else structured


__all__ = ["READERS", "detect", "read"]
