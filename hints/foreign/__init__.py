"""Transcripts in anybody's words: a dialect's reader finds turns, calls and results; ``settle`` says how each went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import UnknownName
from ...registry import did_you_mean
from ..transcript import hermes
from ..transcript.parsing import text_of
from ..transcript.past_turns import PastTurn
from ..transcript.status_line import is_status
from . import etude, openai, react
from .drafts import DraftTurn
from .outcomes import settle

READERS: dict[str, Callable[[Sequence[Mapping[str, Any]]], list[DraftTurn]]] = {
    "etude": etude.read,
    "openai": openai.read,
    "hermes": hermes.read,
    "react": react.read,
}


def read(messages: Sequence[Any], tools: Sequence[Any] = (), dialect: str = "auto") -> list[PastTurn]:
    """The turns of a transcript. Nothing in ``messages`` is an error: what is no message is left out.

    Every result that begins with a status line is taken at that line's word, when all of the log's results do (in the
    dialect ``etude`` always). Otherwise the outcome comes from the shape of the results and the ``tools``' schemas.
    Raises UnknownName for a dialect that there is not.
    """
    kept = [message for message in messages if isinstance(message, Mapping)]
    if dialect == "auto":
        dialect = detect(kept)
    if dialect not in READERS:
        raise UnknownName(did_you_mean("dialect", dialect, [*READERS, "auto"]))
    return settle(READERS[dialect](kept), tools, trust=dialect == "etude")


def detect(messages: Sequence[Mapping[str, Any]]) -> str:
    """The dialect of a transcript: what its first message says (``dialect``), else what its calls look like.

    Calls in fields go before calls in text, because text may quote anything.
    """
    said = messages[0].get("dialect") if messages and messages[0].get("role") != "assistant" else None
    if isinstance(said, str) and said in READERS:
        return said
    spoken = [message for message in messages if message.get("role") == "assistant"]
    results = [text_of(message.get("content")) for message in messages if message.get("role") in ("tool", "function")]
    structured = "etude" if results and all(map(is_status, results)) else "openai"
    if any(message.get("tool_calls") or message.get("function_call") or message.get("tool") for message in spoken):
        return structured
    texts = [text_of(message.get("text")) or text_of(message.get("content")) for message in spoken]
    if any("<tool_call>" in text for text in texts):
        return "hermes"
    return "react" if any(react.looks_like(text) for text in texts) else structured


__all__ = ["READERS", "detect", "read"]
