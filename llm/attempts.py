"""One attempt to get an answer: why it failed, whether to try again, and after how long."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from ..errors import ContextFull, EndpointFailed, EndpointRefused

_CONTEXT = re.compile(
    r"context_length_exceeded|maximum context|context (?:length|window|size)|prompt is too long", re.I
)


class AttemptFailed(Exception):
    """Raised when one attempt failed and another may succeed.

    ``charged``: the endpoint may charge for the attempt although its answer did not arrive. ``wait``: the seconds that
    the endpoint asked the client to wait, or None when it named no time.
    """

    def __init__(self, cause: str, *, wait: float | None = None, charged: bool = False) -> None:
        super().__init__(cause)
        self.wait = wait
        self.charged = charged


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait, or None when it does not say.

    RFC 9110, section 10.2.3, allows a number of seconds or a date.
    """
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def refusal(status: int, headers: Mapping[str, str], text: str, summary: str) -> Exception:
    """Return the exception that an answer with this HTTP status stands for.

    ``text`` is the printable beginning of the body, ``summary`` the beginning of the exception's message.
    """
    if status in (408, 409, 425, 429) or status >= 500:
        if "insufficient_quota" in text:
            return EndpointRefused(f"{summary}; the account has no credit left")
        return AttemptFailed(summary, wait=retry_after(headers))
    if status in (401, 403):
        return EndpointRefused(f"{summary}; check the key (--api-key-env names the variable that holds it)")
    if status < 400 or status in (404, 405):
        return EndpointRefused(f"{summary}; check --base-url (it often ends in /v1) and the model's name")
    if _CONTEXT.search(text):
        return ContextFull(summary)
    return EndpointFailed(summary)


def backoff(attempt: int) -> float:
    """Return the seconds before attempt ``attempt + 1``: doubling from 0.5, with jitter so that callers spread."""
    return float(min(30.0, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0))
