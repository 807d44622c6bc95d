"""Difficulty as users give it: the share of tries that fail, from 0 to 1."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import GeneratorError

NAMED = {"easy": (0.0, 0.3), "medium": (0.3, 0.7), "hard": (0.7, 1.0)}


@dataclass(frozen=True)
class Band:
    """Difficulties from ``low`` to ``high``, both included."""

    low: float
    high: float

    @classmethod
    def read(cls, text: str) -> Band:
        """Return the band that ``easy``, ``medium``, ``hard`` or ``LOW:HIGH`` names. Raises GeneratorError."""
        low, high = NAMED.get(text, (-1.0, -1.0))
        if text not in NAMED:
            try:
                low, high = (float(part) for part in text.split(":"))
            except ValueError:
                low = -1.0
        if not 0 <= low < high <= 1:
            raise GeneratorError(
                f"--difficulty cannot be {text!r}; give easy, medium, hard or LOW:HIGH from 0 to 1, such as 0.3:0.7"
            )
        return cls(low, high)

    @property
    def middle(self) -> float:
        """Return the difficulty that is asked for most."""
        return (self.low + self.high) / 2

    def __contains__(self, difficulty: float) -> bool:
        return self.low <= difficulty <= self.high

    def __str__(self) -> str:
        return f"{self.low:g}:{self.high:g}"


MEDIUM = Band(*NAMED["medium"])
"""Tasks from which most is learned: neither always solved nor always failed."""
