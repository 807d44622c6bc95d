"""Report of a replay: its counts and costs, its warnings, and whether it is complete."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Report:
    """Counts and costs of a replay.

    ``stopped`` says why it ended before the last turn, with ``unreached`` turns left; '' when it did not. ``usd`` and
    ``tokens`` are everything that was paid for, or may be charged for, over every start; answers from a cassette cost
    nothing. ``unheard`` counts the questions without an answer, follow-up questions included.

    ``pairs_if_all`` (estimate, low, high) is what asking about every one of the ``turns`` would have brought, from the
    logged propensities, and ``regret`` how much of that is missing. Neither covers turns that were not reached.
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
        """Return what another start, or other settings, may add; '' when every question was answered."""
        if self.stopped:
            return f"{self.stopped}, {self.unreached} turns were not reached"
        if self.unheard:
            return f"{self.unheard} questions have no answer"
        dropped = [name for name, teacher in self.teachers.items() if teacher["out"]]
        return f"{', '.join(dropped)} was asked no more" if dropped else ""

    @property
    def usd_per_pair(self) -> float | None:
        """Return the cost of a pair; None without a pair."""
        pairs = sum(self.pairs.values())
        return self.usd / pairs if pairs else None

    def row(self) -> dict[str, Any]:
        """Return plain values for a table or JSON."""
        return {
            **self.__dict__,
            "complete": not self.lacks,
            "pairs": dict(self.pairs),
            "reasons": dict(self.reasons),
            "usd_per_pair": self.usd_per_pair,
        }

    def warnings(self) -> list[str]:
        """Return one line for each teacher that failed and for each reason why actions were not executed."""
        lines = []
        for name, teacher in self.teachers.items():
            unanswered = teacher["asked"] - teacher["answered"]
            if teacher["out"]:
                lines.append(f"the teacher {name} was asked no more: {teacher['out']}")
            elif unanswered:
                share = f"{unanswered} of {teacher['asked']} questions"
                lines.append(f"the teacher {name} left {share} without an answer, the last one: {teacher['problem']}")
        lines += [f"{number} actions were not executed: {reason}" for reason, number in self.not_executed.items()]
        return lines

    def why_none(self) -> str:
        """Return the reasons why turns gave no pair, the most frequent first."""
        return ", ".join(f"{reason} {number}" for reason, number in self.reasons.most_common()) or "no turn was asked"
