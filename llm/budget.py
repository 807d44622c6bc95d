"""What calls cost, and how they are kept within a budget."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from ..errors import BudgetSpent, LLMError


@dataclass(frozen=True)
class Price:
    """USD per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    @classmethod
    def read(cls, text: str) -> Price:
        """From ``IN,OUT``. Raises LLMError."""
        try:
            prompt, completion = (float(part) for part in text.split(","))
        except ValueError:
            prompt = completion = -1.0
        if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
            raise LLMError(f"not a price: {text!r}; give USD per million tokens read and written, such as 0.25,2")
        return cls(prompt, completion)

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True)
class Budget:
    """What all calls together may cost; ``None``: no limit."""

    usd: float | None = None
    tokens: int | None = None


@dataclass
class Usage:
    """What was asked. ``lost`` attempts had no readable answer but may be charged for; the budget counts them in full.

    ``estimated`` replies came without token counts: their bytes are counted, which is never too little.
    """

    calls: int = 0
    retries: int = 0
    lost: int = 0
    estimated: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0


Cost = tuple[float, float]
"""Tokens and USD of one call."""


class Meter:
    """Spending of the calls that share a budget; keeps them within it, also when several run at once.

    A call reserves its upper bound while it runs. A call that does not fit beside the others waits until it is alone,
    and runs if anything is left: so the budget is exceeded by one call at most, if the endpoint keeps to the bound.
    After a reply that did not, every call runs alone. A ``strict`` meter refuses a call whose bound does not fit, so
    the budget is never exceeded by endpoints that keep to their bounds.
    """

    def __init__(self, budget: Budget, *, strict: bool = False) -> None:
        self._strict = strict
        self._limits = (
            math.inf if budget.tokens is None else budget.tokens,
            math.inf if budget.usd is None else budget.usd,
        )
        self.charged: Cost = (0.0, 0.0)
        self._held: Cost = (0.0, 0.0)
        self._running, self._bounded = 0, True
        self._changed = asyncio.Event()

    @property
    def spent(self) -> bool:
        return any(have >= limit for have, limit in zip(self.charged, self._limits, strict=True))

    def check(self) -> None:
        """Raises BudgetSpent."""
        if self.spent:
            tokens, usd = self.charged
            raise BudgetSpent(f"the budget is spent ({tokens:.0f} tokens, {usd:.4f} USD): raise it to go on")

    async def admit(self, bound: Cost) -> None:
        """Wait until a call that costs at most ``bound`` may run. Raises BudgetSpent."""
        while not (self.spent or (self._bounded and self._has_room(bound)) or not self._running):
            await self._changed.wait()
        self.check()
        if self._strict and not self._has_room(bound):
            raise BudgetSpent("the next call may exceed the budget: raise it to go on")
        self._running += 1
        self._held = (self._held[0] + bound[0], self._held[1] + bound[1])

    def settle(self, bound: Cost, cost: Cost) -> None:
        """Charge a call that is over. Waits for nothing, so a call that is cancelled is settled too."""
        self._running -= 1
        self._held = (self._held[0] - bound[0], self._held[1] - bound[1]) if self._running else (0.0, 0.0)
        self.charged = (self.charged[0] + cost[0], self.charged[1] + cost[1])
        self._bounded = self._bounded and cost[0] <= bound[0] and cost[1] <= bound[1]
        self._changed.set()
        self._changed = asyncio.Event()

    async def charge_replayed(self, bound: Cost, cost: Cost) -> None:
        """Charge an answer of a cassette as if it had been asked for."""
        await self.admit(bound)
        self.settle(bound, cost)

    def _has_room(self, cost: Cost) -> bool:
        columns = zip(self.charged, self._held, cost, self._limits, strict=True)
        return all(charged + held + more <= limit for charged, held, more, limit in columns)
