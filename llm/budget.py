"""Cost of calls, and the limit that all calls together keep."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from ..errors import BudgetSpent, LLMError


@dataclass(frozen=True)
class Price:
    """Price of a model's tokens."""

    prompt: float = 0.0
    """USD per million tokens that the model reads."""
    completion: float = 0.0
    """USD per million tokens that the model writes."""

    @classmethod
    def read(cls, text: str) -> Price:
        """Parse ``IN,OUT``. Raises LLMError."""
        try:
            prompt, completion = (float(part) for part in text.split(","))
        except ValueError:
            prompt = completion = -1.0
        if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
            raise LLMError(f"not a price: {text!r}; give USD per million tokens read and written, such as 0.25,2")
        return cls(prompt, completion)

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of a call in USD."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True)
class Budget:
    """Limit on the cost of all calls together."""

    usd: float | None = None
    """USD; None sets no limit."""
    tokens: int | None = None
    """Tokens read and written; None sets no limit."""


@dataclass
class Usage:
    """Running totals of a client."""

    calls: int = 0
    """Calls that got an answer."""
    retries: int = 0
    """Attempts after the first one of a call."""
    unanswered: int = 0
    """Attempts without a readable answer that the endpoint may charge for; the budget counts their upper bound."""
    estimated: int = 0
    """Answers without token counts; their bytes are counted, which is never too little."""
    prompt_tokens: int = 0
    """Tokens read."""
    completion_tokens: int = 0
    """Tokens written."""
    usd: float = 0.0
    """Price of all answers in USD."""


Cost = tuple[float, float]
"""Tokens and USD of one call."""


class Meter:
    """Keep calls within a budget, also when several run at the same time.

    A running call reserves its upper bound. A call that does not fit beside the running ones waits until no other runs,
    and then runs if anything is left: the budget is exceeded by one call at most, as long as the endpoint keeps to the
    bound. After a reply that exceeded its bound, calls run one at a time. A ``strict`` meter refuses a call whose bound
    does not fit, so the budget is never exceeded by endpoints that keep to their bounds.
    """

    def __init__(self, budget: Budget, *, strict: bool = False) -> None:
        self._strict = strict
        self._limits = (
            math.inf if budget.tokens is None else budget.tokens,
            math.inf if budget.usd is None else budget.usd,
        )
        self.charged: Cost = (0.0, 0.0)
        self._reserved: Cost = (0.0, 0.0)
        self._running, self._bounded = 0, True
        self._changed = asyncio.Event()

    @property
    def spent(self) -> bool:
        """Return whether nothing is left."""
        return any(charged >= limit for charged, limit in zip(self.charged, self._limits, strict=True))

    def check(self) -> None:
        """Raise BudgetSpent when nothing is left."""
        if self.spent:
            tokens, usd = self.charged
            raise BudgetSpent(f"the budget is spent ({tokens:.0f} tokens, {usd:.4f} USD): raise it to continue")

    async def admit(self, bound: Cost) -> None:
        """Wait until a call that costs at most ``bound`` may run. Raises BudgetSpent."""
        while not (self.spent or (self._bounded and self._has_room(bound)) or not self._running):
            await self._changed.wait()
        self.check()
        if self._strict and not self._has_room(bound):
            raise BudgetSpent("the next call may exceed the budget: raise it to continue")
        self._running += 1
        self._reserved = (self._reserved[0] + bound[0], self._reserved[1] + bound[1])

    def settle(self, bound: Cost, cost: Cost) -> None:
        """Replace a finished call's reservation by its cost. It never waits, so a cancelled call is settled too."""
        self._running -= 1
        reserved = self._reserved
        self._reserved = (reserved[0] - bound[0], reserved[1] - bound[1]) if self._running else (0.0, 0.0)
        self.charged = (self.charged[0] + cost[0], self.charged[1] + cost[1])
        self._bounded = self._bounded and cost[0] <= bound[0] and cost[1] <= bound[1]
        self._changed.set()
        self._changed = asyncio.Event()

    async def charge_replayed(self, bound: Cost, cost: Cost) -> None:
        """Charge an answer of a cassette as if it came from the endpoint."""
        await self.admit(bound)
        self.settle(bound, cost)

    def _has_room(self, cost: Cost) -> bool:
        totals = zip(self.charged, self._reserved, cost, self._limits, strict=True)
        return all(charged + reserved + more <= limit for charged, reserved, more, limit in totals)
