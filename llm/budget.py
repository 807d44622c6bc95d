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


class Meter:
    """Keeps calls within a budget, also when several run at once.

    A call holds its upper bound while it runs. One that does not fit beside the others waits until it is alone, and
    runs if anything is left: so the budget is exceeded by one call at most, if the endpoint keeps to the bound.
    After a reply that did not, every call runs alone.
    """

    def __init__(self, budget: Budget, price: Price) -> None:
        if budget.usd is not None and not (price.prompt or price.completion):
            raise LLMError("a budget in USD needs the price of a token: give --price IN,OUT in USD per million tokens")
        self.price = price
        self._limits = (
            math.inf if budget.tokens is None else budget.tokens,
            math.inf if budget.usd is None else budget.usd,
        )
        self._charged, self._held, self._running, self._bounded = (0.0, 0.0), (0.0, 0.0), 0, True
        self._changed = asyncio.Event()

    @property
    def spent(self) -> bool:
        return any(have >= limit for have, limit in zip(self._charged, self._limits, strict=True))

    def check(self) -> None:
        """Raises BudgetSpent."""
        if self.spent:
            tokens, usd = self._charged
            raise BudgetSpent(f"the budget is spent ({tokens:.0f} tokens, {usd:.4f} USD): raise it to go on")

    def _cost(self, tokens: tuple[int, int]) -> tuple[float, float]:
        return float(sum(tokens)), self.price.usd(*tokens)

    def _fits(self, cost: tuple[float, float]) -> bool:
        together = zip(self._charged, self._held, cost, self._limits, strict=True)
        return self._bounded and all(have + held + more <= limit for have, held, more, limit in together)

    async def admit(self, bound: tuple[int, int]) -> None:
        """Wait until a call of at most ``bound`` (prompt, completion) tokens may run. Raises BudgetSpent."""
        cost = self._cost(bound)
        while not (self.spent or self._fits(cost) or not self._running):
            await self._changed.wait()
        self.check()
        self._running += 1
        self._held = (self._held[0] + cost[0], self._held[1] + cost[1])

    def settle(self, bound: tuple[int, int], actual: tuple[int, int]) -> None:
        """The call is over and cost ``actual``. Waits for nothing, so a call that is cancelled is settled too."""
        held, cost = self._cost(bound), self._cost(actual)
        self._running -= 1
        self._held = (self._held[0] - held[0], self._held[1] - held[1]) if self._running else (0.0, 0.0)
        self._charged = (self._charged[0] + cost[0], self._charged[1] + cost[1])
        self._bounded = self._bounded and cost[0] <= held[0] and cost[1] <= held[1]
        self._changed.set()
        self._changed = asyncio.Event()
