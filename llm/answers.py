"""What an endpoint answers: a reply, or what its status means."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from ..errors import ContextFull, EndpointFailed, EndpointRefused
from .budget import Price
from .endpoints import masked
from .errors import Again

_CONTEXT = re.compile(
    r"context_length_exceeded|maximum context|context (?:length|window|size)|prompt is too long", re.I
)
MAX_DEPTH = 100
"""Nesting beyond which an answer is cut: what is deeper could not be written as JSON again."""
_COUNTABLE = 2**53
"""Tokens that a float no longer tells from one more: nobody has counted so many."""


@dataclass(frozen=True)
class Reply:
    """The assistant's message as the endpoint sent it (but see ``read_message``), and what it took."""

    message: dict[str, Any]
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    usd: float
    estimated: bool = False


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait (RFC 9110, 10.2.3: a number or a date); ``None`` when it does not say."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def read_message(data: bytes, secret: str = "") -> dict[str, Any] | None:
    """A chat completion that holds a message; ``None`` for anything else.

    It can be stored and sent: the ``secret`` is masked, lone surrogates are ``?``, and bottomless nesting is cut.
    """
    try:
        answer = json.loads(data)
        message = answer["choices"][0]["message"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    if not isinstance(message, dict):
        return None
    _clean(answer, secret)
    return dict(answer)


def reply_of(answer: Mapping[str, Any], price: Price, prompt_bytes: int) -> Reply:
    """The message and what it took; where the endpoint does not count, or not in numbers, bytes are counted."""
    choice, usage = answer["choices"][0], answer.get("usage")
    prompt, completion = (_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))
    estimated = prompt is None or completion is None
    if prompt is None or completion is None:
        prompt, completion = prompt_bytes, size(choice["message"])
    finish = choice.get("finish_reason")
    said = finish if isinstance(finish, str) else ""
    return Reply(choice["message"], said, prompt, completion, price.usd(prompt, completion), estimated)


def size(value: Any) -> int:
    """Bytes of a value as JSON: no fewer than its tokens."""
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))


def refusal(status: int, headers: Mapping[str, str], text: str, said: str) -> Exception:
    """What an answer with this status means; ``said`` begins the message."""
    if status in (408, 409, 425, 429) or status >= 500:
        if "insufficient_quota" in text:
            return EndpointRefused(f"{said}; the account has no credit left")
        return Again(said, wait=retry_after(headers))
    if status in (401, 403):
        return EndpointRefused(f"{said}; check the key (--api-key-env names the variable that holds it)")
    if status < 400 or status in (404, 405):
        return EndpointRefused(f"{said}; check --base-url (it often ends in /v1) and the model's name")
    if _CONTEXT.search(text):
        return ContextFull(said)
    return EndpointFailed(said)


def _count(usage: Any, name: str) -> int | None:
    count = usage.get(name) if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < _COUNTABLE else None


def _clean(answer: dict[str, Any], secret: str) -> None:
    """In place, and without recursion: JSON nests as deep as the stack goes."""

    def clean(value: Any) -> Any:
        return masked(value.encode("utf-8", "replace").decode(), secret) if isinstance(value, str) else value

    waiting: list[tuple[Any, int]] = [(answer, 1)]
    while waiting:
        holder, depth = waiting.pop()
        if isinstance(holder, dict):
            pairs = [(clean(name), value) for name, value in holder.items()]
            holder.clear()
            holder.update(pairs)
        for place, value in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if not isinstance(value, (dict, list)):
                holder[place] = clean(value)
            elif depth < MAX_DEPTH:
                waiting.append((value, depth + 1))
            else:
                holder[place] = "(nested too deep)"
