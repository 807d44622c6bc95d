"""What a replay came to, and what of it its user should know."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Report:
    """What a replay came to. ``stopped`` says why it ended before the last turn, with ``unreached`` ones left; '' when
    it did not. ``usd`` and ``tokens`` are what was paid for, over every start, and what else may be charged for;
    answers of a cassette that others paid for cost nothing. ``unheard`` counts questions without an answer, of those
    about what comes after an answer too.

    ``pairs_if_all`` and ``regret`` estimate, from the logged propensities, what asking about every one of the ``turns``
    would have brought, and how much of that was not got. Of those that were not reached they know nothing.
    """

    turns: int = 0
    unreached: int = 0
    asked: int = 0
    pairs: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    teachers: dict[str, dict[str, Any]] = field(default_factory=dict)
    usd: float = 0.0
    tokens: int = 0
    executed: int = 0
    not_executed: dict[str, int] = field(default_factory=dict)
    reliability: dict[str, dict[str, float]] = field(default_factory=dict)
    pairs_if_all: tuple[float, float, float] = (0.0, 0.0, 0.0)
    regret: float = 0.0
    stopped: str = ""
    unheard: int = 0

    @property
    def lacks(self) -> str:
        """What another start, or one with other settings, may bring; '' when every teacher was heard whenever it was to
        be asked."""
        if self.stopped:
            return f"{self.stopped}, {self.unreached} turns were not reached"
        if self.unheard:
            return f"{self.unheard} questions have no answer"
        out = [name for name, each in self.teachers.items() if each["out"]]
        return f"{', '.join(out)} was asked no more" if out else ""

    @property
    def usd_per_pair(self) -> float | None:
        """None without a pair."""
        found = sum(self.pairs.values())
        return self.usd / found if found else None

    def row(self) -> dict[str, Any]:
        """Plain values for a table or JSON."""
        return {
            **self.__dict__,
            "complete": not self.lacks,
            "pairs": dict(self.pairs),
            "reasons": dict(self.reasons),
            "usd_per_pair": self.usd_per_pair,
        }

    def warnings(self) -> list[str]:
        """A line for each thing that went otherwise than was asked for."""
        found = []
        for name, each in self.teachers.items():
            unanswered = each["asked"] - each["answered"]
            if each["out"]:
                found.append(f"the teacher {name} was asked no more: {each['out']}")
            elif unanswered:
                left = f"left {unanswered} of {each['asked']} questions without an answer"
                found.append(f"the teacher {name} {left}, the last one: {each['problem']}")
        found += [f"{number} actions were not executed: {why}" for why, number in self.not_executed.items()]
        return found

    def why_none(self) -> str:
        """The reasons for no pair, the most frequent first."""
        return ", ".join(f"{reason} {number}" for reason, number in self.reasons.most_common()) or "no turn was asked"
