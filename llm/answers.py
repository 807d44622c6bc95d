"""Chat completions: reading an endpoint's answer, and counting what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .budget import Price
from .printable import masked

MAX_DEPTH = 100
"""Nesting depth at which an answer is cut, because deeper values could not be written as JSON again."""
_MAX_COUNT = 2**53
"""Smallest token count that is not believed: beyond it a float cannot represent every integer."""


@dataclass(frozen=True)
class Reply:
    """The assistant's message as the endpoint sent it, cleaned by ``read_message``, with its cost."""

    message: dict[str, Any]
    """Message in OpenAI's chat format."""
    finish_reason: str
    """Why the endpoint stopped generating; empty when it did not say."""
    prompt_tokens: int
    """Tokens that the model read."""
    completion_tokens: int
    """Tokens that the model wrote."""
    usd: float
    """Price of the call in USD."""
    estimated: bool = False
    """Whether the token counts are byte counts, because the endpoint sent none."""


def read_message(data: bytes, secret: str = "") -> dict[str, Any] | None:
    """Parse a chat completion; return None for anything that holds no message.

    The result can be stored and sent again: ``secret`` is masked, lone surrogates become ``?``, and nesting deeper
    than ``MAX_DEPTH`` is cut.
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
    """Return the message of a chat completion and its cost.

    Where the endpoint sends no usable token counts, bytes are counted instead, which never counts too little.
    """
    choice, usage = answer["choices"][0], answer.get("usage")
    prompt, completion = (_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))
    estimated = prompt is None or completion is None
    if prompt is None or completion is None:
        prompt, completion = prompt_bytes, size(choice["message"])
    reason = choice.get("finish_reason")
    finish_reason = reason if isinstance(reason, str) else ""
    return Reply(choice["message"], finish_reason, prompt, completion, price.usd(prompt, completion), estimated)


def size(value: Any) -> int:
    """Return the bytes of a value as JSON, which is an upper bound of its tokens."""
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))


def _count(usage: Any, name: str) -> int | None:
    count = usage.get(name) if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < _MAX_COUNT else None


def _clean(answer: dict[str, Any], secret: str) -> None:
    """Clean every string and cut deep nesting, in place; iterative, since JSON may nest as deep as the stack."""

    def clean(value: Any) -> Any:
        return masked(value.encode("utf-8", "replace").decode(), secret) if isinstance(value, str) else value

    pending: list[tuple[Any, int]] = [(answer, 1)]
    while pending:
        container, depth = pending.pop()
        if isinstance(container, dict):
            pairs = [(clean(name), value) for name, value in container.items()]
            container.clear()
            container.update(pairs)
        for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if not isinstance(value, (dict, list)):
                container[key] = clean(value)
            elif depth < MAX_DEPTH:
                pending.append((value, depth + 1))
            else:
                container[key] = "(nested too deep)"
