"""Client for any OpenAI-compatible endpoint: async, with retries, bounded in time, in concurrency and in cost.

Read ``client`` first. It uses ``attempts`` (why an attempt failed), ``answers`` (reading a completion), ``budget``,
``cassettes`` (recorded answers), ``endpoints`` (addresses and keys) and ``printable`` (text that is safe to show).
Every error is an ``LLMError`` with a message of one line; ``etude.errors`` lists them.
"""

from __future__ import annotations

from .answers import Reply
from .budget import Budget, Price
from .cassettes import Cassette
from .client import LLM
from .endpoints import BASE_URL, key_from
from .printable import shown

__all__ = ["BASE_URL", "LLM", "Budget", "Cassette", "Price", "Reply", "key_from", "shown"]
