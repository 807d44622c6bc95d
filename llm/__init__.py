"""One client for any OpenAI-compatible endpoint: async, retried, bounded in time, in calls at once and in cost.

Every error is an ``LLMError`` with one line to show:

- ``EndpointRefused``: nothing will work until a setting changes (key, model, address);
- ``EndpointFailed``: this call got no answer, whatever was tried; ``EndpointUnavailable``: nor would another one now,
  ``ContextFull``: its messages were too long, ``AccessDenied``: after answers, the key or the credit no longer do;
- ``BudgetSpent``: the budget allows no further call;
- ``CassetteMiss``: the cassette that is replayed does not hold this request.
"""

from __future__ import annotations

from ..errors import (
    AccessDenied,
    BudgetSpent,
    CassetteMiss,
    ContextFull,
    EndpointFailed,
    EndpointRefused,
    EndpointUnavailable,
    LLMError,
)
from .answers import Reply
from .budget import Budget, Price, Usage
from .cassettes import Cassette
from .client import LLM
from .endpoints import BASE_URL, key_from, shown

__all__ = [
    "BASE_URL",
    "LLM",
    "AccessDenied",
    "Budget",
    "BudgetSpent",
    "Cassette",
    "CassetteMiss",
    "ContextFull",
    "EndpointFailed",
    "EndpointRefused",
    "LLMError",
    "Price",
    "Reply",
    "EndpointUnavailable",
    "Usage",
    "key_from",
    "shown",
]
